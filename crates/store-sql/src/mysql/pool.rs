//! The few connections that read: a list of idle ones and a semaphore. One that failed is not put
//! back.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hence_store::{ErrorKind, StoreError};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::session::{Connector, Role, Session};
use crate::limits::READS_WAITING_MAX;

pub(super) struct Pool {
    connector: Connector,
    room: Semaphore,
    waiting: AtomicUsize,
    idle: Mutex<Vec<Session>>,
}

/// A connection for a while. Dropped, it is closed; [`Pool::give_back`] keeps it.
pub(super) struct Reader<'a> {
    pub(super) session: Session,
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
        let idle = self.take_idle();
        let session = match idle {
            Some(session) => session,
            None => self.connector.connect(Role::Reader).await?,
        };
        Ok(Reader { session, _room: room })
    }

    /// Nothing is under way on it: whoever comes next may use it.
    pub(super) fn give_back(&self, reader: Reader<'_>) {
        if !reader.session.is_over() {
            self.idle().push(reader.session);
        }
    }

    /// An idle one; those that lead to a host that was left are closed.
    fn take_idle(&self) -> Option<Session> {
        let mut idle = self.idle();
        idle.retain(|session| !session.is_over());
        idle.pop()
    }

    /// Closes the idle ones: the server they led to is not there any more.
    pub(super) fn clear(&self) {
        self.idle().clear();
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Session>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
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
