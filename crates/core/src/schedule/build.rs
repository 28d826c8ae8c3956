//! A schedule from what somebody wrote.

use alloc::format;
use alloc::string::ToString;
use alloc::sync::Arc;

use super::{Misfire, Overlap, Pause, Said, Schedule};
use crate::error::Rejection;
use crate::id::{Key, QueueName, ScheduleId};
use crate::job::JobSpec;
use crate::limits;
use crate::time::{Millis, Timestamp};
use crate::when::{
    Anchor, Dialect, Draft, DraftError, Drafted, Fold, Gap, Interval, Reading, Recurrence, Zone,
};

/// A schedule to be: a draft of its plan, and its policies. Nothing is read before
/// [`ScheduleDraft::build`], which says what is wrong.
///
/// ```
/// use hence_core::id::ScheduleId;
/// use hence_core::job::{JobSpec, Target};
/// use hence_core::schedule::{Misfire, Overlap, Schedule};
/// use hence_core::time::Timestamp;
/// # fn main() -> Result<(), hence_core::error::Rejection> {
///
/// let now = Timestamp::from_millis(1_772_638_200_000); // Wednesday 2026-03-04 15:30 UTC
/// let report = Schedule::cron("0 9 * * MON-FRI")
///     .zone("Europe/Paris")
///     .misfire(Misfire::Skip)
///     .overlap(Overlap::QueueOne)
///     .build(ScheduleId::new("report")?, JobSpec::new(Target::Worker), now)?;
/// let first = report.plan.next_after(now, 0).map(|tick| tick.at.to_string());
/// assert_eq!(first.as_deref(), Some("2026-03-05T08:00:00.000Z"));
///
/// let wrong = Schedule::every("fortnight and a bit");
/// let wrong = wrong.build(ScheduleId::new("s")?, JobSpec::new(Target::Worker), now);
/// assert!(wrong.is_err_and(|refused| refused.to_string().starts_with("when")));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ScheduleDraft {
    plan: Draft,
    queue: QueueName,
    key: Option<Key>,
    pause: Option<Arc<str>>,
    misfire: Misfire,
    grace: Option<Millis>,
    overlap: Overlap,
    spread: Millis,
    ledger_retention: Millis,
}

impl Schedule {
    /// A cron expression; the dialect is recognised, or named with [`ScheduleDraft::dialect`].
    pub fn cron(expression: &str) -> ScheduleDraft {
        Schedule::when(expression)
    }

    /// What follows "every": `15 minutes`, `weekday at 9am`.
    pub fn every(rhythm: &str) -> ScheduleDraft {
        Schedule::when(&format!("every {rhythm}"))
    }

    /// Anything that says a rhythm: cron, an interval, words.
    pub fn when(text: &str) -> ScheduleDraft {
        ScheduleDraft::new(Draft { whens: alloc::vec![text.to_string()], ..Draft::default() })
    }
}

macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident: $type:ty => $($field:ident).+ = $value:expr;)+) => {$(
        $(#[$doc])*
        #[must_use]
        pub fn $name(mut self, $name: $type) -> Self {
            self.$($field).+ = $value;
            self
        }
    )+};
}

impl ScheduleDraft {
    /// A schedule with this plan, everything else by default.
    pub fn new(plan: Draft) -> Self {
        ScheduleDraft {
            plan,
            queue: QueueName::default_queue(),
            key: None,
            pause: None,
            misfire: Misfire::default(),
            grace: None,
            overlap: Overlap::default(),
            spread: Millis::ZERO,
            ledger_retention: limits::LEDGER_RETENTION_DEFAULT,
        }
    }

    setters! {
        /// The zone of its wall times; UTC when not given.
        zone: &str => plan.zone = Some(zone.to_string());
        /// The dialect of its cron expressions, when it is not to be recognised.
        dialect: Dialect => plan.dialect = Some(dialect);
        /// What happens in a gap of the wall clock.
        gap: Gap => plan.gap = gap;
        /// What happens in a fold of the wall clock.
        fold: Fold => plan.fold = fold;
        /// Days without ticks: dates with names, one a line, or an iCalendar text.
        holidays: &str => plan.holidays = Some(holidays.to_string());
        /// No tick before this; intervals are counted from it.
        start: Timestamp => plan.start = Some(start.to_string());
        /// No tick after this.
        end: Timestamp => plan.end = Some(end.to_string());
        /// No more ticks than this. Put again, it goes on counting while the rhythm is the same.
        count: u64 => plan.count = Some(count);
        /// The queue its jobs go to.
        queue: QueueName => queue = queue;
        /// The key its jobs run under.
        key: Key => key = Some(key);
        /// It is put paused, for this reason. Without this, a pause stays as it is.
        paused: &str => pause = Some(Arc::from(paused));
        /// What becomes of missed ticks.
        misfire: Misfire => misfire = misfire;
        /// How late a tick may be and still not count as missed.
        grace: Millis => grace = Some(grace);
        /// What becomes of a tick while the job of an earlier one lives.
        overlap: Overlap => overlap = overlap;
        /// Jobs are due within this time after their tick.
        spread: Millis => spread = spread;
        /// How long the ledger remembers what became of its ticks.
        ledger_retention: Millis => ledger_retention = ledger_retention;
    }

    /// One more rhythm: it ticks when any of them does.
    #[must_use]
    pub fn and(mut self, text: &str) -> Self {
        self.plan.whens.push(text.to_string());
        self
    }

    /// A date without ticks, such as `2026-12-25`.
    #[must_use]
    pub fn exclude(mut self, date: &str) -> Self {
        self.plan.excluded.push(date.to_string());
        self
    }

    /// Reads the words and checks everything. Intervals that do not say where they start are
    /// counted from `now`.
    pub fn build(
        self,
        id: ScheduleId,
        template: JobSpec,
        now: Timestamp,
    ) -> Result<Schedule, Rejection> {
        Ok(self.read(id, template, &Reading::new(now, &Zone::UTC))?)
    }

    /// As [`ScheduleDraft::build`], in the zone of the reading when none is said; what was not
    /// understood is shown with its place.
    pub fn read(
        self,
        id: ScheduleId,
        template: JobSpec,
        reading: &Reading<'_>,
    ) -> Result<Schedule, DraftError> {
        let named = Reading { schedule: Some(id.as_str()), ..*reading };
        let Drafted { rhythms, mut plan } = self.plan.read(&named)?;
        if plan.start.is_none() {
            plan.whens.iter_mut().for_each(|when| begin_after(when, reading.now));
        }
        let said = self.plan.whens.into_iter().zip(&rhythms);
        let said = said.map(|(text, rhythm)| Said { text, dialect: rhythm.dialect }).collect();
        let schedule = Schedule {
            id,
            plan,
            said,
            queue: self.queue,
            key: self.key,
            template,
            paused: self.pause.map(|note| Pause { note, since: reading.now }),
            misfire: self.misfire,
            grace: self.grace,
            overlap: self.overlap,
            spread: self.spread,
            ledger_retention: self.ledger_retention,
        };
        schedule.check()?;
        Ok(schedule)
    }
}

/// What is counted from now ticks for the first time when its span is over. Whether it ticks now
/// would depend on how many milliseconds it is on its way to the shard.
fn begin_after(when: &mut Recurrence, now: Timestamp) {
    if let Recurrence::Interval(Interval { every, anchor: Anchor::Start(start) }) = when
        && *start == now
    {
        *start = start.plus(*every);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Target;

    #[test]
    fn an_interval_begins_when_its_span_is_over_or_at_its_start() {
        let now = Timestamp::from_millis(1_772_638_200_000);
        let first = |draft: ScheduleDraft| {
            let id = ScheduleId::new("s").unwrap();
            let made = draft.build(id, JobSpec::new(Target::Worker), now).unwrap();
            let before = now.minus(Millis::new(1));
            made.plan.next_after(before, 0).unwrap().at.since(now).get()
        };
        assert_eq!(first(Schedule::when("@every 90s")), 90_000);
        assert_eq!(first(Schedule::when("@every 90s").start(now)), 0);
    }

    #[test]
    fn every_choice_reaches_the_schedule() {
        let now = Timestamp::from_millis(1_772_638_200_000);
        let later = |days: u64| now.plus(Millis::from_secs(days * 86_400));
        let made = Schedule::cron("0 0 9 ? * 2")
            .and("0 0 18 ? * 3")
            .dialect(Dialect::Quartz)
            .zone("America/New_York")
            .gap(Gap::Skip)
            .fold(Fold::Both)
            .exclude("2026-03-09")
            .holidays("2026-03-10 a feast")
            .start(later(1))
            .end(later(99))
            .count(7)
            .paused("not yet")
            .grace(Millis::from_secs(5))
            .spread(Millis::from_secs(6))
            .ledger_retention(Millis::from_secs(700))
            .build(ScheduleId::new("s").unwrap(), JobSpec::new(Target::Worker), now)
            .unwrap();
        let plan = &made.plan;
        assert_eq!((plan.whens.len(), plan.zone.name().as_ref()), (2, "America/New_York"));
        assert_eq!((plan.gap, plan.fold, plan.count), (Gap::Skip, Fold::Both, Some(7)));
        assert_eq!((plan.start, plan.end), (Some(later(1)), Some(later(99))));
        assert_eq!((plan.excluded.len(), plan.holidays.len()), (1, 1));
        assert_eq!(made.said[1].dialect, Some(Dialect::Quartz));
        let pause = made.paused.clone().unwrap();
        assert_eq!((&*pause.note, pause.since), ("not yet", now));
        assert_eq!((made.grace, made.spread), (Some(Millis::new(5_000)), Millis::new(6_000)));
        assert_eq!(made.ledger_retention, Millis::new(700_000));
    }
}
