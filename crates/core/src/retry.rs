//! What happens after a failed attempt: a pure function of the policy, the attempt and a given
//! random number.

use alloc::vec::Vec;

use crate::error::Rejection;
use crate::limits;
use crate::time::{Millis, Timestamp};

/// When and how often a failed job is tried again, as its producer asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RetryPolicy {
    /// Attempts in all, the first one included.
    pub max_attempts: u32,
    /// The delay before each further attempt.
    pub backoff: Backoff,
    /// Each delay is lengthened by up to so many per cent, at random: parts a herd.
    pub jitter_percent: u8,
    /// No delay is longer than this, the jitter apart; a target's own wish (Retry-After) is cut
    /// to it too.
    pub cap: Millis,
    /// No attempt is started later than this after the job was first due.
    pub max_age: Option<Millis>,
}

/// How the delay grows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Backoff {
    /// Always the same.
    Fixed(Millis),
    /// The first delay, then each `factor_percent` / 100 times the one before.
    Exponential {
        /// The delay after the first failure.
        first: Millis,
        /// 200 doubles it each time.
        factor_percent: u32,
    },
    /// These, in order; the last one again and again.
    List(Vec<Millis>),
}

/// What the policy says after a failed attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Try again at this instant.
    Again(Timestamp),
    /// That was the last attempt.
    GiveUp(GiveUp),
}

/// Why there is no further attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GiveUp {
    /// All attempts are used up.
    Attempts,
    /// The job is too old.
    Age,
}

impl Default for RetryPolicy {
    /// Exponential. For other delays see [`RetryPolicy::new`]: this one's jitter is not theirs.
    fn default() -> Self {
        RetryPolicy::new(Backoff::Exponential {
            first: limits::BACKOFF_FIRST_DEFAULT,
            factor_percent: limits::BACKOFF_FACTOR_PERCENT_DEFAULT,
        })
    }
}

impl RetryPolicy {
    /// These delays, and everything else by default. Delays that the producer spelled out are
    /// kept exactly: no jitter lengthens them, and no cap that it never heard of cuts them.
    pub fn new(backoff: Backoff) -> Self {
        let jitter_percent = match &backoff {
            Backoff::Exponential { .. } => limits::JITTER_PERCENT_DEFAULT,
            Backoff::Fixed(_) | Backoff::List(_) => 0,
        };
        let cap = limits::BACKOFF_CAP_DEFAULT.max(backoff.longest_given());
        let max_attempts = limits::ATTEMPTS_DEFAULT;
        RetryPolicy { max_attempts, backoff, jitter_percent, cap, max_age: None }
    }

    /// One attempt, no more.
    pub fn never() -> Self {
        RetryPolicy { max_attempts: 1, ..RetryPolicy::default() }
    }

    /// Every number is within its limit.
    pub fn check(&self) -> Result<(), Rejection> {
        if self.max_attempts == 0 || self.max_attempts > limits::ATTEMPTS_MAX {
            return Err(Rejection::out_of_range("retry.max_attempts", 1, limits::ATTEMPTS_MAX));
        }
        if self.jitter_percent > 100 {
            return Err(Rejection::out_of_range("retry.jitter_percent", 0, 100));
        }
        let field = match &self.backoff {
            Backoff::Exponential { factor_percent, .. }
                if !(100..=10_000).contains(factor_percent) =>
            {
                return Err(Rejection::out_of_range("retry.factor", 1, 100));
            }
            Backoff::List(delays)
                if delays.is_empty() || delays.len() > limits::RETRY_DELAYS_MAX =>
            {
                let max = limits::RETRY_DELAYS_MAX;
                return Err(Rejection::invalid(
                    "retry.delays",
                    alloc::format!("must hold between 1 and {max} delays"),
                ));
            }
            Backoff::Fixed(_) => "retry.delay",
            Backoff::Exponential { .. } => "retry.first",
            Backoff::List(_) => "retry.delays",
        };
        let within = |field: &'static str, delay: Millis| {
            let max = limits::RETRY_DELAY_MAX;
            if delay > max { Err(Rejection::out_of_range(field, "0ms", max)) } else { Ok(()) }
        };
        within(field, self.backoff.longest_given())?;
        within("retry.cap", self.cap)
    }

    /// Decides what follows `attempt` (from 1), which failed at `now`. `retry_after` is a
    /// floor under the delay; `random` is any number, for the jitter.
    pub fn after_failure(
        &self,
        attempt: u32,
        scheduled_for: Timestamp,
        now: Timestamp,
        retry_after: Option<Millis>,
        random: u64,
    ) -> Verdict {
        if attempt >= self.max_attempts {
            return Verdict::GiveUp(GiveUp::Attempts);
        }
        let delay = self.jittered(self.delay_after(attempt), random);
        let floor = retry_after.unwrap_or_default();
        let next = now.plus(delay.max(floor));
        match self.max_age {
            Some(age) if next > scheduled_for.plus(age) => Verdict::GiveUp(GiveUp::Age),
            _ => Verdict::Again(next),
        }
    }

    /// The delay after this attempt, without jitter.
    fn delay_after(&self, attempt: u32) -> Millis {
        assert!(attempt >= 1, "attempts are counted from one");
        let delay = match &self.backoff {
            Backoff::Fixed(delay) => *delay,
            Backoff::Exponential { first, factor_percent } => {
                grow(*first, *factor_percent, attempt - 1, self.cap)
            }
            Backoff::List(delays) => {
                let last = delays.len().saturating_sub(1);
                delays.get((attempt as usize - 1).min(last)).copied().unwrap_or_default()
            }
        };
        delay.min(self.cap)
    }

    fn jittered(&self, delay: Millis, random: u64) -> Millis {
        let spread = delay.get().saturating_mul(u64::from(self.jitter_percent)) / 100;
        let extra = if spread == 0 { 0 } else { random % (spread + 1) };
        delay.plus(Millis::new(extra))
    }
}

impl Backoff {
    /// The longest delay that is spelled out.
    fn longest_given(&self) -> Millis {
        match self {
            Backoff::Fixed(delay) => *delay,
            Backoff::Exponential { first, .. } => *first,
            Backoff::List(delays) => delays.iter().copied().max().unwrap_or_default(),
        }
    }
}

/// `first` grown `times` times by `percent`, stopping at `cap`: bounded by the cap, not by `times`.
fn grow(first: Millis, percent: u32, times: u32, cap: Millis) -> Millis {
    let mut delay = u128::from(first.get());
    for _ in 0..times {
        if delay >= u128::from(cap.get()) || delay == 0 {
            break;
        }
        let grown = delay * u128::from(percent) / 100;
        if grown == delay {
            break;
        }
        delay = grown;
    }
    Millis::new(u64::try_from(delay).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn policy(backoff: Backoff) -> RetryPolicy {
        RetryPolicy { backoff, jitter_percent: 0, ..RetryPolicy::default() }
    }

    fn delays(policy: &RetryPolicy, attempts: u32) -> Vec<u64> {
        (1..=attempts)
            .map(|n| match policy.after_failure(n, Timestamp::EPOCH, Timestamp::EPOCH, None, 0) {
                Verdict::Again(at) => at.as_millis() as u64,
                Verdict::GiveUp(_) => u64::MAX,
            })
            .collect()
    }

    #[test]
    fn delays_follow_the_policy() {
        let ms = Millis::new;
        let exponential = Backoff::Exponential { first: ms(100), factor_percent: 200 };
        let slow = Backoff::Exponential { first: ms(100), factor_percent: 100 };
        let rows: Vec<(RetryPolicy, Vec<u64>)> = vec![
            (policy(Backoff::Fixed(ms(50))), vec![50, 50, 50]),
            (policy(exponential.clone()), vec![100, 200, 400]),
            (RetryPolicy { cap: ms(250), ..policy(exponential) }, vec![100, 200, 250]),
            (policy(slow), vec![100, 100, 100]),
            (policy(Backoff::List(vec![ms(5), ms(7)])), vec![5, 7, 7]),
            (RetryPolicy { max_attempts: 2, ..policy(Backoff::Fixed(ms(1))) }, vec![1, u64::MAX]),
        ];
        for (policy, expected) in rows {
            assert_eq!(delays(&policy, expected.len() as u32), expected, "{policy:?}");
        }
    }

    #[test]
    fn delays_that_were_spelled_out_are_exact_by_default() {
        let ms = Millis::new;
        let (short, long) = (ms(1_000), limits::BACKOFF_CAP_DEFAULT.plus(ms(1)));
        let growing = |first| Backoff::Exponential { first, factor_percent: 200 };
        let rows: [(Backoff, u8, Millis); 6] = [
            (Backoff::Fixed(short), 0, short),
            (Backoff::Fixed(long), 0, long),
            (Backoff::List(vec![short, long]), 0, short),
            (Backoff::List(vec![long, short]), 0, long),
            (growing(short), limits::JITTER_PERCENT_DEFAULT, short),
            (growing(long), limits::JITTER_PERCENT_DEFAULT, long),
        ];
        for (backoff, jitter, first) in rows {
            let policy = RetryPolicy::new(backoff);
            assert_eq!(policy.jitter_percent, jitter, "{policy:?}");
            let (earliest, latest) = (policy.jittered(first, 0), policy.jittered(first, u64::MAX));
            assert_eq!(policy.delay_after(1), first, "{policy:?}");
            assert_eq!(earliest == latest, jitter == 0, "{policy:?}");
            assert_eq!(policy.check(), Ok(()), "{policy:?}");
        }
    }

    #[test]
    fn jitter_only_lengthens_and_within_its_share() {
        let policy = RetryPolicy { jitter_percent: 50, ..policy(Backoff::Fixed(Millis::new(100))) };
        for random in [0, 1, 49, 50, 51, u64::MAX] {
            let verdict = policy.after_failure(1, Timestamp::EPOCH, Timestamp::EPOCH, None, random);
            let Verdict::Again(at) = verdict else { panic!("gave up") };
            assert!((100..=150).contains(&at.as_millis()), "{at:?}");
        }
    }

    #[test]
    fn retry_after_is_a_floor_also_above_the_cap() {
        let policy =
            RetryPolicy { cap: Millis::new(500), ..policy(Backoff::Fixed(Millis::new(100))) };
        let at = |wish| {
            policy.after_failure(1, Timestamp::EPOCH, Timestamp::EPOCH, Some(Millis::new(wish)), 0)
        };
        assert_eq!(at(50), Verdict::Again(Timestamp::from_millis(100)));
        assert_eq!(at(300), Verdict::Again(Timestamp::from_millis(300)));
        assert_eq!(at(9_999), Verdict::Again(Timestamp::from_millis(9_999)));
    }

    #[test]
    fn an_old_job_gives_up() {
        let policy = RetryPolicy {
            max_age: Some(Millis::new(150)),
            ..policy(Backoff::Fixed(Millis::new(100)))
        };
        let verdict =
            |now| policy.after_failure(1, Timestamp::EPOCH, Timestamp::from_millis(now), None, 0);
        assert_eq!(verdict(50), Verdict::Again(Timestamp::from_millis(150)));
        assert_eq!(verdict(51), Verdict::GiveUp(GiveUp::Age));
    }

    #[test]
    fn ten_thousand_attempts_do_not_overflow() {
        let policy = policy(Backoff::Exponential { first: Millis::new(1), factor_percent: 10_000 });
        assert_eq!(policy.delay_after(9_999), limits::BACKOFF_CAP_DEFAULT);
    }
}
