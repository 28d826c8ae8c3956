//! The few connections that read. No library: a list of idle ones and a semaphore are all there is
//! to it, and a connection that failed is simply not put back.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hence_store::{ErrorKind, StoreError};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::limits::READS_WAITING_MAX;

/// Whoever makes connections that read.
pub(crate) trait Connect {
    type Session;

    fn connect(&self) -> impl Future<Output = Result<Self::Session, StoreError>> + Send;

    /// Whether a connection that nobody used for a while can be used again.
    fn is_good(session: &Self::Session) -> bool;
}

pub(crate) struct Pool<C: Connect> {
    connector: C,
    room: Semaphore,
    waiting: AtomicUsize,
    idle: Mutex<Vec<C::Session>>,
}

/// A connection for a while. Dropped, it is closed; [`Reader::give_back`] keeps it.
pub(crate) struct Reader<'a, C: Connect> {
    session: Option<C::Session>,
    pool: &'a Pool<C>,
    _room: SemaphorePermit<'a>,
}

impl<C: Connect> Pool<C> {
    pub(crate) fn new(connector: C, readers: usize) -> Self {
        let (waiting, idle) = (AtomicUsize::new(0), Mutex::default());
        Pool { connector, room: Semaphore::new(readers), waiting, idle }
    }

    /// A connection, once there is one.
    pub(crate) async fn get(&self) -> Result<Reader<'_, C>, StoreError> {
        let refused = |message: &str| StoreError::new(ErrorKind::Unavailable, message);
        let turn = Waiting::new(&self.waiting).ok_or_else(|| {
            refused(&format!("read: {READS_WAITING_MAX} others wait for a connection already"))
        })?;
        let room = self.room.acquire().await.map_err(|_| refused("read: the store is closed"))?;
        drop(turn);
        let idle = self.take_idle();
        let session = match idle {
            Some(session) => session,
            None => self.connector.connect().await?,
        };
        Ok(Reader { session: Some(session), pool: self, _room: room })
    }

    /// Closes the idle ones after a call that failed in a way that passes: the server they led to
    /// may be gone, or hang, and each would have to be found out about alone.
    pub(crate) fn learn<T>(&self, answer: &Result<T, StoreError>) {
        if answer.as_ref().is_err_and(|error| error.kind() == ErrorKind::Unavailable) {
            self.idle().clear();
        }
    }

    /// An idle one; those that are no good any more are closed.
    fn take_idle(&self) -> Option<C::Session> {
        let mut idle = self.idle();
        idle.retain(C::is_good);
        idle.pop()
    }

    fn idle(&self) -> MutexGuard<'_, Vec<C::Session>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<C: Connect> Reader<'_, C> {
    /// Nothing is under way on it: whoever comes next may use it.
    pub(crate) fn give_back(mut self) {
        if let Some(session) = self.session.take().filter(C::is_good) {
            self.pool.idle().push(session);
        }
    }
}

const TAKEN: &str = "a reader has a session until it is given back";

impl<C: Connect> Deref for Reader<'_, C> {
    type Target = C::Session;

    fn deref(&self) -> &C::Session {
        self.session.as_ref().expect(TAKEN)
    }
}

impl<C: Connect> DerefMut for Reader<'_, C> {
    fn deref_mut(&mut self) -> &mut C::Session {
        self.session.as_mut().expect(TAKEN)
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

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    /// Numbers its connections; an odd one is no good for a second time.
    #[derive(Default)]
    struct Numbers(AtomicUsize);

    impl Connect for Numbers {
        type Session = usize;

        async fn connect(&self) -> Result<usize, StoreError> {
            Ok(self.0.fetch_add(1, Ordering::Relaxed))
        }

        fn is_good(session: &usize) -> bool {
            session.is_multiple_of(2)
        }
    }

    fn get(pool: &Pool<Numbers>) -> Option<Reader<'_, Numbers>> {
        pool.get().now_or_never().map(Result::unwrap)
    }

    #[test]
    fn a_good_connection_is_used_again_and_no_other() {
        let pool = Pool::new(Numbers::default(), 2);
        let (zero, one) = (get(&pool).unwrap(), get(&pool).unwrap());
        assert_eq!((*zero, *one), (0, 1));
        assert!(get(&pool).is_none(), "there are no more than two");
        zero.give_back();
        one.give_back();
        let (zero, two) = (get(&pool).unwrap(), get(&pool).unwrap());
        assert_eq!((*zero, *two), (0, 2), "1 was no good");
        drop(zero);
        two.give_back();
        assert_eq!(*get(&pool).unwrap(), 2, "0 was closed");
        assert_eq!(*get(&pool).unwrap(), 3);
        let rows = [
            ("it was answered", Ok(()), 4),
            ("it was refused", Err(StoreError::new(ErrorKind::Fenced, "no")), 4),
            ("it may be gone", Err(StoreError::new(ErrorKind::Unavailable, "no")), 5),
        ];
        for (what, answer, next) in rows {
            get(&pool).unwrap().give_back();
            pool.learn(&answer);
            let reader = get(&pool).unwrap();
            assert_eq!(*reader, next, "{what}");
            reader.give_back();
        }
    }

    #[test]
    fn no_more_wait_than_may() {
        let pool = Pool::new(Numbers::default(), 1);
        let taken = get(&pool).unwrap();
        let mut waiting: Vec<_> = (0..READS_WAITING_MAX).map(|_| Box::pin(pool.get())).collect();
        for one in &mut waiting {
            assert!(one.as_mut().now_or_never().is_none());
        }
        let refused = pool.get().now_or_never().expect("at once").err().expect("refused");
        assert_eq!(refused.kind(), ErrorKind::Unavailable);
        waiting.pop();
        assert!(pool.get().now_or_never().is_none(), "one has left, and there is room to wait");
        drop(taken);
    }
}
