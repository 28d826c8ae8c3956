//! When a job is due, as a request says it and as the answer says it back.

use std::borrow::Cow;

use hence::Due;
use hence_core::error::Rejection;
use hence_core::job::check_due;
use hence_core::time::Timestamp;
use hence_core::when::{Reading, Understood, Zone};
use serde::Serialize;
use utoipa::ToSchema;

use super::Stamp;
use crate::http::errors::Problem;
use crate::http::kinds;
use crate::http::when::{self, Moment};

/// The fields that say when.
pub(crate) struct DueIn<'a> {
    pub(crate) at: Option<&'a Moment>,
    /// Another name for `at`.
    pub(crate) time: Option<&'a Moment>,
    pub(crate) r#in: Option<&'a Moment>,
    pub(crate) zone: Option<&'a Zone>,
}

/// When, and what to say back about it.
pub(crate) struct DueRead {
    pub(crate) due: Due,
    /// Nothing when it was said as programs say it: what is in no doubt need not be said back, and
    /// most submissions are of this kind.
    pub(crate) understood: Option<Understood>,
}

impl DueIn<'_> {
    /// Understands them; `reading` has the time and the zone.
    pub(crate) fn read(&self, reading: &Reading<'_>) -> Result<DueRead, Problem> {
        let plainly = |due: Due| DueRead { due, understood: None };
        let in_words = |understood: Understood| DueRead {
            due: Due::At(understood.instant),
            understood: Some(understood),
        };
        // Who names a zone wants to see the time in it.
        let is_brief = self.zone.is_none();
        match (self.at()?, self.r#in) {
            (Some((field, _)), Some(_)) => Err(both(field, "in").into()),
            (Some((field, at)), None) => match at.plain_instant().filter(|_| is_brief) {
                Some(instant) => fits(field, instant, reading).map(|()| plainly(Due::At(instant))),
                None => at.moment(field, reading).map(in_words),
            },
            (None, Some(span)) => match span.plain_span().filter(|_| is_brief) {
                Some(span) => {
                    fits("in", reading.now.plus(span), reading).map(|()| plainly(Due::In(span)))
                }
                None => span.ahead("in", reading).map(in_words),
            },
            (None, None) => Ok(plainly(Due::Now)),
        }
    }

    /// The instant, and the name it was given under.
    fn at(&self) -> Result<Option<(&'static str, &Moment)>, Problem> {
        match (self.at, self.time) {
            (Some(_), Some(_)) => {
                let detail = "at and time are two names of one field";
                Err(Problem::new(kinds::DUPLICATE_FIELD, detail).field("at"))
            }
            (Some(at), None) => Ok(Some(("at", at))),
            (None, Some(time)) => Ok(Some(("time", time))),
            (None, None) => Ok(None),
        }
    }
}

/// Whether a job may be due then. The core asks again, and knows no other name than `at`.
fn fits(field: &'static str, due_at: Timestamp, reading: &Reading<'_>) -> Result<(), Problem> {
    let checked = check_due(due_at, reading.now);
    Ok(checked.map_err(|rejection| rejection.renamed(|_| field.to_owned()))?)
}

/// The zone that a request names.
pub(crate) fn zone(name: Option<&str>) -> Result<Option<Zone>, Problem> {
    name.map(|name| when::understand("zone", name, Zone::named)).transpose()
}

/// Two fields for one thing.
pub(crate) fn both(one: &'static str, other: &'static str) -> Rejection {
    Rejection::invalid(one, format!("and {other} are two ways to say the same; give one"))
}

/// What was understood by a time in words, so that a misunderstanding is seen before it matters.
#[derive(Serialize, ToSchema)]
#[schema(as = Understood)]
pub(crate) struct UnderstoodOut<'a> {
    /// The instant.
    instant: Stamp,
    /// The zone it was read in.
    #[schema(example = "Europe/Paris")]
    zone: Cow<'a, str>,
    /// The time in that zone, as RFC 9557 writes it.
    #[schema(example = "2026-09-10T19:00:00+02:00[Europe/Paris]")]
    canonical: &'a str,
    /// In words.
    #[schema(example = "Thursday, 10 September 2026 at 19:00 Europe/Paris (+02:00)")]
    words: &'a str,
}

impl<'a> From<&'a Understood> for UnderstoodOut<'a> {
    fn from(understood: &'a Understood) -> Self {
        UnderstoodOut {
            instant: understood.instant.into(),
            zone: understood.zone.name(),
            canonical: &understood.canonical,
            words: &understood.words,
        }
    }
}
