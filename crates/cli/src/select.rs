//! Which jobs are meant: one by its name, or all that match.

use clap::{Args, ValueEnum};
use serde_json::{Map, Value, json};

use crate::api::Path;

/// One job: its id, with the queue and key that the id is unique in.
#[derive(Debug, Clone, Args)]
pub(crate) struct OneJob {
    /// The job's id
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    /// The queue it is in [default: default]
    #[arg(long, value_name = "QUEUE")]
    pub(crate) queue: Option<String>,
    /// The key it runs under, if it has one
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Option<String>,
}

impl OneJob {
    /// The path of this job, with `verb` below it when given.
    pub(crate) fn path(&self, verb: Option<&str>) -> Path {
        job_path(&self.id, self.queue.as_deref(), self.key.as_deref(), verb)
    }
}

/// The path of a job, with `verb` below it when given.
pub(crate) fn job_path(
    id: &str,
    queue: Option<&str>,
    key: Option<&str>,
    verb: Option<&str>,
) -> Path {
    let path = Path::new("/v1/jobs").push(id);
    let path = match verb {
        Some(verb) => path.push(verb),
        None => path,
    };
    path.query_some("queue", queue).query_some("key", key)
}

/// A state, as a filter names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum State {
    Scheduled,
    Ready,
    Running,
    Succeeded,
    Dead,
    Cancelled,
    Expired,
}

impl State {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            State::Scheduled => "scheduled",
            State::Ready => "ready",
            State::Running => "running",
            State::Succeeded => "succeeded",
            State::Dead => "dead",
            State::Cancelled => "cancelled",
            State::Expired => "expired",
        }
    }
}

/// All jobs for which everything given holds.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Filter {
    /// In this queue
    #[arg(long, value_name = "QUEUE")]
    pub(crate) queue: Option<String>,
    /// Under this key
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Option<String>,
    /// In this state; may be given several times
    #[arg(long = "state", value_name = "STATE", value_enum, value_delimiter = ',')]
    pub(crate) states: Vec<State>,
    /// Made by this schedule
    #[arg(long, value_name = "SCHEDULE")]
    pub(crate) schedule: Option<String>,
    /// Due (or finished) at or after this instant, such as '1 hour ago'
    #[arg(long, value_name = "TIME")]
    pub(crate) from: Option<String>,
    /// Due (or finished) before this instant
    #[arg(long, value_name = "TIME")]
    pub(crate) until: Option<String>,
}

impl Filter {
    /// As query parameters.
    pub(crate) fn apply(&self, path: Path) -> Path {
        let path = path
            .query_some("queue", self.queue.as_deref())
            .query_some("key", self.key.as_deref())
            .query_some("schedule", self.schedule.as_deref())
            .query_some("from", self.from.as_deref())
            .query_some("until", self.until.as_deref());
        match self.state_list() {
            Some(states) => path.query("state", states),
            None => path,
        }
    }

    /// As the filter of a bulk request.
    pub(crate) fn json(&self) -> Value {
        let mut filter = Map::new();
        let named = [
            ("queue", &self.queue),
            ("key", &self.key),
            ("schedule", &self.schedule),
            ("from", &self.from),
            ("until", &self.until),
        ];
        for (name, value) in named {
            if let Some(value) = value {
                filter.insert(name.to_owned(), json!(value));
            }
        }
        if !self.states.is_empty() {
            let states: Vec<_> = self.states.iter().map(|state| state.as_str()).collect();
            filter.insert("states".to_owned(), json!(states));
        }
        Value::Object(filter)
    }

    /// In words, for a question: `queue mail, state dead`.
    pub(crate) fn words(&self) -> String {
        let states = self.state_list();
        let named = [
            ("queue", self.queue.as_deref()),
            ("key", self.key.as_deref()),
            ("state", states.as_deref()),
            ("schedule", self.schedule.as_deref()),
            ("from", self.from.as_deref()),
            ("until", self.until.as_deref()),
        ];
        let given =
            named.into_iter().filter_map(|(name, value)| Some(format!("{name} {}", value?)));
        given.collect::<Vec<_>>().join(", ")
    }

    fn state_list(&self) -> Option<String> {
        let states: Vec<_> = self.states.iter().map(|state| state.as_str()).collect();
        (!states.is_empty()).then(|| states.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_in_its_three_forms() {
        let filter = Filter {
            queue: Some("mail".to_owned()),
            states: vec![State::Dead, State::Expired],
            ..Filter::default()
        };
        assert_eq!(filter.words(), "queue mail, state dead,expired");
        assert_eq!(filter.json(), json!({"queue": "mail", "states": ["dead", "expired"]}));
        let path = filter.apply(Path::new("/v1/jobs"));
        assert_eq!(path, Path::new("/v1/jobs?queue=mail&state=dead%2Cexpired"));
    }
}
