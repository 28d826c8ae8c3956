//! How the attempts of a worker ended, and what that makes of the worker's own end.

use tokio::task::JoinError;

use super::Work;
use crate::failure::Failure;
use crate::output::Output;
use crate::words;

/// How an attempt ended, as far as the worker is concerned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    Done,
    /// The command said so, or its lease was lost.
    Failed,
    /// The attempt does not count.
    GivenBack,
    /// Given back, because the command cannot be started.
    NotStarted(Failure),
}

/// The verdicts so far.
#[derive(Debug, Default)]
pub(super) struct Tally {
    failed: u64,
    given_back: u64,
    not_started: Option<Failure>,
}

impl Tally {
    /// Counts one that ended; one that panicked has failed.
    pub(super) fn count(&mut self, ended: Option<Result<Verdict, JoinError>>) {
        match ended {
            Some(Ok(Verdict::Done)) => {}
            Some(Ok(Verdict::GivenBack)) => self.given_back += 1,
            Some(Ok(Verdict::NotStarted(failure))) => self.not_started = Some(failure),
            Some(Ok(Verdict::Failed) | Err(_)) | None => self.failed += 1,
        }
    }

    /// Whether no further job can be done.
    pub(super) fn is_hopeless(&self) -> bool {
        self.not_started.is_some()
    }

    /// What the shell is told. A worker that runs until it is stopped ends well however its jobs
    /// fared: their retries are not its business.
    pub(super) fn conclude(self, work: &Work, output: &Output) -> Result<(), Failure> {
        let summary = self.summary();
        if let Some(failure) = self.not_started {
            return Err(failure.fix("no attempt was counted; correct the command after --"));
        }
        match summary {
            None => Ok(()),
            Some(summary) if work.once || work.drain && self.failed > 0 => {
                Err(Failure::refused(summary))
            }
            Some(summary) => {
                output.say(summary);
                Ok(())
            }
        }
    }

    /// What was not done, in words.
    fn summary(&self) -> Option<String> {
        let failed =
            (self.failed > 0).then(|| format!("{} failed", words::count(self.failed, "attempt")));
        let given_back = (self.given_back > 0)
            .then(|| format!("{} given back", words::count(self.given_back, "job")));
        let parts: Vec<String> = failed.into_iter().chain(given_back).collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_given_back_did_not_fail() {
        let rows: [(&[Verdict], Option<&str>); 5] = [
            (&[], None),
            (&[Verdict::Done], None),
            (&[Verdict::Failed, Verdict::Done], Some("1 attempt failed")),
            (&[Verdict::GivenBack], Some("1 job given back")),
            (
                &[Verdict::GivenBack, Verdict::Failed, Verdict::Failed],
                Some("2 attempts failed, 1 job given back"),
            ),
        ];
        for (verdicts, expected) in rows {
            let mut tally = Tally::default();
            for verdict in verdicts {
                tally.count(Some(Ok(verdict.clone())));
            }
            assert_eq!(tally.summary().as_deref(), expected, "{verdicts:?}");
        }
    }
}
