//! Many jobs at once: lists and bulk actions.

use axum::extract::{Request, State};
use axum::response::Response;
use hence::client::{BulkAction, BulkReport};
use hence_core::error::Rejection;
use hence_core::id::{Key, QueueName, ScheduleId};
use hence_core::job::JobState;
use hence_core::when::Reading;
use hence_store::Filter;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::app::{self, App};
use super::errors::Problem;
use super::params::Params;
use super::types::job_out::JobOut;
use super::types::names::StateOut;
use super::types::object::Object;
use super::types::rules;
use super::types::word::word;
use super::when::{self, Moment};
use super::{body, cursor, params};

const STATES: [JobState; 7] = [
    JobState::Scheduled,
    JobState::Ready,
    JobState::Running,
    JobState::Succeeded,
    JobState::Dead,
    JobState::Cancelled,
    JobState::Expired,
];

/// A page of jobs.
#[derive(Serialize, ToSchema)]
#[schema(as = Jobs)]
pub(crate) struct JobsOut<'a> {
    /// Live ones by due time, then finished ones by when they finished.
    jobs: Vec<JobOut<'a>>,
    /// Say it as `cursor` to get the next page; absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// Lists jobs, page by page.
///
/// A job that stays as it is appears exactly once, however many come and go meanwhile. One whose
/// state or time changes between two pages may appear twice, or not at all.
#[utoipa::path(
    get, path = "/v1/jobs", tag = "jobs", operation_id = "list",
    params(
        ("queue" = Option<rules::QueueName>, Query, description = "In this queue"),
        ("key" = Option<rules::Key>, Query, description = "Under this key"),
        ("state" = Option<String>, Query, example = "ready,running",
            description = "In one of these states, repeated or between commas; the live ones when \
                not given"),
        ("schedule" = Option<rules::ScheduleId>, Query, description = "Made by this schedule"),
        ("from" = Option<String>, Query,
            description = "Due (or finished) at or after this instant; it may be past: \
                `1 hour ago`"),
        ("until" = Option<String>, Query, description = "Due (or finished) before this instant"),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 1000,
            description = "Rows at most, 1 to 1000; 100 when not given"),
        ("cursor" = Option<String>, Query, description = "The `next` of the page before"),
        ("payload" = Option<bool>, Query,
            description = "Whether to show payloads that are not large"),
    ),
    responses((status = 200, description = "A page", body = JobsOut<'_>))
)]
pub(crate) async fn list(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let known =
        ["queue", "key", "state", "schedule", "from", "until", "limit", "cursor", "payload"];
    let params = Params::read(request.uri(), &known)?;
    let filter = Filter {
        queue: params.one("queue")?.map(QueueName::new).transpose()?,
        key: params.one("key")?.map(Key::new).transpose()?,
        states: states(&params)?,
        schedule: params.one("schedule")?.map(ScheduleId::new).transpose()?,
        from: params.bound("from", &app.reading())?,
        until: params.bound("until", &app.reading())?,
    };
    let after = params.one("cursor")?.map(cursor::decode).transpose()?;
    let (limit, with_payload) = (params.limit()?, params.flag("payload")?);
    let page = app.client.list(filter, after, limit).await?;
    let show = if with_payload { JobOut::whole } else { JobOut::brief };
    let next = page.next.as_ref().map(cursor::encode);
    let answer = JobsOut { jobs: page.jobs.iter().map(show).collect(), next };
    Ok(app::json(StatusCode::OK, &answer))
}

/// The states asked for: none are all that are live.
fn states(params: &Params) -> Result<Vec<JobState>, Rejection> {
    let names: Vec<&str> = params.all("state").collect();
    if names.is_empty() && params.has("state") {
        let problem = "must name at least one state; leave it out for all that are live";
        return Err(Rejection::invalid("state", problem));
    }
    names.into_iter().map(|name| state("state", name)).collect()
}

fn state(field: &'static str, text: &str) -> Result<JobState, Rejection> {
    STATES.into_iter().find(|state| state.as_str() == text).ok_or_else(|| {
        let names = STATES.map(JobState::as_str).join(", ");
        Rejection::invalid(field, format!("must be one of {names}"))
    })
}

/// Something to do to every job that matches.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Bulk)]
pub(crate) struct BulkIn {
    /// Which jobs; everything given must hold. An empty object means all of them.
    #[schema(value_type = FilterIn)]
    filter: Object<FilterIn>,
    /// What to do.
    #[serde(deserialize_with = "word")]
    action: ActionIn,
}

/// Which jobs.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Filter)]
pub(crate) struct FilterIn {
    /// In this queue.
    #[schema(value_type = Option<rules::QueueName>)]
    queue: Option<String>,
    /// Under this key.
    #[schema(value_type = Option<rules::Key>)]
    key: Option<String>,
    /// In one of these states; those that the action makes sense for, when not given.
    #[schema(value_type = Option<Vec<StateOut>>, min_items = 1)]
    states: Option<Vec<String>>,
    /// Made by this schedule.
    #[schema(value_type = Option<rules::ScheduleId>)]
    schedule: Option<String>,
    /// Due (or finished) at or after this instant, which may be past: `yesterday`.
    #[schema(value_type = Option<when::InstantIn>)]
    from: Option<Moment>,
    /// Due (or finished) before this instant.
    #[schema(value_type = Option<when::InstantIn>)]
    until: Option<Moment>,
}

/// What to do to each.
#[derive(Deserialize, ToSchema, Clone, Copy)]
#[serde(rename_all = "lowercase")]
#[schema(as = BulkAction)]
pub(crate) enum ActionIn {
    /// Take it back.
    Cancel,
    /// Make it due at once.
    Run,
    /// Bring it back from the dead.
    Replay,
    /// Forget it, finished as it is.
    Forget,
}

/// What came of a bulk action.
#[derive(Serialize, ToSchema)]
#[schema(as = BulkReport)]
pub(crate) struct BulkOut {
    /// Jobs that matched.
    matched: u64,
    /// Jobs it was done to.
    done: u64,
    /// Jobs that were in no state for it, or not any more.
    refused: u64,
}

/// Cancels, runs, replays or forgets every job that matches a filter.
#[utoipa::path(
    post, path = "/v1/jobs/bulk", tag = "jobs", operation_id = "bulk",
    request_body(content = BulkIn, example = json!({
        "filter": {"queue": "mail", "states": ["dead"]}, "action": "replay",
    })),
    responses((status = 200, description = "What came of it", body = BulkOut))
)]
pub(crate) async fn bulk(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    params::none(request.uri())?;
    let BulkIn { filter: Object(filter), action } = body::json(request).await?;
    let filter = filter.into_filter(action, &app.reading())?;
    let action = match action {
        ActionIn::Cancel => BulkAction::Cancel,
        ActionIn::Run => BulkAction::RunNow,
        ActionIn::Replay => BulkAction::Replay,
        ActionIn::Forget => BulkAction::Forget,
    };
    let BulkReport { matched, done, refused } = app.client.bulk(filter, action).await?;
    tracing::info!(target: "hence::audit", ?action, matched, done, refused, "bulk");
    Ok(app::json(StatusCode::OK, &BulkOut { matched, done, refused }))
}

impl FilterIn {
    fn into_filter(self, action: ActionIn, reading: &Reading<'_>) -> Result<Filter, Problem> {
        let states = match self.states {
            // Of a list that somebody computed, empty means none; read as all, it would be a
            // disaster.
            Some(names) if names.is_empty() => {
                let problem = "must name at least one state; leave it out for all that fit";
                return Err(Rejection::invalid("filter.states", problem).into());
            }
            Some(names) => {
                names.iter().map(|name| state("filter.states", name)).collect::<Result<_, _>>()?
            }
            None => match action {
                ActionIn::Cancel => vec![JobState::Scheduled, JobState::Ready, JobState::Running],
                ActionIn::Run => vec![JobState::Scheduled],
                ActionIn::Replay => vec![JobState::Dead],
                ActionIn::Forget => STATES.into_iter().filter(|state| state.is_final()).collect(),
            },
        };
        let within = |rejection: Rejection| rejection.renamed(|field| format!("filter.{field}"));
        Ok(Filter {
            queue: self.queue.as_deref().map(QueueName::new).transpose().map_err(within)?,
            key: self.key.as_deref().map(Key::new).transpose().map_err(within)?,
            states,
            schedule: self.schedule.as_deref().map(ScheduleId::new).transpose().map_err(within)?,
            from: self.from.map(|from| from.bound("filter.from", reading)).transpose()?,
            until: self.until.map(|until| until.bound("filter.until", reading)).transpose()?,
        })
    }
}
