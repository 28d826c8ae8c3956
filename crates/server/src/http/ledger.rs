//! What became of a schedule's ticks, and what is to come.

use axum::extract::{Request, State};
use axum::response::Response;
use hence_core::error::Rejection;
use hence_core::id::ScheduleId;
use hence_core::limits::PAGE_MAX;
use hence_core::schedule::{Fate, LedgerPlace, OccurrenceRecord};
use hence_core::time::{Millis, Timestamp};
use hence_core::when::limits::FORECAST_MINUTES_MAX;
use hence_store::{LedgerOrder, LedgerRequest};
use http::StatusCode;

use super::app::{self, App};
use super::errors::Problem;
use super::params::Params;
use super::types::ledger::{ForecastOut, OccurrenceOut, OccurrencesOut};
use super::types::rules;
use super::{cursor, schedules};
use crate::limits;

/// Shows what became of a schedule's ticks, page by page.
///
/// A run of consecutive ticks with one fate is one record, which stands at its last tick.
#[utoipa::path(
    get, path = "/v1/schedules/{id}/occurrences", tag = "schedules", operation_id = "occurrences",
    params(
        ("id" = rules::ScheduleId, Path, description = "The schedule's id"),
        ("from" = Option<String>, Query, description = "Only ticks at or after this instant"),
        ("to" = Option<String>, Query, description = "Only ticks up to and with this instant"),
        ("order" = Option<String>, Query, description = "`newest` first, or `oldest`"),
        ("fate" = Option<String>, Query, description = "Only these: `late,skipped`"),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 1000,
            description = "Rows at most, 1 to 1000; 100 when not given"),
        ("cursor" = Option<String>, Query, description = "The `next` of the page before"),
    ),
    responses((status = 200, description = "A page of the ledger", body = OccurrencesOut))
)]
pub(crate) async fn occurrences(
    State(app): State<App>,
    request: Request,
) -> Result<Response, Problem> {
    let known = ["from", "to", "order", "fate", "limit", "cursor"];
    let params = Params::read(request.uri(), &known)?;
    let (id, limit) = (schedules::id_of(request.uri())?, params.limit()?);
    // Asked first: an id that never was must not look like a schedule that never ticked.
    app.client.schedule(id.clone()).await?;
    let fates = fates(&params)?;
    let reading = app.reading();
    let up_to = |at: Timestamp| at.plus(Millis::new(1));
    let asked = LedgerRequest {
        from: params.bound("from", &reading)?.unwrap_or(Timestamp::MIN),
        until: params.bound("to", &reading)?.map_or(Timestamp::MAX, up_to),
        after: params.one("cursor")?.map(cursor::decode_place).transpose()?,
        order: match params.one("order")? {
            None | Some("newest") => LedgerOrder::Newest,
            Some("oldest") => LedgerOrder::Oldest,
            Some(_) => return Err(Rejection::invalid("order", "must be newest or oldest").into()),
        },
        ..LedgerRequest::newest(id, limit)
    };
    let (records, next) = read(&app, asked, &fates).await?;
    let answer = OccurrencesOut {
        occurrences: records.iter().map(OccurrenceOut::from).collect(),
        next: next.map(cursor::encode_place),
    };
    Ok(app::json(StatusCode::OK, &answer))
}

fn fates(params: &Params) -> Result<Vec<&str>, Problem> {
    let fates: Vec<&str> = params.all("fate").collect();
    if fates.iter().all(|fate| Fate::NAMES.contains(fate)) {
        return Ok(fates);
    }
    let names = Fate::NAMES.join(", ");
    Err(Rejection::invalid("fate", format!("must be some of {names}, between commas")).into())
}

/// A page of records with these fates, all if none is named, and where the next one begins.
async fn read(
    app: &App,
    mut asked: LedgerRequest,
    fates: &[&str],
) -> Result<(Vec<OccurrenceRecord>, Option<LedgerPlace>), Problem> {
    let limit = asked.limit;
    if !fates.is_empty() {
        asked.limit = PAGE_MAX;
    }
    let mut found = Vec::new();
    for _ in 0..limits::LEDGER_PAGES_MAX {
        let page = app.client.occurrences(asked.clone()).await?;
        let ends = page.len() < asked.limit;
        for record in page {
            asked.after = Some(record.place());
            if fates.is_empty() || fates.contains(&record.fate.as_str()) {
                found.push(record);
            }
            if found.len() == limit {
                return Ok((found, asked.after));
            }
        }
        if ends {
            return Ok((found, None));
        }
    }
    Ok((found, asked.after))
}

/// Counts how many jobs of schedules fall due in each of the coming minutes, spread included: a
/// herd at the full hour is seen before it runs.
#[utoipa::path(
    get, path = "/v1/forecast", tag = "schedules", operation_id = "forecast",
    params(
        ("schedule" = Option<rules::ScheduleId>, Query, description = "Of this schedule only"),
        ("minutes" = Option<u32>, Query, minimum = 1, maximum = 10080,
            description = "1 to 10080; a day when not given"),
    ),
    responses((status = 200, description = "The forecast", body = ForecastOut))
)]
pub(crate) async fn forecast(
    State(app): State<App>,
    request: Request,
) -> Result<Response, Problem> {
    let params = Params::read(request.uri(), &["schedule", "minutes"])?;
    let only = params.one("schedule")?.map(ScheduleId::new).transpose()?;
    let minutes = match params.one("minutes")?.map(str::parse) {
        None => limits::FORECAST_MINUTES_DEFAULT,
        Some(Ok(minutes)) if (1..=FORECAST_MINUTES_MAX).contains(&minutes) => minutes,
        Some(_) => return Err(Rejection::out_of_range("minutes", 1, FORECAST_MINUTES_MAX).into()),
    };
    let forecast = app.client.forecast(only, minutes).await?;
    Ok(app::json(StatusCode::OK, &ForecastOut::from(forecast)))
}
