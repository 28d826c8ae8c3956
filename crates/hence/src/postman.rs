//! Brings letters: requests that others wrote into the store, in transactions of their own.
//!
//! A page is read, given to the driver, and waited for; then the next one. So no letter is under
//! way twice, and one that was taken is never seen again. What a letter says is read by whoever
//! knows its language ([`Builder::letters`](crate::Builder::letters)); what comes of it is decided
//! by the core.

use std::sync::Arc;
use std::time::Duration;

use hence_core::error::Rejection;
use hence_core::id::{JobName, JobNumber, LetterId};
use hence_core::input::Request;
use hence_core::job::Payload;
use hence_store::{Letter, Store};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::chance::Chance;
use crate::clock::rest;
use crate::error::Error;
use crate::mailbox::{Mailbox, Message};
use crate::new_job::NewJob;

/// Letters read at once: enough for one commit, and few enough to be decided in one go.
const PAGE: usize = 500;

/// How long a letter that could not be taken for a passing reason waits for the next try.
const TRY_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// How long nothing is heard before the postman looks by itself. What is missed between two
/// connections to a store must not be missed for good.
const LOOK_AFTER: Duration = Duration::from_secs(30);

/// What a letter asks for.
#[derive(Clone, Debug)]
pub enum Asked {
    /// Schedule this job; times are counted from when the letter was written.
    Add(Box<NewJob>),
    /// The job is done: its work was committed together with the letter.
    Complete {
        /// Which.
        name: JobName,
        /// The job that was meant, not a later one of its name.
        number: JobNumber,
        /// What came of it.
        result: Option<Payload>,
    },
}

/// Reads what a letter says.
pub(crate) type LetterReader = Arc<dyn Fn(&Letter) -> Result<Asked, Rejection> + Send + Sync>;

/// Brings letters until the driver is gone.
pub(crate) struct Postman {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) mailbox: Mailbox,
    pub(crate) chance: Chance,
    pub(crate) read: LetterReader,
}

/// Whether letters are left in the inbox that can be taken later.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Round {
    Clean,
    SomeLeft,
}

impl Postman {
    pub(crate) async fn run(self) {
        loop {
            // From here on: what is written while the round is made is heard of afterwards.
            let news = self.store.await_letters();
            let wait = match self.round().await {
                Ok(Round::Clean) => LOOK_AFTER,
                Ok(Round::SomeLeft) | Err(Error::Store(_)) => TRY_AGAIN_AFTER,
                Err(_) => return,
            };
            if let Ok(Err(error)) = timeout(wait, news).await {
                tracing::warn!(%error, "cannot hear of new letters");
                rest(self.chance.about(TRY_AGAIN_AFTER)).await;
            }
        }
    }

    /// Goes through the inbox once.
    async fn round(&self) -> Result<Round, Error> {
        let (mut after, mut round) = (LetterId(0), Round::Clean);
        loop {
            let letters = self.store.letters(after, PAGE).await;
            let letters = letters.inspect_err(|error| {
                tracing::warn!(%error, "cannot read letters");
            })?;
            let Some(last) = letters.last() else { return Ok(round) };
            after = last.id;
            let whole = letters.len() < PAGE;
            if self.deliver(&letters).await? == Round::SomeLeft {
                round = Round::SomeLeft;
            }
            if whole {
                return Ok(round);
            }
        }
    }

    async fn deliver(&self, letters: &[Letter]) -> Result<Round, Error> {
        let requests = letters.iter().map(|letter| (letter.id, self.request(letter))).collect();
        let (done, delivered) = oneshot::channel();
        self.mailbox.send(Message::Letters(requests, done))?;
        delivered.await.map_err(|_| Error::Stopped)
    }

    fn request(&self, letter: &Letter) -> Result<Request, Rejection> {
        match (self.read)(letter)? {
            Asked::Add(job) => {
                let job = job.into_submission(letter.at, |now| self.chance.id(now))?;
                Ok(Request::Submit(Box::new(job)))
            }
            Asked::Complete { name, number, result } => {
                Ok(Request::Complete { name, number, result })
            }
        }
    }
}
