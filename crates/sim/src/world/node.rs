//! The node: one life after another on the same disk, each of them the real driver, committer and
//! reader, stepped in an order that the dice choose.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hence::Client;
use hence::builder::{Builder, Config};
use hence::clock::Clock;
use hence::stepped::{Duty, Step, Stepped};
use hence_store_embedded::EmbeddedStore;
use tokio::sync::Notify;

use super::World;
use super::clock::sleep_ms;
use super::dice::Dice;
use super::store::SimStore;
use super::target::{HANDLER, PushLine};
use crate::history::What;

/// The longest a node sleeps: as the real one, it notices within this that the clock was moved.
const NAP_MS_MAX: u64 = 250;

/// How long a node that is told to stop waits for what is under way.
const GRACE: Duration = Duration::from_secs(2);

/// How the others reach the node.
#[derive(Default)]
pub(super) struct Node {
    client: Mutex<Option<Client>>,
    order: Mutex<Option<Order>>,
    bell: Arc<Notify>,
    steps: AtomicU64,
}

/// What is to become of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// It dies after so many steps.
    Die {
        /// What dies with it.
        who: Dies,
        /// Steps until then.
        after_steps: u64,
    },
    /// It stops in good order.
    Stop,
    /// It does nothing for so long.
    Stall {
        /// In milliseconds.
        ms: u64,
    },
}

/// What dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dies {
    /// The process, with the store in it.
    Process,
    /// Only the node: its store lives on, and what it sent to it is still on its way.
    Owner,
}

/// How a life ended.
enum End {
    Process,
    Owner,
    Stopped,
}

type StoreHandle = Arc<SimStore<EmbeddedStore>>;

impl Node {
    /// The way to ask it, while it lives.
    pub(super) fn client(&self) -> Option<Client> {
        self.client.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn order(&self, order: Order) {
        *self.order.lock().unwrap_or_else(PoisonError::into_inner) = Some(order);
        self.bell.notify_one();
    }

    /// Steps taken since the beginning.
    pub(super) fn steps(&self) -> u64 {
        self.steps.load(Ordering::Relaxed)
    }

    fn set_client(&self, client: Option<Client>) {
        *self.client.lock().unwrap_or_else(PoisonError::into_inner) = client;
    }

    fn take_order(&self) -> Option<Order> {
        self.order.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Lives, again and again.
pub(super) async fn run(world: Arc<World>) {
    let mut dice = world.dice("node");
    let mut store: Option<StoreHandle> = None;
    loop {
        let Some(opened) = store.take().or_else(|| open(&world)) else {
            sleep_ms(dice.between(50, 500)).await;
            world.disk.settle(dice.word());
            continue;
        };
        let end = match begin(&world, &opened, &mut dice).await {
            Some(life) => life.live(&mut dice).await,
            // It could not take the shard over: it gives up, and tries again from the start.
            None => End::Process,
        };
        world.node.set_client(None);
        match end {
            End::Stopped => world.story.tell("node", What::Stopped),
            End::Process | End::Owner => world.story.tell("node", What::Died),
        }
        match end {
            End::Owner => store = Some(opened),
            End::Process | End::Stopped => {
                drop(opened);
                if world.disk.settle(dice.word()) {
                    world.story.note("disk", "what was not synced is as chance has it");
                }
                if world.disk.end_is_wrong() {
                    world.put_right("the end of the log went astray, which nobody can see");
                }
            }
        }
        sleep_ms(dice.between(1, 2_000)).await;
    }
}

fn open(world: &World) -> Option<StoreHandle> {
    match world.disk.open() {
        Ok(store) => {
            if let Some(torn) = &store.opened().torn {
                world.story.note("store", format!("dropped a torn tail at {}", torn.offset));
            }
            Some(Arc::new(SimStore::new(store, world.line.clone())))
        }
        Err(error) => {
            world.refuse_to_open(&error);
            None
        }
    }
}

/// A life.
struct Life<'w> {
    world: &'w Arc<World>,
    stepped: Stepped,
    store: StoreHandle,
    fatal: Arc<AtomicBool>,
}

async fn begin<'w>(
    world: &'w Arc<World>,
    store: &StoreHandle,
    dice: &mut Dice,
) -> Option<Life<'w>> {
    world.clock.reboot();
    let fatal = Arc::new(AtomicBool::new(false));
    let (seen, of_world) = (Arc::clone(&fatal), Arc::downgrade(world));
    let builder = Builder::new(Arc::clone(store) as _)
        .clock(Arc::clone(&world.clock) as Arc<dyn Clock>)
        .seed(dice.word())
        .node("node")
        .config(world.config.clone())
        .http(PushLine::push(world))
        .on_fatal(move |error| {
            seen.store(true, Ordering::Relaxed);
            if let Some(world) = of_world.upgrade() {
                world.hear_of_damage(error);
            }
        })
        .handler_fn(HANDLER, PushLine::handler(world))
        .ok()?;
    let bell = Arc::clone(&world.node.bell);
    match Stepped::start(builder, move || bell.notify_one()).await {
        Ok(stepped) => {
            world.story.note("node", "lives");
            world.node.set_client(Some(stepped.client()));
            Some(Life { world, stepped, store: Arc::clone(store), fatal })
        }
        Err(error) => {
            world.story.note("node", format!("cannot start: {error}"));
            None
        }
    }
}

impl Life<'_> {
    async fn live(mut self, dice: &mut Dice) -> End {
        let mut death: Option<(u64, Dies)> = None;
        loop {
            match self.world.node.take_order() {
                Some(Order::Die { who, after_steps }) => {
                    death = Some((self.world.node.steps() + after_steps, who));
                }
                Some(Order::Stop) => return self.stop(dice).await,
                Some(Order::Stall { ms }) => sleep_ms(ms).await,
                None => {}
            }
            let mut duties = [Duty::Drive, Duty::Commit, Duty::Read];
            dice.shuffle(&mut duties);
            let (mut idle, mut stuck) = (true, false);
            for duty in duties {
                match self.step(duty) {
                    Step::Done => idle = false,
                    Step::Idle => {}
                    Step::Stuck => stuck = true,
                    Step::Over => return End::Process,
                }
                if let Some((_, who)) = death.filter(|(at, _)| self.world.node.steps() >= *at) {
                    return if who == Dies::Owner { End::Owner } else { End::Process };
                }
            }
            if idle {
                nap(self.world, self.nap_ms(stuck)).await;
                self.store.arrive();
                self.store.look_for_room();
            } else {
                tokio::task::yield_now().await;
            }
        }
    }

    fn step(&mut self, duty: Duty) -> Step {
        self.world.node.steps.fetch_add(1, Ordering::Relaxed);
        let step = self.stepped.step(duty);
        if self.fatal.load(Ordering::Relaxed) { Step::Over } else { step }
    }

    /// How long there is nothing to do, if nobody says anything.
    fn nap_ms(&self, stuck: bool) -> u64 {
        let due = self
            .stepped
            .deadline()
            .map_or(NAP_MS_MAX, |at| at.since(self.world.clock.now()).get().min(NAP_MS_MAX));
        let again = Stepped::TRY_AGAIN_AFTER.as_millis() as u64;
        if stuck { due.clamp(1, again) } else { due.max(1) }
    }

    /// Stops in good order: what is under way is waited for, and given back if it takes too long.
    async fn stop(mut self, dice: &mut Dice) -> End {
        let Ok(mut drained) = self.stepped.drain() else { return End::Process };
        let give_back_at = self.world.clock.true_ms() + GRACE.as_millis() as u64;
        loop {
            let mut idle = true;
            let mut duties = [Duty::Drive, Duty::Commit, Duty::Read];
            dice.shuffle(&mut duties);
            for duty in duties {
                match self.step(duty) {
                    Step::Done => idle = false,
                    Step::Idle | Step::Stuck => {}
                    Step::Over => return End::Process,
                }
            }
            if drained.try_recv().is_ok() {
                return End::Stopped;
            }
            let now = self.world.clock.true_ms();
            if now >= give_back_at {
                self.stepped.give_back();
            }
            // A store that cannot be written by then does not keep the process from ending.
            if now >= give_back_at + 5_000 {
                return End::Process;
            }
            if idle {
                nap(self.world, self.nap_ms(true)).await;
            } else {
                tokio::task::yield_now().await;
            }
        }
    }
}

/// Sleeps, until somebody says something.
async fn nap(world: &World, span_ms: u64) {
    let bell = world.node.bell.notified();
    let _ = tokio::time::timeout(Duration::from_millis(span_ms), bell).await;
}

/// Small windows and limits, so that a short life meets them.
pub(super) fn draw_config(dice: &mut Dice) -> Config {
    Config {
        pushes_max: Some(dice.between(2, 40) as u32),
        handlers_max: Some(dice.between(2, 40) as u32),
        window_jobs: Some(dice.between(4, 400) as usize),
        ..Config::default()
    }
}
