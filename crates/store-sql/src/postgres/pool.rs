//! The few connections that read. No library: a list of idle ones and a semaphore are all there is
//! to it, and a connection that failed is simply not put back.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use hence_store::{ErrorKind, StoreError};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::session::{Connector, Session};
use crate::limits::READS_WAITING_MAX;

pub(super) struct Pool {
    connector: Connector,
    room: Semaphore,
    waiting: AtomicUsize,
    idle: Mutex<Vec<Session>>,
}

/// A connection for a while. Dropped, it is closed; [`Reader::give_back`] keeps it.
pub(super) struct Reader<'a> {
    session: Option<Session>,
    pool: &'a Pool,
    _room: SemaphorePermit<'a>,
}

impl Pool {
    pub(super) fn new(connector: Connector, readers: usize) -> Self {
        let (waiting, idle) = (AtomicUsize::new(0), Mutex::default());
        Pool { connector, room: Semaphore::new(readers), waiting, idle }
    }

    /// A connection, once there is one.
    pub(super) async fn get(&self) -> Result<Reader<'_>, StoreError> {
        let refused = |message: &str| StoreError::new(ErrorKind::Unavailable, message);
        let turn = Waiting::new(&self.waiting).ok_or_else(|| {
            refused(&format!("read: {READS_WAITING_MAX} others wait for a connection already"))
        })?;
        let room = self.room.acquire().await.map_err(|_| refused("read: the store is closed"))?;
        drop(turn);
        let idle = self.idle().pop().filter(Session::is_good);
        let session = match idle {
            Some(session) => session,
            None => self.connector.connect().await?,
        };
        Ok(Reader { session: Some(session), pool: self, _room: room })
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Session>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reader<'_> {
    /// Nothing is under way on it: whoever comes next may use it.
    pub(super) fn give_back(mut self) {
        if let Some(session) = self.session.take().filter(Session::is_good) {
            self.pool.idle().push(session);
        }
    }
}

impl std::ops::Deref for Reader<'_> {
    type Target = Session;

    fn deref(&self) -> &Session {
        self.session.as_ref().expect("a reader has a session until it is given back")
    }
}

/// Counts whoever waits, for as long as they do.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn new(count: &'a AtomicUsize) -> Option<Self> {
        let waiting = Waiting(count);
        (count.fetch_add(1, Ordering::AcqRel) < READS_WAITING_MAX).then_some(waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}
