//! Schedules, how far they have come, and their ledgers as bytes.
//!
//! A rhythm is stored as a text that reads back as the same rhythm, and with it what was said; a
//! zone by its name. Wall times are stored as such: instants follow from them and from the zone
//! database of the program that reads them.

use std::collections::BTreeSet;

use hence_core::ledger::{Fate, OccurrenceRecord, SkipReason};
use hence_core::schedule::{
    Backfill, Idle, LedgerSpan, Misfire, Overlap, Pause, Run, Said, Schedule, ScheduleProgress,
    ScheduleState,
};
use hence_core::time::Timestamp;
use hence_core::when::{
    Anchor, Date, Dialect, Fold, Gap, Holidays, Interval, Plan, Reading, Recurrence, Zone,
    parse_recurrence,
};

use super::wire::{Fault, Reader, Wire, fields, tags};

fields!(ScheduleState { schedule, progress });
fields!(Schedule {
    id,
    plan,
    said,
    queue,
    key,
    template,
    paused,
    misfire,
    grace,
    overlap,
    spread,
    ledger_retention,
});
fields!(ScheduleProgress {
    accounted,
    next_at,
    idle,
    last_at,
    ticked,
    fired,
    hold_until,
    paused_until,
    running,
    waiting,
    backfill,
    zones,
    ledger,
});
fields!(Said { text, dialect });
fields!(Pause { note, since });
fields!(Run { number, at });
fields!(LedgerSpan { first, last });
fields!(Backfill { after, until, pace, done, ticks, made, kept, hold_until, ended_at });
fields!(Interval { every, anchor });
fields!(OccurrenceRecord { schedule, first, last, count, decided_at, fate });

tags!(Idle { Paused = 0, Ended = 1, Counted = 2, Exhausted = 3 });
tags!(Overlap { Allow = 0, Skip = 1, QueueOne = 2, QueueAll = 3, Replace = 4 });
tags!(Dialect { Unix = 0, Quartz = 1, Workkit = 2 });
tags!(Gap { Skip = 0, AfterGap = 1 });
tags!(Fold { First = 0, Second = 1, Both = 2 });
tags!(SkipReason {
    Misfire = 0,
    Overlap = 1,
    Backlog = 2,
    Paused = 3,
    QueuePaused = 4,
    QueueFull = 5,
    Changed = 6,
});

impl Wire for Plan {
    fn put(&self, out: &mut Vec<u8>) {
        let Plan { whens, zone, gap, fold, excluded, holidays, start, end, count } = self;
        // The zone comes first: rhythms are read in it.
        zone.name().into_owned().put(out);
        whens.put(out);
        gap.put(out);
        fold.put(out);
        excluded.iter().map(ToString::to_string).collect::<Vec<String>>().put(out);
        holidays.text().to_owned().put(out);
        start.put(out);
        end.put(out);
        count.put(out);
    }

    fn take(input: &mut Reader<'_>) -> Result<Self, Fault> {
        let name = input.text()?;
        // One value has one form: the same zone in other letters is damage, and so are dates that
        // are out of order.
        let zone = Zone::named(name).ok().filter(|zone| zone.name() == name).ok_or(Fault::Name)?;
        let whens = Wire::take(input)?;
        let (gap, fold) = (Wire::take(input)?, Wire::take(input)?);
        let dates = Vec::<String>::take(input)?;
        let parsed = dates.iter().map(|date| date.parse().map_err(|_| Fault::Name));
        let excluded: BTreeSet<Date> = parsed.collect::<Result<_, Fault>>()?;
        if !excluded.iter().map(Date::to_string).eq(dates) {
            return Err(Fault::Name);
        }
        let text = input.text()?;
        let holidays = Holidays::parse(text).ok().filter(|days| days.text() == text);
        let holidays = holidays.ok_or(Fault::Name)?;
        let (start, end) = (Wire::take(input)?, Wire::take(input)?);
        let count = Wire::take(input)?;
        Ok(Plan { whens, zone, gap, fold, excluded, holidays, start, end, count })
    }
}

const CRON: u8 = 0;
const DAYS: u8 = 1;
const INTERVAL: u8 = 2;

impl Wire for Recurrence {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Recurrence::Cron(_) => {
                out.push(CRON);
                self.canonical().put(out);
            }
            Recurrence::Days(_) => {
                out.push(DAYS);
                self.canonical().put(out);
            }
            Recurrence::Interval(interval) => {
                out.push(INTERVAL);
                interval.put(out);
            }
        }
    }

    fn take(input: &mut Reader<'_>) -> Result<Self, Fault> {
        match input.byte()? {
            CRON => match read_back(input.text()?, Some(Dialect::Unix))? {
                cron @ Recurrence::Cron(_) => Ok(cron),
                Recurrence::Days(_) | Recurrence::Interval(_) => Err(Fault::Tag),
            },
            DAYS => match read_back(input.text()?, None)? {
                days @ Recurrence::Days(_) => Ok(days),
                Recurrence::Cron(_) | Recurrence::Interval(_) => Err(Fault::Tag),
            },
            INTERVAL => Interval::take(input).map(Recurrence::Interval),
            _ => Err(Fault::Tag),
        }
    }
}

/// The one rhythm of a text that was written from one. It says everything: neither the time nor
/// the zone enters into it.
fn read_back(text: &str, dialect: Option<Dialect>) -> Result<Recurrence, Fault> {
    let utc = Zone::UTC;
    let reading = Reading { dialect, ..Reading::new(Timestamp::EPOCH, &utc) };
    let rhythm = parse_recurrence(text, &reading).map_err(|_| Fault::Name)?;
    let [when] = <[Recurrence; 1]>::try_from(rhythm.whens).map_err(|_| Fault::Name)?;
    // One value has one form.
    if when.canonical() == text { Ok(when) } else { Err(Fault::Name) }
}

impl Wire for Anchor {
    fn put(&self, out: &mut Vec<u8>) {
        let start = match self {
            Anchor::Aligned => None,
            Anchor::Start(start) => Some(*start),
        };
        start.put(out);
    }

    fn take(input: &mut Reader<'_>) -> Result<Self, Fault> {
        let start: Option<Timestamp> = Wire::take(input)?;
        Ok(start.map_or(Anchor::Aligned, Anchor::Start))
    }
}

const MISFIRE_SKIP: u8 = 0;
const MISFIRE_ONCE: u8 = 1;
const MISFIRE_LAST: u8 = 2;
const MISFIRE_ALL: u8 = 3;

impl Wire for Misfire {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Misfire::Skip => out.push(MISFIRE_SKIP),
            Misfire::Once => out.push(MISFIRE_ONCE),
            Misfire::Last(count) => {
                out.push(MISFIRE_LAST);
                count.put(out);
            }
            Misfire::All { pace } => {
                out.push(MISFIRE_ALL);
                pace.put(out);
            }
        }
    }

    fn take(input: &mut Reader<'_>) -> Result<Self, Fault> {
        match input.byte()? {
            MISFIRE_SKIP => Ok(Misfire::Skip),
            MISFIRE_ONCE => Ok(Misfire::Once),
            MISFIRE_LAST => Ok(Misfire::Last(Wire::take(input)?)),
            MISFIRE_ALL => Ok(Misfire::All { pace: Wire::take(input)? }),
            _ => Err(Fault::Tag),
        }
    }
}

const FATE_RAN: u8 = 0;
const FATE_LATE: u8 = 1;
const FATE_SKIPPED: u8 = 2;
const FATE_COALESCED: u8 = 3;
const FATE_TRIGGERED: u8 = 4;
const FATE_BACKFILLED: u8 = 5;

impl Wire for Fate {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Fate::Ran(number) => {
                out.push(FATE_RAN);
                number.put(out);
            }
            Fate::Late(number, by) => {
                out.push(FATE_LATE);
                number.put(out);
                by.put(out);
            }
            Fate::Skipped(reason) => {
                out.push(FATE_SKIPPED);
                reason.put(out);
            }
            Fate::Coalesced => out.push(FATE_COALESCED),
            Fate::Triggered(number) => {
                out.push(FATE_TRIGGERED);
                number.put(out);
            }
            Fate::Backfilled(number) => {
                out.push(FATE_BACKFILLED);
                number.put(out);
            }
        }
    }

    fn take(input: &mut Reader<'_>) -> Result<Self, Fault> {
        match input.byte()? {
            FATE_RAN => Ok(Fate::Ran(Wire::take(input)?)),
            FATE_LATE => Ok(Fate::Late(Wire::take(input)?, Wire::take(input)?)),
            FATE_SKIPPED => Ok(Fate::Skipped(Wire::take(input)?)),
            FATE_COALESCED => Ok(Fate::Coalesced),
            FATE_TRIGGERED => Ok(Fate::Triggered(Wire::take(input)?)),
            FATE_BACKFILLED => Ok(Fate::Backfilled(Wire::take(input)?)),
            _ => Err(Fault::Tag),
        }
    }
}
