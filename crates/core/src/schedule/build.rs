//! A schedule from what somebody wrote.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use super::{Misfire, Overlap, Said, Schedule};
use crate::error::Rejection;
use crate::id::{Key, QueueName, ScheduleId};
use crate::job::JobSpec;
use crate::limits;
use crate::time::{Millis, Timestamp};
use crate::when::{Dialect, Fold, Gap, Plan, Reading, Zone, parse_recurrence};

/// A schedule to be. Nothing is read before [`ScheduleDraft::build`], which says what is wrong.
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
    said: Vec<Said>,
    zone: Option<String>,
    queue: QueueName,
    key: Option<Key>,
    gap: Gap,
    fold: Fold,
    start: Option<Timestamp>,
    end: Option<Timestamp>,
    count: Option<u64>,
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
        ScheduleDraft {
            said: vec![Said { text: text.to_string(), dialect: None }],
            zone: None,
            queue: QueueName::default_queue(),
            key: None,
            gap: Gap::default(),
            fold: Fold::default(),
            start: None,
            end: None,
            count: None,
            misfire: Misfire::default(),
            grace: None,
            overlap: Overlap::default(),
            spread: Millis::ZERO,
            ledger_retention: limits::LEDGER_RETENTION_DEFAULT,
        }
    }
}

macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident: $type:ty => $value:expr;)+) => {$(
        $(#[$doc])*
        #[must_use]
        pub fn $name(mut self, $name: $type) -> Self {
            self.$name = $value;
            self
        }
    )+};
}

impl ScheduleDraft {
    setters! {
        /// The zone of its wall times; UTC when not given.
        zone: &str => Some(zone.to_string());
        /// The queue its jobs go to.
        queue: QueueName => queue;
        /// The key its jobs run under.
        key: Key => Some(key);
        /// What happens in a gap of the wall clock.
        gap: Gap => gap;
        /// What happens in a fold of the wall clock.
        fold: Fold => fold;
        /// No tick before this.
        start: Timestamp => Some(start);
        /// No tick after this.
        end: Timestamp => Some(end);
        /// No more ticks than this.
        count: u64 => Some(count);
        /// What becomes of missed ticks.
        misfire: Misfire => misfire;
        /// How late a tick may be and still not count as missed.
        grace: Millis => Some(grace);
        /// What becomes of a tick while the job of an earlier one lives.
        overlap: Overlap => overlap;
        /// Jobs are due within this time after their tick.
        spread: Millis => spread;
        /// How long the ledger remembers what became of its ticks.
        ledger_retention: Millis => ledger_retention;
    }

    /// One more rhythm: it ticks when any of them does.
    #[must_use]
    pub fn and(mut self, text: &str) -> Self {
        self.said.push(Said { text: text.to_string(), dialect: None });
        self
    }

    /// The dialect of the last expression, when it is not to be recognised.
    #[must_use]
    pub fn dialect(mut self, dialect: Dialect) -> Self {
        if let Some(last) = self.said.last_mut() {
            last.dialect = Some(dialect);
        }
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
        let (plan, said) = self.read(&id, now)?;
        let schedule = Schedule {
            id,
            plan,
            said,
            queue: self.queue,
            key: self.key,
            template,
            paused: None,
            misfire: self.misfire,
            grace: self.grace,
            overlap: self.overlap,
            spread: self.spread,
            ledger_retention: self.ledger_retention,
        };
        schedule.check()?;
        Ok(schedule)
    }

    fn read(&self, id: &ScheduleId, now: Timestamp) -> Result<(Plan, Vec<Said>), Rejection> {
        let refuse = |field: &'static str| {
            move |problem: crate::when::Problem| Rejection::invalid(field, format!("{problem}"))
        };
        let named = self.zone.as_deref().map(Zone::named).transpose().map_err(refuse("zone"))?;
        let zone = named.clone().unwrap_or(Zone::UTC);
        let mut read: Option<Plan> = None;
        let mut said = Vec::new();
        for Said { text, dialect } in &self.said {
            let (dialect, schedule) = (*dialect, Some(id.as_str()));
            let reading = Reading { now, zone: &zone, dialect, schedule };
            let rhythm = parse_recurrence(text, &reading).map_err(refuse("when"))?;
            said.push(Said { text: text.clone(), dialect: rhythm.dialect });
            match &mut read {
                None => read = Some(Plan::new(rhythm)),
                Some(plan) if plan.zone == rhythm.zone => plan.whens.extend(rhythm.whens),
                Some(plan) => {
                    let problem = format!(
                        "is in {} and in {}; a schedule has one zone",
                        plan.zone, rhythm.zone
                    );
                    return Err(Rejection::invalid("when", problem));
                }
            }
        }
        let Some(plan) = read else {
            return Err(Rejection::invalid("when", "must say at least one time"));
        };
        let (gap, fold) = (self.gap, self.fold);
        let (start, end, count) = (self.start, self.end, self.count);
        Ok((Plan { gap, fold, start, end, count, ..plan }, said))
    }
}
