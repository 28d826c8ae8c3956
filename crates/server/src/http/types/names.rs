//! The closed lists of the core as answers name them: enums, so that the document can list the
//! names.

use hence_core::effect::Submitted;
use hence_core::job::{AttemptEnd, JobState, Outcome};
use serde::Serialize;
use utoipa::ToSchema;

/// Declares an enum of answers with the names of one of the core's.
macro_rules! named_as {
    ($(#[$meta:meta])* pub(crate) enum $name:ident: $core:ident { $($variant:ident,)* }) => {
        #[derive(Serialize, ToSchema, Clone, Copy, PartialEq, Eq, Debug)]
        #[serde(rename_all = "snake_case")]
        $(#[$meta])*
        pub(crate) enum $name {
            $($variant,)*
        }

        impl From<$core> for $name {
            fn from(core: $core) -> Self {
                match core {
                    $($core::$variant => $name::$variant,)*
                }
            }
        }
    };
}

named_as! {
    /// Where a job is in its life.
    #[schema(as = JobState)]
    pub(crate) enum StateOut: JobState {
        Scheduled,
        Ready,
        Running,
        Succeeded,
        Dead,
        Cancelled,
        Expired,
    }
}

named_as! {
    /// How a job ended for good.
    #[schema(as = Outcome)]
    pub(crate) enum OutcomeOut: Outcome {
        Succeeded,
        Dead,
        Cancelled,
        Expired,
    }
}

named_as! {
    /// How an attempt ended.
    #[schema(as = AttemptEnd)]
    pub(crate) enum EndOut: AttemptEnd {
        Succeeded,
        Failed,
        TimedOut,
        Released,
        Unregistered,
        Unknown,
        Cancelled,
    }
}

named_as! {
    /// What became of a submission.
    #[schema(as = Submitted)]
    pub(crate) enum SubmittedOut: Submitted {
        Created,
        Replaced,
        Kept,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_core() {
        let states = JobState::TRANSITIONS.iter().flat_map(|(from, to, _)| [*from, *to]);
        for state in states {
            let shown = serde_json::to_value(StateOut::from(state)).unwrap();
            assert_eq!(shown, state.as_str());
        }
        for outcome in [Outcome::Succeeded, Outcome::Dead, Outcome::Cancelled, Outcome::Expired] {
            let shown = serde_json::to_value(OutcomeOut::from(outcome)).unwrap();
            assert_eq!(shown, outcome.as_str());
        }
        for end in [
            AttemptEnd::Succeeded,
            AttemptEnd::Failed,
            AttemptEnd::TimedOut,
            AttemptEnd::Released,
            AttemptEnd::Unregistered,
            AttemptEnd::Unknown,
            AttemptEnd::Cancelled,
        ] {
            assert_eq!(serde_json::to_value(EndOut::from(end)).unwrap(), end.as_str());
        }
    }
}
