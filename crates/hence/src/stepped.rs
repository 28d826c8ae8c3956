//! A Hence without threads: whoever has it takes every step, in any order. For simulation: one
//! thread is the whole world, and the same seed must tell the same story.
//!
//! It is the same driver, committer and reader that a [`Hence`] runs on three threads; what order
//! their steps come in is up to the caller, as it is up to the operating system there.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use hence_core::time::Timestamp;
use tokio::sync::oneshot;

use crate::builder::{Builder, Hence, Parts};
use crate::client::Client;
use crate::clock::Wait;
use crate::commit::{Patience, SteppedCommits, TRY_AGAIN_AFTER};
use crate::driver::{Driver, Next};
use crate::error::Error;
use crate::mailbox::Message;
use crate::read::SteppedReads;

/// A Hence whose steps are taken by hand. Dropping it is what a crash is to a [`Hence`].
#[must_use = "it stops when it is dropped"]
pub struct Stepped {
    driver: Driver,
    commits: SteppedCommits,
    reads: SteppedReads,
    hence: Hence,
}

/// What a step is to be taken of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Duty {
    /// Take in what was asked and what is due, and decide.
    Drive,
    /// Make facts durable, and let go of what waited for them.
    Commit,
    /// Read from the store.
    Read,
}

/// What came of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Something was done; there may be more.
    Done,
    /// There is nothing to do.
    Idle,
    /// The store cannot be used at the moment; try again after [`Stepped::TRY_AGAIN_AFTER`].
    Stuck,
    /// It has ended.
    Over,
}

impl Stepped {
    /// How long to wait after [`Step::Stuck`].
    pub const TRY_AGAIN_AFTER: Duration = TRY_AGAIN_AFTER;

    /// Takes the shard over and recovers it. `bell` is called whenever there is something new to
    /// drive. The store must answer every call without waiting.
    pub async fn start(
        builder: Builder,
        bell: impl Fn() + Send + Sync + 'static,
    ) -> Result<Self, Error> {
        let bell = Some(Arc::new(bell) as _);
        let parts = builder.assemble(Wait::NotAtAll, Patience::GiveBack, bell).await?;
        let Parts { mut driver, line, works, reader, reads, hence } = parts;
        let commits = SteppedCommits { line, works, stuck: None };
        let reads = SteppedReads { reader, reads, stuck: VecDeque::new() };
        match driver.begin() {
            Next::GoOn => Ok(Stepped { driver, commits, reads, hence }),
            Next::Stop => Err(Error::Stopped),
        }
    }

    /// The way to ask it for something.
    pub fn client(&self) -> Client {
        self.hence.client()
    }

    /// Takes one step.
    pub fn step(&mut self, duty: Duty) -> Step {
        match duty {
            Duty::Commit => self.commits.step(),
            Duty::Read => self.reads.step(),
            Duty::Drive => match self.driver.step() {
                None => Step::Idle,
                Some(Next::GoOn) => Step::Done,
                Some(Next::Stop) => Step::Over,
            },
        }
    }

    /// When there is something to drive though nobody rings.
    pub fn deadline(&self) -> Option<Timestamp> {
        self.driver.deadline()
    }

    /// Accepts and hands out nothing any more; says when nothing of its own is under way.
    pub fn drain(&self) -> Result<oneshot::Receiver<()>, Error> {
        let (done, drained) = oneshot::channel();
        self.hence.mailbox.send(Message::Drain(done))?;
        self.hence.dispatch.close();
        Ok(drained)
    }

    /// Gives back what is still under way.
    pub fn give_back(&self) {
        self.hence.dispatch.give_all_back();
    }
}
