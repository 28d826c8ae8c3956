//! `/metrics`: what an operator watches. Fed by the library's events and, at each scrape, by the
//! counts that the core keeps anyway; the store is never asked.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use hence::observe::{Event, Observer};
use hence_core::change::Change;
use hence_core::effect::Notice;
use hence_core::id::QueueName;
use hence_core::job::{AttemptEnd, AttemptRecord};
use hence_core::ledger::Fate;
use hence_core::queue::QueueView;
use hence_core::schedule::ScheduleCheck;
use http::StatusCode;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::limits::METRIC_QUEUES_MAX;

/// The label of queues and routes beyond the bound.
const OTHER: &str = "other";

/// From a loopback round trip to an hour of backlog.
const SECONDS: [f64; 16] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 10.0, 60.0, 600.0,
    3600.0,
];
/// From a lone change to the largest group.
const CHANGES: [f64; 9] = [1.0, 4.0, 16.0, 64.0, 256.0, 1_024.0, 4_096.0, 16_384.0, 65_536.0];

/// One metric, as the reference page lists it.
struct Row(&'static str, &'static str, &'static str, &'static str);

/// The metrics of the server: name, type, labels, meaning.
const ROWS: [Row; 19] = [
    Row("hence_jobs_submitted_total", "counter", "queue", "Jobs accepted since the store was made"),
    Row("hence_deliveries_total", "counter", "queue", "Jobs handed out since the store was made"),
    Row(
        "hence_attempts_total",
        "counter",
        "queue, end",
        "Attempts that ended since the start of the process, by how",
    ),
    Row(
        "hence_jobs_finished_total",
        "counter",
        "queue, outcome",
        "Jobs that ended since the store was made, by how",
    ),
    Row(
        "hence_ticks_total",
        "counter",
        "fate, reason",
        "Ticks of schedules accounted for since the start of the process, by what became of them",
    ),
    Row(
        "hence_tick_lateness_seconds",
        "histogram",
        "",
        "Time between a tick and the making of its job",
    ),
    Row("hence_schedules", "gauge", "state", "Schedules that are ticking, paused or ended"),
    Row(
        "hence_schedules_failing",
        "gauge",
        "",
        "Schedules with neither a next tick nor a reason, or overdue; at most 10 are counted",
    ),
    Row(
        "hence_jobs_pending",
        "gauge",
        "queue",
        "Jobs that wait for their time, a worker or a limit",
    ),
    Row("hence_jobs_running", "gauge", "queue", "Jobs handed out and not ended"),
    Row("hence_jobs_dead", "gauge", "queue", "Dead jobs that wait for a human"),
    Row(
        "hence_jobs_unregistered_total",
        "counter",
        "queue",
        "Jobs that were due and found no handler of their name, since the start of the process",
    ),
    Row(
        "hence_lateness_seconds",
        "histogram",
        "queue",
        "Time between a job's due time, or its submission if that came later, and its delivery",
    ),
    Row("hence_commit_seconds", "histogram", "", "Time a commit to the store took"),
    Row("hence_commit_changes", "histogram", "", "Facts in one commit"),
    Row("hence_http_requests_total", "counter", "route, status", "Requests answered"),
    Row(
        "hence_http_request_seconds",
        "histogram",
        "route",
        "Time a request took, waiting included",
    ),
    Row("hence_store_full", "gauge", "", "1 while the store refuses new jobs for want of space"),
    Row(
        "hence_standing_by",
        "gauge",
        "",
        "1 while another server works on the store and this one waits",
    ),
];

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct QueueLabel {
    queue: Arc<str>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct EndLabel {
    queue: Arc<str>,
    end: &'static str,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct OutcomeLabel {
    queue: Arc<str>,
    outcome: &'static str,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct FateLabel {
    fate: &'static str,
    /// Why a tick was skipped; empty for others.
    reason: &'static str,
}

impl FateLabel {
    fn of(fate: Fate) -> Self {
        let reason = match fate {
            Fate::Skipped(reason) => reason.as_str(),
            Fate::Ran(_)
            | Fate::Late(..)
            | Fate::Coalesced
            | Fate::Triggered(_)
            | Fate::Backfilled(_) => "",
        };
        FateLabel { fate: fate.as_str(), reason }
    }
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct StateLabel {
    state: &'static str,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct RouteLabel {
    route: Arc<str>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct StatusLabel {
    route: Arc<str>,
    status: u16,
}

#[derive(Clone)]
struct Buckets(&'static [f64]);

impl MetricConstructor<Histogram> for Buckets {
    fn new_metric(&self) -> Histogram {
        Histogram::new(self.0.iter().copied())
    }
}

type HistogramFamily<L> = Family<L, Histogram, Buckets>;

/// All metrics of one server.
pub struct Metrics {
    registry: Registry,
    submitted: Family<QueueLabel, Counter>,
    delivered: Family<QueueLabel, Counter>,
    attempts: Family<EndLabel, Counter>,
    finished: Family<OutcomeLabel, Counter>,
    ticks: Family<FateLabel, Counter>,
    tick_lateness: Histogram,
    schedules: Family<StateLabel, Gauge<u64, AtomicU64>>,
    schedules_failing: Gauge<u64, AtomicU64>,
    pending: Family<QueueLabel, Gauge<u64, AtomicU64>>,
    running: Family<QueueLabel, Gauge<u64, AtomicU64>>,
    dead: Family<QueueLabel, Gauge<u64, AtomicU64>>,
    unregistered: Family<QueueLabel, Counter>,
    lateness: HistogramFamily<QueueLabel>,
    commit_seconds: Histogram,
    commit_changes: Histogram,
    requests: Family<StatusLabel, Counter>,
    request_seconds: HistogramFamily<RouteLabel>,
    store_full: Gauge<u64, AtomicU64>,
    standing_by: Gauge<u64, AtomicU64>,
    /// What is measured of each queue and route, found without making a label.
    queues: RwLock<HashMap<QueueName, Arc<QueueMetrics>>>,
    routes: RwLock<HashMap<String, Arc<RouteMetrics>>>,
}

/// What is measured as it happens, for one queue.
struct QueueMetrics {
    label: Arc<str>,
    lateness: Histogram,
    /// By how they ended; made when the first one ends so.
    attempts: [OnceLock<Counter>; AttemptEnd::ALL.len()],
}

/// What is measured as it happens, for one route.
struct RouteMetrics {
    label: Arc<str>,
    seconds: Histogram,
    statuses: RwLock<HashMap<u16, Counter>>,
}

impl Default for Metrics {
    fn default() -> Self {
        let seconds = Buckets(&SECONDS);
        let mut metrics = Metrics {
            registry: Registry::default(),
            submitted: Family::default(),
            delivered: Family::default(),
            attempts: Family::default(),
            finished: Family::default(),
            ticks: Family::default(),
            tick_lateness: Histogram::new(SECONDS),
            schedules: Family::default(),
            schedules_failing: Gauge::default(),
            pending: Family::default(),
            running: Family::default(),
            dead: Family::default(),
            unregistered: Family::default(),
            lateness: Family::new_with_constructor(seconds.clone()),
            commit_seconds: Histogram::new(SECONDS),
            commit_changes: Histogram::new(CHANGES),
            requests: Family::default(),
            request_seconds: Family::new_with_constructor(seconds),
            store_full: Gauge::default(),
            standing_by: Gauge::default(),
            queues: RwLock::default(),
            routes: RwLock::default(),
        };
        metrics.register();
        metrics
    }
}

impl Metrics {
    /// Puts every metric under its name, in the order of the table.
    fn register(&mut self) {
        let registry = &mut self.registry;
        let mut rows = ROWS
            .iter()
            .map(|Row(name, _, _, help)| (name.strip_suffix("_total").unwrap_or(name), *help));
        macro_rules! next {
            ($metric:expr) => {
                if let Some((name, help)) = rows.next() {
                    registry.register(name, help, $metric.clone());
                }
            };
        }
        next!(self.submitted);
        next!(self.delivered);
        next!(self.attempts);
        next!(self.finished);
        next!(self.ticks);
        next!(self.tick_lateness);
        next!(self.schedules);
        next!(self.schedules_failing);
        next!(self.pending);
        next!(self.running);
        next!(self.dead);
        next!(self.unregistered);
        next!(self.lateness);
        next!(self.commit_seconds);
        next!(self.commit_changes);
        next!(self.requests);
        next!(self.request_seconds);
        next!(self.store_full);
        next!(self.standing_by);
    }

    /// Counts a request and its time.
    pub(crate) fn request(&self, route: &str, status: StatusCode, took: Duration) {
        let metrics = self.route(route);
        metrics.seconds.observe(took.as_secs_f64());
        let status = status.as_u16();
        let known = read(&metrics.statuses).get(&status).cloned();
        let counter = known.unwrap_or_else(|| {
            let label = StatusLabel { route: metrics.label.clone(), status };
            let counter = self.requests.get_or_create(&label).clone();
            write(&metrics.statuses).entry(status).or_insert(counter).clone()
        });
        counter.inc();
    }

    /// Whether this server waits for another one to go.
    pub(crate) fn stands_by(&self) -> bool {
        self.standing_by.get() == 1
    }

    /// The text of a scrape, with the counts of these queues and schedules.
    pub(crate) fn render(&self, queues: &[QueueView], schedules: &ScheduleCheck) -> String {
        self.take_counts(queues);
        let counts = schedules.counts;
        let states =
            [("ticking", counts.ticking), ("paused", counts.paused), ("ended", counts.ended)];
        for (state, count) in states {
            self.schedules.get_or_create(&StateLabel { state }).set(count);
        }
        self.schedules_failing.set(schedules.unsound.len() as u64);
        let mut text = String::new();
        // Writing into a String cannot fail.
        let _ = prometheus_client::encoding::text::encode(&mut text, &self.registry);
        text
    }

    fn take_counts(&self, queues: &[QueueView]) {
        let mut sums: HashMap<Arc<str>, hence_core::queue::Counts> = HashMap::new();
        for view in queues {
            let sum = sums.entry(self.queue(&view.name).label.clone()).or_default();
            sum.submitted += view.counts.submitted;
            sum.delivered += view.counts.delivered;
            sum.pending += view.counts.pending;
            sum.running += view.counts.running;
            sum.dead += view.counts.dead;
            sum.succeeded += view.counts.succeeded;
            sum.died += view.counts.died;
            sum.cancelled += view.counts.cancelled;
            sum.expired += view.counts.expired;
        }
        for (queue, sum) in sums {
            let label = QueueLabel { queue: queue.clone() };
            store(&self.submitted.get_or_create(&label), sum.submitted);
            store(&self.delivered.get_or_create(&label), sum.delivered);
            self.pending.get_or_create(&label).set(sum.pending);
            self.running.get_or_create(&label).set(sum.running);
            self.dead.get_or_create(&label).set(sum.dead);
            let outcomes = [
                ("succeeded", sum.succeeded),
                ("dead", sum.died),
                ("cancelled", sum.cancelled),
                ("expired", sum.expired),
            ];
            for (outcome, count) in outcomes {
                let label = OutcomeLabel { queue: queue.clone(), outcome };
                store(&self.finished.get_or_create(&label), count);
            }
        }
    }

    fn queue(&self, name: &QueueName) -> Arc<QueueMetrics> {
        if let Some(known) = read(&self.queues).get(name) {
            return known.clone();
        }
        let mut queues = write(&self.queues);
        let room = queues.len() < METRIC_QUEUES_MAX;
        let label: Arc<str> = Arc::from(if room { name.as_str() } else { OTHER });
        let lateness = self.lateness.get_or_create(&QueueLabel { queue: label.clone() }).clone();
        let attempts = [const { OnceLock::new() }; AttemptEnd::ALL.len()];
        let metrics = Arc::new(QueueMetrics { label, lateness, attempts });
        if room {
            queues.insert(name.clone(), metrics.clone());
        }
        metrics
    }

    fn route(&self, route: &str) -> Arc<RouteMetrics> {
        if let Some(known) = read(&self.routes).get(route) {
            return known.clone();
        }
        let label: Arc<str> = Arc::from(route);
        let family = &self.request_seconds;
        let seconds = family.get_or_create(&RouteLabel { route: label.clone() }).clone();
        let metrics = Arc::new(RouteMetrics { label, seconds, statuses: RwLock::default() });
        write(&self.routes).entry(route.to_owned()).or_insert(metrics).clone()
    }

    fn attempt(&self, queue: &QueueName, ended: Option<&AttemptRecord>) {
        let Some(AttemptRecord { end, .. }) = ended else { return };
        let metrics = self.queue(queue);
        let counter = metrics.attempts[*end as usize].get_or_init(|| {
            let label = EndLabel { queue: metrics.label.clone(), end: end.as_str() };
            self.attempts.get_or_create(&label).clone()
        });
        counter.inc();
    }
}

impl Observer for Metrics {
    fn observe(&self, event: Event<'_>) {
        match event {
            Event::Changed(
                Change::JobMoved { job, ended, .. } | Change::JobFinished { job, ended, .. },
            ) => self.attempt(&job.name.queue, ended.as_deref()),
            Event::Delivering { delivery, now } => {
                let late = Duration::from_millis(delivery.late(now).get());
                self.queue(&delivery.job.name.queue).lateness.observe(late.as_secs_f64());
            }
            Event::Committed { changes, took } => {
                self.commit_seconds.observe(took.as_secs_f64());
                self.commit_changes.observe(changes as f64);
            }
            Event::StoreFull(full) => {
                self.store_full.set(u64::from(full));
            }
            Event::StandingBy(because) => {
                self.standing_by.set(u64::from(because.is_some()));
            }
            Event::Changed(Change::OccurrenceRecorded { record }) => {
                self.ticks.get_or_create(&FateLabel::of(record.fate)).inc_by(record.count);
                if let Fate::Ran(_) | Fate::Late(..) = record.fate {
                    let late = Duration::from_millis(record.decided_at.since(record.last).get());
                    self.tick_lateness.observe(late.as_secs_f64());
                }
            }
            Event::Noticed(Notice::Unregistered { job, .. }) => {
                let queue = self.queue(&job.queue).label.clone();
                self.unregistered.get_or_create(&QueueLabel { queue }).inc();
            }
            Event::Changed(_)
            | Event::CommitFailed { .. }
            | Event::Noticed(Notice::TickMoved { .. }) => {}
        }
    }
}

/// The page `docs/reference/metrics.md`.
pub fn reference_markdown() -> String {
    let mut page = String::from(
        "# Metrics\n\nGenerated from `crates/server/src/metrics.rs`. Served at `/metrics` in the \
         OpenMetrics text\nformat, or in the text format 0.0.4 for whoever accepts \
         `text/plain` and not that.\nAfter 200 queues, further ones share the label `other`.\n\n\
         | name | type | labels | meaning |\n|---|---|---|---|\n",
    );
    for Row(name, kind, labels, help) in &ROWS {
        page.extend([format!("| `{name}` | {kind} | {labels} | {help} |\n")]);
    }
    page
}

/// The core counts; this only shows what it counted.
fn store(counter: &Counter, value: u64) {
    counter.inner().store(value, Ordering::Relaxed);
}

// A panic while a metric was being added leaves the map usable.
fn read<T>(lock: &RwLock<T>) -> std::sync::RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn write<T>(lock: &RwLock<T>) -> std::sync::RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hence_core::ledger::{OccurrenceRecord, SkipReason};
    use hence_core::queue::{Counts, QueueSettings};
    use hence_core::schedule::ScheduleCounts;

    fn view(name: &str, pending: u64) -> QueueView {
        QueueView {
            name: QueueName::new(name).unwrap(),
            settings: QueueSettings::default(),
            counts: Counts { pending, submitted: pending, ..Counts::default() },
            ready: 0,
            in_memory: 0,
            oldest_ready: None,
            unregistered: 0,
            missing_handlers: Vec::new(),
        }
    }

    fn check() -> ScheduleCheck {
        let counts = ScheduleCounts { paused: 2, ..ScheduleCounts::default() };
        ScheduleCheck { counts, unsound: Vec::new() }
    }

    #[test]
    fn every_metric_of_the_table_is_registered_under_its_type() {
        let metrics = Metrics::default();
        metrics.request("/v1/jobs", StatusCode::OK, Duration::from_millis(1));
        metrics.observe(Event::StoreFull(true));
        // A family without members is not shown.
        let label = EndLabel { queue: Arc::from("mail"), end: AttemptEnd::Failed.as_str() };
        metrics.attempts.get_or_create(&label).inc();
        let label = QueueLabel { queue: Arc::from("mail") };
        metrics.unregistered.get_or_create(&label).inc();
        let record = OccurrenceRecord {
            schedule: hence_core::id::ScheduleId::new("s").unwrap(),
            first: hence_core::time::Timestamp::EPOCH,
            last: hence_core::time::Timestamp::EPOCH,
            count: 7,
            decided_at: hence_core::time::Timestamp::EPOCH,
            fate: Fate::Skipped(SkipReason::Misfire),
        };
        metrics.observe(Event::Changed(&Change::OccurrenceRecorded { record }));
        let text = metrics.render(&[view("mail", 3)], &check());
        for Row(name, kind, _, _) in &ROWS {
            let family = name.strip_suffix("_total").unwrap_or(name);
            assert!(text.contains(&format!("# TYPE {family} {kind}\n")), "{name} in\n{text}");
        }
        assert!(text.contains("hence_jobs_pending{queue=\"mail\"} 3"), "{text}");
        assert!(text.contains("hence_http_requests_total{route=\"/v1/jobs\",status=\"200\"} 1"));
        let ticks = "hence_ticks_total{fate=\"skipped\",reason=\"misfire\"} 7";
        assert!(text.contains(ticks), "{text}");
        assert!(text.contains("hence_schedules{state=\"paused\"} 2"), "{text}");
        assert!(text.contains("hence_store_full 1"));
    }

    #[test]
    fn the_kept_page_is_what_the_code_says() {
        crate::golden::check("docs/reference/metrics.md", &reference_markdown());
    }

    #[test]
    fn labels_are_bounded() {
        let metrics = Metrics::default();
        let max = METRIC_QUEUES_MAX;
        for (count, others) in
            [(max - 1, None), (max, None), (max + 1, Some(1)), (max + 9, Some(9))]
        {
            let views: Vec<_> = (0..count).map(|n| view(&format!("q{n}"), 1)).collect();
            let text = metrics.render(&views, &check());
            let line =
                text.lines().find_map(|l| l.strip_prefix("hence_jobs_pending{queue=\"other\"} "));
            assert_eq!(line.map(|n| n.parse().unwrap()), others, "{count}");
        }
    }
}
