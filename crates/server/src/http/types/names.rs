//! The closed lists of the core as answers name them: enums, so that the document can list the
//! names.

use hence_core::effect::Submitted;
use hence_core::job::{AttemptEnd, JobState, Outcome};
use hence_core::ledger::{Fate, SkipReason};
use hence_core::schedule::{Idle, Overlap};
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

named_as! {
    /// Why a tick was skipped.
    #[schema(as = SkipReason)]
    pub(crate) enum SkipReasonOut: SkipReason {
        Misfire,
        Overlap,
        Backlog,
        Paused,
        QueuePaused,
        QueueFull,
        Changed,
    }
}

named_as! {
    /// Why a schedule does not tick any more, or not now.
    #[schema(as = Idle)]
    pub(crate) enum IdleOut: Idle {
        Paused,
        Ended,
        Counted,
        Exhausted,
    }
}

named_as! {
    /// What becomes of a tick while the job of an earlier one lives.
    #[schema(as = Overlap)]
    pub(crate) enum OverlapOut: Overlap {
        Allow,
        Skip,
        QueueOne,
        QueueAll,
        Replace,
    }
}

/// What became of a tick.
#[derive(Serialize, ToSchema, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "snake_case")]
#[schema(as = Fate)]
pub(crate) enum FateOut {
    Ran,
    Late,
    Skipped,
    Coalesced,
    Triggered,
    Backfilled,
}

impl From<Fate> for FateOut {
    fn from(fate: Fate) -> Self {
        match fate {
            Fate::Ran(_) => FateOut::Ran,
            Fate::Late(..) => FateOut::Late,
            Fate::Skipped(_) => FateOut::Skipped,
            Fate::Coalesced => FateOut::Coalesced,
            Fate::Triggered(_) => FateOut::Triggered,
            Fate::Backfilled(_) => FateOut::Backfilled,
        }
    }
}

#[cfg(test)]
mod tests {
    use hence_core::id::JobNumber;
    use hence_core::time::Millis;

    use super::*;

    #[test]
    fn names_are_those_of_the_core() {
        for state in JobState::ALL {
            let shown = serde_json::to_value(StateOut::from(state)).unwrap();
            assert_eq!(shown, state.as_str());
        }
        for outcome in Outcome::ALL {
            let shown = serde_json::to_value(OutcomeOut::from(outcome)).unwrap();
            assert_eq!(shown, outcome.as_str());
        }
        for end in AttemptEnd::ALL {
            assert_eq!(serde_json::to_value(EndOut::from(end)).unwrap(), end.as_str());
        }
        for idle in Idle::ALL {
            assert_eq!(serde_json::to_value(IdleOut::from(idle)).unwrap(), idle.as_str());
        }
        for overlap in Overlap::ALL {
            assert_eq!(serde_json::to_value(OverlapOut::from(overlap)).unwrap(), overlap.as_str());
        }
        let (number, late) = (JobNumber(1), Millis::new(1));
        let mut fates = vec![Fate::Ran(number), Fate::Late(number, late), Fate::Coalesced];
        fates.extend([Fate::Triggered(number), Fate::Backfilled(number)]);
        for reason in SkipReason::ALL {
            assert_eq!(serde_json::to_value(SkipReasonOut::from(reason)).unwrap(), reason.as_str());
            fates.push(Fate::Skipped(reason));
        }
        for fate in fates {
            assert_eq!(serde_json::to_value(FateOut::from(fate)).unwrap(), fate.as_str());
        }
    }
}
