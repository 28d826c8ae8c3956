//! What was acknowledged is there.

use super::ledger::{Call, End, Job, replaces};
use super::{Findings, Ledger, Property};
use crate::history::{Answer, How, Submit, Verb};

pub(super) const PROPERTY: Property = Property {
    name: "lost",
    promise: "an acknowledged job is there at the end as it was asked for, unless it ended and was \
              kept as long as it was to be",
    judge,
};

fn judge(ledger: &Ledger<'_>, findings: &mut Findings) {
    let Some(end) = ledger.last else { return };
    for call in &ledger.calls {
        let Verb::Submit(submit) = call.verb else { continue };
        let Some((_, Answer::Accepted(number) | Answer::Kept(number))) = call.told else {
            continue;
        };
        let job = &ledger.jobs[number];
        let Some(last) = job.last else {
            let made = job.submit.map_or(call, |at| &ledger.calls[at]);
            if !may_be_gone(ledger, &end, submit, made, job) {
                findings.add(format!("{} ({number}) was acknowledged and is gone", submit.job));
            }
            continue;
        };
        if let Some(payload) = &last.payload
            && *payload != submit.payload
        {
            let (name, asked) = (&submit.job, &submit.payload);
            findings.add(format!("{name} ({number}) carries {payload}, not {asked}"));
        }
        let untouched = !ledger.was_touched(&submit.job);
        if untouched && last.scheduled_for != submit.due_at {
            let (name, found, asked) = (&submit.job, last.scheduled_for, submit.due_at);
            findings.add(format!("{name} ({number}) was to run at {asked}, not {found}"));
        }
    }
}

/// Whether there is a reason for a job not to be there any more.
fn may_be_gone(
    ledger: &Ledger<'_>,
    end: &End<'_>,
    submit: &Submit,
    made: &Call<'_>,
    job: &Job<'_>,
) -> bool {
    let kept = submit.terms.retention_ms as i64;
    // By the wall clock, or, if that was set back meanwhile, by the true one.
    let over =
        |t: u64, wall: i64| end.wall_max >= wall + kept || end.t >= t + submit.terms.retention_ms;
    let succeeded = ledger.deliveries_of(job).any(|delivery| {
        let ended = delivery.ended.filter(|(.., how)| *how == How::Done);
        ended.is_some_and(|(t, wall, _)| over(t, wall))
    });
    let moves = ledger.calls_about(&submit.job).filter_map(|call| match call.verb {
        Verb::Move { due_at, .. } if call.may_have_happened() => Some(*due_at),
        // Its expiry is counted from then on, too.
        Verb::RunNow { .. } if call.may_have_happened() => Some(call.asked_wall),
        _ => None,
    });
    let due_at = moves.fold(submit.due_at, i64::min);
    // A retry that could not be in time is not waited for: it may end at any time after it is due.
    let expired = submit.terms.expires_ms.is_some() && end.wall_max >= due_at;
    let taken_away = ledger.calls_about(&submit.job).any(|call| {
        let mut later = call.may_have_happened() && call.asked >= made.asked;
        later &= !std::ptr::eq(call, made);
        later
            && match call.verb {
                Verb::Cancel { .. } => over(call.asked, call.asked_wall),
                Verb::Forget { .. } => true,
                Verb::Submit(other) => replaces(other, &submit.payload),
                _ => false,
            }
    });
    succeeded || expired || taken_away
}
