//! The time: a true one, which only counts, and what the node's host shows on its wall.
//!
//! The true time is the runtime's, which stands still while anybody has something to do and then
//! jumps to the next timer. The wall drifts, jumps ahead and back, and goes mad.

#![expect(clippy::disallowed_methods, reason = "this is the simulation's clock")]

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hence::clock::{Clock, Steps};
use hence_core::time::Timestamp;
use tokio::time::Instant;

/// Where the wall stands at first: 2029-01-01T00:00:00Z.
const WALL_AT_START: i64 = 1_861_920_000_000;

/// How long the machine has run when the world begins.
const BOOT_AT_START: Duration = Duration::from_secs(1_000);

/// The time.
pub(super) struct SimClock {
    start: Instant,
    state: Mutex<State>,
}

struct State {
    /// The wall showed this …
    wall: i64,
    /// … at this true time, …
    at: u64,
    /// … and has gone wrong by so many millionths since.
    drift_ppm: i64,
    /// What the wall shows too much, for a moment, until somebody notices.
    mad: i64,
    steps: Steps,
    pokes: Vec<Box<dyn Fn() + Send + Sync>>,
}

impl SimClock {
    /// A clock; there must be a runtime.
    pub(super) fn new() -> Self {
        let steps = Steps::default();
        let (wall, at, drift_ppm, mad, pokes) = (WALL_AT_START, 0, 0, 0, Vec::new());
        let state = Mutex::new(State { wall, at, drift_ppm, mad, steps, pokes });
        SimClock { start: Instant::now(), state }
    }

    /// The true time, in milliseconds since the beginning.
    pub(super) fn true_ms(&self) -> u64 {
        self.start.elapsed().as_millis() as u64
    }

    /// What the wall shows, its moments of madness apart.
    pub(super) fn wall(&self) -> i64 {
        self.lock().wall_at(self.true_ms())
    }

    /// The wall is set ahead or back, for good.
    pub(super) fn jump(&self, by_ms: i64) {
        let mut state = self.rebased();
        state.wall += by_ms;
        state.poke();
    }

    /// The wall goes wrong by so many millionths from now on.
    pub(super) fn drift(&self, ppm: i64) {
        self.rebased().drift_ppm = ppm;
    }

    /// The wall shows nonsense, until it is called off with zero.
    pub(super) fn go_mad(&self, by_ms: i64) {
        let mut state = self.rebased();
        // The guard goes by the machine's own count meanwhile.
        state.drift_ppm = 0;
        state.mad = by_ms;
        state.poke();
    }

    /// A new process begins: it has seen no clock before.
    pub(super) fn reboot(&self) {
        let mut state = self.lock();
        state.mad = 0;
        state.steps = Steps::default();
        state.pokes.clear();
    }

    fn rebased(&self) -> MutexGuard<'_, State> {
        let now = self.true_ms();
        let mut state = self.lock();
        state.wall = state.wall_at(now);
        state.at = now;
        state
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn wall_at(&self, true_ms: u64) -> i64 {
        let passed = (true_ms - self.at) as i64;
        self.wall + passed + passed * self.drift_ppm / 1_000_000
    }

    fn poke(&self) {
        for poke in &self.pokes {
            poke();
        }
    }
}

impl Clock for SimClock {
    fn now(&self) -> Timestamp {
        let true_ms = self.true_ms();
        let mut state = self.lock();
        let shown = Duration::from_millis((state.wall_at(true_ms) + state.mad) as u64);
        let boot = BOOT_AT_START + Duration::from_millis(true_ms);
        Timestamp::from_millis(state.steps.judge(shown, boot).as_millis() as i64)
    }

    fn until(&self, _instant: Timestamp) -> Option<Duration> {
        None
    }

    fn attach(&self, poke: Box<dyn Fn() + Send + Sync>) {
        self.lock().pokes.push(poke);
    }
}

/// Lets so much true time pass.
pub(super) async fn sleep_ms(span: u64) {
    if span > 0 {
        tokio::time::sleep(Duration::from_millis(span)).await;
    }
}
