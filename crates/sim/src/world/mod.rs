//! The world in one thread: a node that is the real one but for its threads, and everybody who
//! deals with it. Time is simulated and chance is seeded: the same seed tells the same story.

mod chaos;
mod clock;
mod dice;
mod disk;
mod faults;
mod finale;
mod net;
mod node;
mod operator;
mod producer;
mod store;
mod story;
mod target;
mod worker;

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use hence::builder::Config;
use hence_core::id::JobName;
use hence_core::job::{HttpTarget, Target};
use hence_store::{ErrorKind, StoreError};
use tokio::sync::mpsc;

use crate::history::{Event, How, What};
use clock::{SimClock, sleep_ms};
use dice::Dice;
use disk::SimDisk;
use faults::Mix;
use net::Net;
use node::Node;
use store::Line;
use story::Story;
use target::Parcel;

pub use faults::Fault;
pub use story::{Line as StoryLine, about};

const PRODUCERS: usize = 3;
const WORKERS: usize = 3;

/// How much longer a world is troubled while a fault that it drew has not fired.
const PATIENCE_MS: u64 = 60_000;

/// How large a world is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Size {
    /// A minute or three, some hundred jobs: many of them show rare meetings of faults.
    #[default]
    Usual,
    /// An hour, some five thousand jobs: a few of them show what takes long to build up.
    Large,
}

/// Which world.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Everything follows from it.
    pub seed: u64,
    /// How much of it there is.
    pub size: Size,
    /// Of the faults that the seed draws, only these happen.
    pub only: Option<Vec<Fault>>,
    /// Everything is healed after so many steps of the node.
    pub steps: Option<u64>,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Run {
    /// Everything that happened.
    pub events: Vec<Event>,
    /// The faults that the seed drew, and how often each fired.
    pub faults: Vec<(Fault, usize)>,
    /// What went wrong with the world itself: it never calmed down, or refused to open its store.
    pub broken: Option<String>,
    /// Steps that the node took.
    pub steps: u64,
    /// Simulated milliseconds.
    pub simulated_ms: u64,
}

/// Everybody's world.
pub(crate) struct World {
    seed: u64,
    size: Size,
    config: Config,
    mix: Mix,
    clock: Arc<SimClock>,
    story: Story,
    net: Net,
    disk: SimDisk,
    line: Line,
    node: Node,
    parcels: mpsc::UnboundedSender<Parcel>,
    /// Whoever has it may touch the clock.
    clock_turn: tokio::sync::Mutex<()>,
    phase: AtomicU8,
    refused: Mutex<Option<String>>,
}

/// Producers ask, faults happen.
const ACTIVE: u8 = 0;
/// Everything works, everybody behaves.
const HEALED: u8 = 1;

/// Lives through a world.
pub fn run(options: &Options) -> Result<Run> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .context("making a runtime")?;
    runtime.block_on(async {
        let (world, parcels) = World::new(options);
        let ended = world.live(options, parcels).await;
        let drawn = world.mix.all().iter();
        let faults = drawn.map(|fault| (*fault, world.story.fired(*fault))).collect();
        let events = world.story.take();
        let broken = ended.err().map(|error| format!("{error:#}"));
        let refused = world.refused.lock().unwrap_or_else(PoisonError::into_inner).take();
        let (steps, simulated_ms) = (world.node.steps(), world.clock.true_ms());
        Ok(Run { events, faults, broken: refused.or(broken), steps, simulated_ms })
    })
}

impl World {
    fn new(options: &Options) -> (Arc<World>, mpsc::UnboundedReceiver<Parcel>) {
        let seed = options.seed;
        let clock = Arc::new(SimClock::new());
        let story = Story::new(Arc::clone(&clock));
        let (parcels, incoming) = mpsc::unbounded_channel();
        let world = World {
            seed,
            size: options.size,
            config: node::draw_config(&mut Dice::new(seed, "config")),
            mix: Mix::draw(seed, options.only.as_deref()),
            line: Line::new(Dice::new(seed, "line"), story.clone()),
            clock,
            story,
            net: Net::new(Dice::new(seed, "net")),
            disk: SimDisk::default(),
            node: Node::default(),
            parcels,
            clock_turn: tokio::sync::Mutex::default(),
            phase: AtomicU8::new(ACTIVE),
            refused: Mutex::default(),
        };
        (Arc::new(world), incoming)
    }

    async fn live(
        self: &Arc<Self>,
        options: &Options,
        parcels: mpsc::UnboundedReceiver<Parcel>,
    ) -> Result<()> {
        let window_jobs = self.config.window_jobs.map(|jobs| jobs as u64);
        self.story.tell("fate", What::Begin { flight_ms: net::FLIGHT_MS, window_jobs });
        let (low, high) = self.size.troubled_ms();
        let span_ms = self.dice("span").between(low, high);
        tokio::spawn(node::run(Arc::clone(self)));
        tokio::spawn(target::run(Arc::clone(self), parcels));
        tokio::spawn(operator::run(Arc::clone(self)));
        for number in 1..=PRODUCERS {
            tokio::spawn(producer::run(Arc::clone(self), number));
        }
        for number in 1..=WORKERS {
            tokio::spawn(worker::run(Arc::clone(self), number));
        }
        tokio::spawn(chaos::run(Arc::clone(self), span_ms));
        let end_ms = span_ms + 5_000;
        while self.clock.true_ms() < end_ms && !self.has_had_enough(options) {
            sleep_ms(100).await;
        }
        // A fault that waits for its opportunity gets some more time, but not for ever.
        while self.clock.true_ms() < end_ms + PATIENCE_MS
            && !self.has_had_enough(options)
            && self.mix.all().iter().any(|fault| self.story.fired(*fault) == 0)
        {
            sleep_ms(100).await;
        }
        self.heal().await;
        finale::run(self).await
    }

    fn has_had_enough(&self, options: &Options) -> bool {
        options.steps.is_some_and(|steps| self.node.steps() >= steps)
    }

    /// Everything works again, and everybody behaves.
    async fn heal(&self) {
        self.story.note("fate", "everything is healed");
        self.phase.store(HEALED, Ordering::Relaxed);
        // Faults that are under way come to their own end, and the last restart with them.
        sleep_ms(15_000).await;
        self.net.heal();
        self.disk.limit(None);
        self.disk.fail_reads(false);
        if self.disk.is_wrong() {
            self.put_right("a write went astray, and nobody has met it");
        }
        self.clock.drift(0);
        sleep_ms(5_000).await;
    }

    fn is_active(&self) -> bool {
        self.phase.load(Ordering::Relaxed) == ACTIVE
    }

    fn is_healed(&self) -> bool {
        !self.is_active()
    }

    /// Whether a receiver's own fault happens now. The first time comes soon: a fault that was
    /// drawn must show.
    fn strikes(&self, fault: Fault, probability: f64, dice: &mut Dice) -> bool {
        let soon = if self.story.fired(fault) == 0 { 0.4 } else { 0.0 };
        let struck = self.mix.has(fault) && dice.chance(probability.max(soon));
        struck && self.is_active()
    }

    fn dice(&self, name: &str) -> Dice {
        Dice::new(self.seed, name)
    }

    /// The store on the disk cannot be opened. A lack of room or a broken disk passes.
    fn refuse_to_open(&self, error: &StoreError) {
        self.story.note("store", format!("cannot be opened: {error}"));
        self.hear_of_damage(error);
    }

    /// The store found damage: that of a write that went astray is put right; any other is a
    /// broken promise, and so is one that does not say where it is.
    fn hear_of_damage(&self, error: &StoreError) {
        if error.kind() != ErrorKind::Corrupt {
            return;
        }
        let named = error.to_string().contains("is damaged at byte");
        if self.disk.is_wrong() && named {
            return self.put_right(&format!("damage was found: {error}"));
        }
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.get_or_insert_with(|| format!("the store refuses to open: {error}"));
    }

    fn put_right(&self, why: &str) {
        self.disk.put_right();
        self.story.note("disk", format!("{why}; its mirror takes its place"));
    }
}

impl Size {
    /// How long it is troubled, at least and at most.
    const fn troubled_ms(self) -> (u64, u64) {
        match self {
            Size::Usual => (60_000, 180_000),
            Size::Large => (3_600_000, 3_600_000),
        }
    }

    /// The longest that a producer waits between two wishes.
    const fn pause_ms_max(self) -> u64 {
        match self {
            Size::Usual => 1_200,
            Size::Large => 2_400,
        }
    }

    /// How often a fault is brought about, at most.
    const fn times_max(self) -> u64 {
        match self {
            Size::Usual => 3,
            Size::Large => 30,
        }
    }

    /// How often one of the clock is. These take turns, and what the clock was set back, all
    /// together, must be over before everything can come to its end.
    const fn clock_times_max(self) -> u64 {
        match self {
            Size::Usual => 1,
            Size::Large => 4,
        }
    }

    /// Deliveries that must have been done in it, or it shows nothing.
    pub(crate) const fn done_min(self) -> usize {
        match self {
            Size::Usual => 25,
            Size::Large => 2_500,
        }
    }
}

impl Run {
    /// Deliveries whose receivers did the work and said so.
    pub fn done(&self) -> usize {
        let done = |event: &&Event| matches!(event.what, What::Ended { how: How::Done, .. });
        self.events.iter().filter(done).count()
    }
}

/// A job's name as histories write it.
fn name_text(name: &JobName) -> String {
    let key = name.key.as_ref().map_or("-", |key| key.as_str());
    format!("{}/{key}/{}", name.queue, name.id)
}

fn push_target() -> Target {
    Target::Http(Arc::new(HttpTarget::post("http://target.example/")))
}
