//! The flags of `hence schedules put`, and the JSON they become. Words are passed on as typed: the
//! server understands them, and shows the place where it does not.

use std::path::PathBuf;

use clap::{ArgGroup, Args};
use serde_json::{Map, Value};

use super::next::{Dialect, Fold, Gap, read_calendar};
use crate::failure::Failure;
use crate::job_flags::{JobFlags, TargetFlags, put};

#[derive(Debug, Args)]
#[command(
    group(ArgGroup::new("what").required(true).args(["url", "worker", "handler"])),
    group(ArgGroup::new("rhythm").required(true).multiple(true).args(["when", "every"]))
)]
pub(crate) struct Put {
    /// Names the schedule
    pub(crate) id: String,
    /// When it ticks: "every weekday at 9am", cron; may be given several times
    #[arg(long, value_name = "WHEN")]
    when: Vec<String>,
    /// The same without the first word: 15m, "monday at 9am"
    #[arg(long, value_name = "RHYTHM")]
    every: Option<String>,
    /// The zone of its wall times: Europe/Paris [default: the server's]
    #[arg(long, alias = "zone", value_name = "ZONE")]
    tz: Option<String>,
    /// The dialect of cron [default: recognised]
    #[arg(long, value_name = "DIALECT", value_enum)]
    dialect: Option<Dialect>,
    /// No tick before this; intervals are counted from it
    #[arg(long, value_name = "TIME")]
    start: Option<String>,
    /// No tick after this
    #[arg(long, value_name = "TIME")]
    end: Option<String>,
    /// No more ticks than this, those before it was put again included
    #[arg(long, value_name = "COUNT")]
    count: Option<u64>,
    /// A date without ticks; may be given several times
    #[arg(long, value_name = "DATE")]
    exclude: Vec<String>,
    /// A file with days without ticks: dates with names, one a line, or iCalendar
    #[arg(long, value_name = "FILE")]
    holidays: Option<PathBuf>,
    /// What happens at a wall time that a clock change leaves out [default: after-gap]
    #[arg(long, value_name = "RULE", value_enum)]
    gap: Option<Gap>,
    /// What happens at a wall time that comes twice [default: first]
    #[arg(long, value_name = "RULE", value_enum)]
    fold: Option<Fold>,
    /// What becomes of missed ticks: skip, once, "last 3", all, "all 10s apart" [default: once]
    #[arg(long, value_name = "POLICY")]
    misfire: Option<String>,
    /// How late a tick may be and still not count as missed
    #[arg(long, value_name = "SPAN")]
    grace: Option<String>,
    /// What becomes of a tick while the job of an earlier one lives: allow, skip, queue-one,
    /// queue-all, replace [default: allow]
    #[arg(long, value_name = "POLICY")]
    overlap: Option<String>,
    /// Make each job due at its own moment within this time after the tick
    #[arg(long, value_name = "SPAN")]
    spread: Option<String>,
    /// How long to remember what became of its ticks [default: 90 days]
    #[arg(long, value_name = "SPAN")]
    ledger_retention: Option<String>,
    /// Put it paused
    #[arg(long)]
    paused: bool,
    /// Why it is paused
    #[arg(long, value_name = "TEXT", requires = "paused")]
    note: Option<String>,
    /// The queue its jobs go to [default: default]
    #[arg(long, value_name = "QUEUE")]
    queue: Option<String>,
    /// The key its jobs run under
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    #[command(flatten)]
    target: TargetFlags,
    #[command(flatten)]
    job: JobFlags,
}

impl Put {
    /// The body of the request.
    pub(crate) fn request(&self) -> Result<Value, Failure> {
        let mut job = self.job.json(&self.target)?;
        put(&mut job, "queue", self.queue.as_ref());
        put(&mut job, "key", self.key.as_ref());
        let mut whens = self.when.clone();
        whens.extend(self.every.as_ref().map(|rhythm| format!("every {rhythm}")));
        let mut request = Map::new();
        // One text is sent as one: what is wrong with it is then wrong with `when`.
        match whens.as_slice() {
            [when] => put(&mut request, "when", Some(when)),
            several => put(&mut request, "when", Some(several)),
        }
        put(&mut request, "zone", self.tz.as_ref());
        put(&mut request, "dialect", self.dialect.map(Dialect::name));
        put(&mut request, "gap", self.gap.map(Gap::name));
        put(&mut request, "fold", self.fold.map(Fold::name));
        put(&mut request, "excluded", (!self.exclude.is_empty()).then_some(&self.exclude));
        let holidays = self.holidays.as_deref().map(read_calendar).transpose()?;
        put(&mut request, "holidays", holidays);
        let texts = [
            ("start", &self.start),
            ("end", &self.end),
            ("misfire", &self.misfire),
            ("grace", &self.grace),
            ("overlap", &self.overlap),
            ("spread", &self.spread),
            ("ledger_retention", &self.ledger_retention),
            ("note", &self.note),
        ];
        for (name, text) in texts {
            put(&mut request, name, text.as_ref());
        }
        put(&mut request, "count", self.count);
        put(&mut request, "paused", self.paused.then_some(true));
        put(&mut request, "job", Some(job));
        Ok(Value::Object(request))
    }
}
