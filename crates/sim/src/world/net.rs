//! The network between everybody and the node: messages take time, get lost, and arrive twice.

use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hence::{Client, Error};
use tokio::sync::oneshot;

use super::World;
use super::clock::sleep_ms;
use super::dice::Dice;
use super::faults::Fault;
use crate::history::{Answer, Stamp, Verb, What};

/// No message takes longer.
pub(super) const FLIGHT_MS: u64 = 120;

/// How long a caller waits for an answer.
const PATIENCE: Duration = Duration::from_secs(3);

/// The weather on the network.
pub(super) struct Net {
    state: Mutex<State>,
}

struct State {
    dice: Dice,
    loss: f64,
    duplicates: f64,
    cut: bool,
    slow: bool,
}

/// How a message travels.
struct Trip {
    takes_ms: u64,
    lost: Option<Fault>,
}

impl Net {
    pub(super) fn new(dice: Dice) -> Self {
        let (loss, duplicates, cut, slow) = (0.0, 0.0, false, true);
        Net { state: Mutex::new(State { dice, loss, duplicates, cut, slow }) }
    }

    pub(super) fn set_loss(&self, probability: f64) {
        self.lock().loss = probability;
    }

    pub(super) fn set_duplicates(&self, probability: f64) {
        self.lock().duplicates = probability;
    }

    pub(super) fn set_cut(&self, cut: bool) {
        self.lock().cut = cut;
    }

    /// From now on all is well, and quick.
    pub(super) fn heal(&self) {
        let mut state = self.lock();
        (state.loss, state.duplicates, state.cut, state.slow) = (0.0, 0.0, false, false);
    }

    fn trip(&self) -> Trip {
        let mut state = self.lock();
        let lost = if state.cut {
            Some(Fault::NetCut)
        } else {
            let loss = state.loss;
            state.dice.chance(loss).then_some(Fault::NetLoss)
        };
        let longest = match (state.slow, state.dice.chance(0.1)) {
            (true, true) => FLIGHT_MS,
            (true, false) => 5,
            (false, _) => 1,
        };
        let takes_ms = state.dice.between(0, longest);
        Trip { takes_ms, lost }
    }

    fn duplicates(&self) -> bool {
        let mut state = self.lock();
        let probability = state.duplicates;
        state.dice.chance(probability)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl World {
    /// A message travels; false: it never arrives. `about` is the delivery that it is about, whose
    /// end is excused by the loss.
    pub(super) async fn travel(&self, about: Option<Stamp>) -> bool {
        let Trip { takes_ms, lost } = self.net.trip();
        sleep_ms(takes_ms).await;
        if let Some(fault) = lost {
            self.story.fault(fault, about);
        }
        lost.is_none()
    }

    /// Asks the node for something, on the record. None: no answer came.
    pub(super) async fn ask<T, F, Asked>(
        self: &Arc<Self>,
        by: &str,
        verb: Verb,
        told: impl FnOnce(&T) -> Answer,
        ask: F,
    ) -> Option<Result<T, Error>>
    where
        T: Send + 'static,
        F: Fn(Client) -> Asked + Send + 'static,
        Asked: Future<Output = Result<T, Error>> + Send + 'static,
    {
        let call = self.story.ask(by, verb.clone());
        // A copy is a question of its own, to which nobody waits for an answer.
        let (story, asker) = (self.story.clone(), by.to_owned());
        let copied = move || {
            story.ask(&asker, verb.clone());
        };
        let answer = self.send(ask, copied).await?;
        let answer = match answer {
            Ok(value) => Ok((told(&value), value)),
            Err(error @ Error::Rejected(_)) => Err(error),
            // The node stopped, or could not say: nobody knows what became of it.
            Err(_) => return None,
        };
        let said = answer.as_ref().map_or(Answer::Refused, |(said, _)| said.clone());
        self.story.tell(by, What::Told { call, answer: said });
        Some(answer.map(|(_, value)| value))
    }

    /// Sends a question and waits for the answer, off the record; `copied` hears of it when the
    /// network makes two of it.
    pub(super) async fn send<T, F, Asked>(
        self: &Arc<Self>,
        ask: F,
        copied: impl Fn() + Send + 'static,
    ) -> Option<Result<T, Error>>
    where
        T: Send + 'static,
        F: Fn(Client) -> Asked + Send + 'static,
        Asked: Future<Output = Result<T, Error>> + Send + 'static,
    {
        let (back, answer) = oneshot::channel();
        let world = Arc::clone(self);
        tokio::spawn(async move {
            if !world.travel(None).await {
                return;
            }
            let Some(client) = world.node.client() else { return };
            let said = ask(client).await;
            if world.net.duplicates()
                && let Some(client) = world.node.client()
            {
                world.story.fault(Fault::NetDuplicate, None);
                copied();
                let copy = ask(client);
                tokio::spawn(async move { drop(copy.await) });
            }
            if world.travel(None).await {
                // A caller that has given up does not listen.
                let _ = back.send(said);
            }
        });
        tokio::time::timeout(PATIENCE, answer).await.ok()?.ok()
    }
}
