//! A retry policy on the wire.

use hence_core::error::Rejection;
use hence_core::limits;
use hence_core::retry::{Backoff, RetryPolicy};
use hence_core::time::Millis;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::http::when::{self, Moment};

/// When and how often a failed job is tried again. What is not given has its default: ten attempts,
/// exponential from one second, doubling, at most an hour, 10 % jitter. Delays that are spelled out
/// (`delay`, `delays`) are kept exactly: without jitter, unless it is asked for.
#[derive(Deserialize, ToSchema, Default)]
#[serde(deny_unknown_fields)]
#[schema(as = NewRetry)]
pub(crate) struct RetryIn {
    /// Attempts in all, the first one included; 10 when not given.
    #[schema(example = 5, minimum = 1, maximum = 10000)]
    max_attempts: Option<u32>,
    /// How the delay grows; follows from the other fields when not given, and is `exponential`
    /// without any.
    backoff: Option<BackoffIn>,
    /// The delay of `fixed`.
    #[schema(value_type = Option<when::SpanIn>)]
    delay: Option<Moment>,
    /// The first delay of `exponential`; 1s when not given.
    #[schema(value_type = Option<when::SpanIn>)]
    first: Option<Moment>,
    /// How many times longer each delay of `exponential` is, 1 to 100 with at most two decimals; 2
    /// when not given.
    #[schema(minimum = 1, maximum = 100)]
    factor: Option<f64>,
    /// The delays of `list`, in order; the last one is repeated.
    #[schema(value_type = Option<Vec<when::SpanIn>>)]
    delays: Option<Vec<Moment>>,
    /// Each delay is lengthened by up to so many per cent, at random; when not given, 10 for
    /// `exponential` and 0 for `fixed` and `list`.
    #[schema(maximum = 100)]
    jitter_percent: Option<u8>,
    /// No delay is longer than this, the jitter apart; when not given, an hour, or the longest
    /// delay that is spelled out.
    #[schema(value_type = Option<when::SpanIn>)]
    cap: Option<Moment>,
    /// No retry is planned for later than this after the job was first due; no bound when not
    /// given.
    #[schema(value_type = Option<when::SpanIn>)]
    max_age: Option<Moment>,
}

/// How the delay grows.
#[derive(Deserialize, Serialize, ToSchema, Clone, Copy, PartialEq)]
#[serde(rename_all = "lowercase")]
#[schema(as = Backoff)]
pub(crate) enum BackoffIn {
    /// Always the same.
    Fixed,
    /// Longer each time.
    Exponential,
    /// As listed.
    List,
}

impl RetryIn {
    /// The core's policy, every number checked.
    pub(crate) fn into_policy(self) -> Result<RetryPolicy, Rejection> {
        let base = RetryPolicy::new(self.backoff()?);
        let policy = RetryPolicy {
            max_attempts: self.max_attempts.unwrap_or(base.max_attempts),
            backoff: base.backoff,
            jitter_percent: self.jitter_percent.unwrap_or(base.jitter_percent),
            cap: self.cap.as_ref().map_or(Ok(base.cap), |cap| cap.span("retry.cap"))?,
            max_age: self.max_age.map(|age| age.span("retry.max_age")).transpose()?,
        };
        policy.check()?;
        Ok(policy)
    }

    fn backoff(&self) -> Result<Backoff, Rejection> {
        match self.kind()? {
            BackoffIn::Fixed => match &self.delay {
                Some(delay) => Ok(Backoff::Fixed(delay.span("retry.delay")?)),
                None => {
                    Err(Rejection::invalid("retry.delay", "is needed for a fixed backoff; add it"))
                }
            },
            BackoffIn::Exponential => Ok(Backoff::Exponential {
                first: match &self.first {
                    Some(first) => first.span("retry.first")?,
                    None => limits::BACKOFF_FIRST_DEFAULT,
                },
                factor_percent: self
                    .factor
                    .map_or(Ok(limits::BACKOFF_FACTOR_PERCENT_DEFAULT), percent)?,
            }),
            BackoffIn::List => match &self.delays {
                Some(delays) => list(delays),
                None => Err(Rejection::invalid(
                    "retry.delays",
                    "are needed for a list backoff; add them",
                )),
            },
        }
    }

    /// The kind of backoff asked for, in so many words or by its fields; never two at once.
    fn kind(&self) -> Result<BackoffIn, Rejection> {
        let given = [
            ("retry.delay", self.delay.is_some(), BackoffIn::Fixed),
            ("retry.first", self.first.is_some(), BackoffIn::Exponential),
            ("retry.factor", self.factor.is_some(), BackoffIn::Exponential),
            ("retry.delays", self.delays.is_some(), BackoffIn::List),
        ];
        let mut fields = given.into_iter().filter(|(_, given, _)| *given);
        let implied = given.iter().find(|(_, given, _)| *given).map(|(_, _, kind)| *kind);
        let kind = self.backoff.or(implied).unwrap_or(BackoffIn::Exponential);
        match fields.find(|(_, _, of)| *of != kind) {
            Some((field, _, _)) => Err(Rejection::invalid(
                field,
                "does not go with this backoff: fixed takes delay, exponential takes first and \
                 factor, list takes delays; leave out what does not go with it",
            )),
            None => Ok(kind),
        }
    }
}

fn percent(factor: f64) -> Result<u32, Rejection> {
    if !(1.0..=100.0).contains(&factor) {
        return Err(Rejection::out_of_range("retry.factor", 1, 100));
    }
    let percent = (factor * 100.0).round();
    // Nearly, since most hundredths have no exact double.
    if (percent / 100.0 - factor).abs() > 1e-9 {
        return Err(Rejection::invalid("retry.factor", "must have at most two decimals"));
    }
    Ok(percent as u32)
}

fn list(delays: &[Moment]) -> Result<Backoff, Rejection> {
    if delays.len() > limits::RETRY_DELAYS_MAX {
        return Err(Rejection::too_many_in("retry.delays", delays.len(), limits::RETRY_DELAYS_MAX));
    }
    let delays: Result<Vec<Millis>, _> = delays.iter().map(|d| d.span("retry.delays")).collect();
    Ok(Backoff::List(delays?))
}

/// A retry policy in an answer.
#[derive(Serialize, ToSchema)]
#[schema(as = Retry)]
pub(crate) struct RetryOut {
    /// Attempts in all, the first one included.
    max_attempts: u32,
    /// How the delay grows.
    backoff: BackoffIn,
    /// The delay of `fixed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    delay: Option<String>,
    /// The first delay of `exponential`.
    #[serde(skip_serializing_if = "Option::is_none")]
    first: Option<String>,
    /// How many times longer each delay of `exponential` is.
    #[serde(skip_serializing_if = "Option::is_none")]
    factor: Option<f64>,
    /// The delays of `list`.
    #[serde(skip_serializing_if = "Option::is_none")]
    delays: Option<Vec<String>>,
    /// Each delay is lengthened by up to so many per cent, at random.
    jitter_percent: u8,
    /// No delay is longer than this.
    cap: String,
    /// No retry is planned for later than this after the job was first due.
    #[serde(skip_serializing_if = "Option::is_none")]
    max_age: Option<String>,
}

impl From<&RetryPolicy> for RetryOut {
    fn from(policy: &RetryPolicy) -> Self {
        let mut out = RetryOut {
            max_attempts: policy.max_attempts,
            backoff: BackoffIn::Fixed,
            delay: None,
            first: None,
            factor: None,
            delays: None,
            jitter_percent: policy.jitter_percent,
            cap: when::span_text(policy.cap),
            max_age: policy.max_age.map(when::span_text),
        };
        match &policy.backoff {
            Backoff::Fixed(delay) => out.delay = Some(when::span_text(*delay)),
            Backoff::Exponential { first, factor_percent } => {
                out.backoff = BackoffIn::Exponential;
                out.first = Some(when::span_text(*first));
                out.factor = Some(f64::from(*factor_percent) / 100.0);
            }
            Backoff::List(delays) => {
                out.backoff = BackoffIn::List;
                out.delays = Some(delays.iter().copied().map(when::span_text).collect());
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(json: &str) -> Result<RetryPolicy, Rejection> {
        serde_json::from_str::<RetryIn>(json).unwrap().into_policy()
    }

    #[test]
    fn the_backoff_follows_from_its_fields() {
        let ms = Millis::new;
        let fixed = Backoff::Fixed(ms(5_000));
        let doubling = Backoff::Exponential { first: ms(1_000), factor_percent: 200 };
        let slow = Backoff::Exponential { first: ms(2_000), factor_percent: 150 };
        let list = Backoff::List(vec![ms(1_000), ms(7_200_000)]);
        let rows = [
            ("{}", doubling, 10),
            (r#"{"delay":"5s"}"#, fixed.clone(), 0),
            (r#"{"backoff":"fixed","delay":5}"#, fixed.clone(), 0),
            (r#"{"delay":5,"jitter_percent":10}"#, fixed, 10),
            (r#"{"first":"2s","factor":1.5}"#, slow.clone(), 10),
            (r#"{"first":"2s","factor":1.5,"jitter_percent":0}"#, slow, 0),
            (r#"{"delays":["1s","7200s"]}"#, list, 0),
        ];
        for (json, expected, jitter) in rows {
            let policy = policy(json).unwrap();
            assert_eq!((&policy.backoff, policy.jitter_percent), (&expected, jitter), "{json}");
            let shown = serde_json::to_string(&RetryOut::from(&policy)).unwrap();
            let again = self::policy(&shown).unwrap();
            assert_eq!(again, policy, "an answer can be sent back: {shown}");
        }
        let long = policy(r#"{"delay":"2h"}"#).unwrap();
        assert_eq!(long.cap, ms(7_200_000), "a delay spelled out is not cut by the default cap");
    }

    #[test]
    fn every_factor_of_two_decimals_is_taken_as_it_is() {
        for percent in 100..=10_000_u32 {
            let (whole, rest) = (percent / 100, percent % 100);
            let found = self::percent(format!("{whole}.{rest:02}").parse().unwrap());
            assert_eq!(found, Ok(percent));
        }
    }

    #[test]
    fn contradictions_are_refused_by_name() {
        let rows = [
            (r#"{"backoff":"fixed"}"#, "retry.delay"),
            (r#"{"backoff":"list"}"#, "retry.delays"),
            (r#"{"backoff":"fixed","delay":1,"factor":2}"#, "retry.factor"),
            (r#"{"delay":1,"delays":[1]}"#, "retry.delays"),
            (r#"{"factor":0.5}"#, "retry.factor"),
            (r#"{"factor":101}"#, "retry.factor"),
            (r#"{"factor":1.005}"#, "retry.factor"),
            (r#"{"factor":1.0000001}"#, "retry.factor"),
            (r#"{"max_attempts":0}"#, "retry.max_attempts"),
            (r#"{"jitter_percent":101}"#, "retry.jitter_percent"),
            (r#"{"delays":[]}"#, "retry.delays"),
            (r#"{"delay":"x"}"#, "retry.delay"),
        ];
        for (json, field) in rows {
            let Err(Rejection::Invalid { field: named, .. }) = policy(json) else {
                panic!("accepted {json}")
            };
            assert_eq!(named, field, "{json}");
        }
    }
}
