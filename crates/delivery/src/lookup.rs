//! Names become addresses: by the system's resolver, on threads of its own.
//!
//! A resolver that hangs keeps its thread for seconds, and nothing can stop it. Among the threads
//! that the runtime has for blocking calls it would hold up whatever else must block, reads of the
//! store above all. So lookups have their own, only so many, and one lookup serves all deliveries
//! that wait for the same name.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use futures::FutureExt;
use futures::future::{BoxFuture, Shared, WeakShared};
use hyper_util::client::legacy::connect::dns::Name;
use tokio::sync::{Semaphore, oneshot};
use tower::Service;

use crate::limits;

type Found = Result<Arc<[SocketAddr]>, Unresolved>;
type UnderWay = BoxFuture<'static, Found>;
type Ask = Arc<dyn Fn(&str) -> io::Result<Vec<SocketAddr>> + Send + Sync>;

/// Looks names up. A clone shares what is under way.
#[derive(Clone)]
pub(crate) struct Lookup {
    ask: Ask,
    /// Each lives as long as somebody waits for it.
    under_way: Arc<Mutex<HashMap<String, WeakShared<UnderWay>>>>,
    places: Arc<Semaphore>,
}

/// A name without an address, in the system's words.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Unresolved(Arc<io::Error>);

impl Lookup {
    /// By the system's resolver.
    pub(crate) fn system() -> Self {
        Lookup::new(Arc::new(|name| Ok((name, 0).to_socket_addrs()?.collect())))
    }

    fn new(ask: Ask) -> Self {
        let places = Arc::new(Semaphore::new(limits::LOOKUPS_MAX));
        Lookup { ask, under_way: Arc::default(), places }
    }

    /// The lookup of this name: the one under way, or a new one.
    fn of(&self, name: &str) -> Shared<UnderWay> {
        let mut under_way = self.lock();
        if let Some(shared) = under_way.get(name).and_then(WeakShared::upgrade) {
            return shared;
        }
        // Those that were given up are forgotten before they become many.
        if under_way.len() >= limits::LOOKUPS_MAX {
            under_way.retain(|_, weak| weak.upgrade().is_some());
        }
        let new = self.clone().run(name.to_owned()).boxed().shared();
        if let Some(weak) = new.downgrade() {
            under_way.insert(name.to_owned(), weak);
        }
        new
    }

    async fn run(self, name: String) -> Found {
        let found = self.on_a_thread(name.clone()).await;
        self.lock().remove(&name);
        found.map(Arc::from).map_err(|error| Unresolved(Arc::new(error)))
    }

    async fn on_a_thread(&self, name: String) -> io::Result<Vec<SocketAddr>> {
        let place = Arc::clone(&self.places).acquire_owned().await.map_err(io::Error::other)?;
        let (ask, (tell, told)) = (Arc::clone(&self.ask), oneshot::channel());
        let thread = std::thread::Builder::new().name("hence-lookup".to_owned());
        thread.spawn(move || {
            let found = ask(&name);
            drop(place);
            // Whoever gave up waiting does not need it.
            let _ = tell.send(found);
        })?;
        told.await.unwrap_or_else(|_| Err(io::Error::other("the lookup broke down")))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, WeakShared<UnderWay>>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Lookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lookup").finish_non_exhaustive()
    }
}

impl Service<Name> for Lookup {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = Unresolved;
    type Future = BoxFuture<'static, Result<Self::Response, Unresolved>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Unresolved>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let found = self.of(name.as_str());
        async move { Ok(found.await?.to_vec().into_iter()) }.boxed()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use super::*;

    const HOME: SocketAddr =
        SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

    /// A resolver that answers when it is told to, and how often it was asked.
    fn told() -> (Lookup, mpsc::Sender<()>, Arc<AtomicUsize>) {
        let (tell, wait) = mpsc::channel::<()>();
        let (wait, asked) = (Mutex::new(wait), Arc::new(AtomicUsize::new(0)));
        let count = Arc::clone(&asked);
        let ask = move |_: &str| {
            count.fetch_add(1, Ordering::SeqCst);
            let wait = wait.lock().unwrap_or_else(PoisonError::into_inner);
            wait.recv().map_err(io::Error::other)?;
            Ok(vec![HOME])
        };
        (Lookup::new(Arc::new(ask)), tell, asked)
    }

    #[tokio::test]
    async fn all_who_wait_for_a_name_are_served_by_one_lookup() {
        let (lookup, tell, asked) = told();
        let waiting: Vec<_> = (0..1_000).map(|_| lookup.of("slow")).collect();
        tell.send(()).unwrap();
        for found in futures::future::join_all(waiting).await {
            assert_eq!(&*found.unwrap(), [HOME]);
        }
        assert_eq!(asked.load(Ordering::SeqCst), 1);
        tell.send(()).unwrap();
        lookup.of("slow").await.unwrap();
        assert_eq!(asked.load(Ordering::SeqCst), 2, "an answer is not kept");
        assert!(lookup.lock().is_empty());
    }

    #[tokio::test]
    async fn what_nobody_waits_for_any_more_is_asked_again() {
        let (lookup, tell, asked) = told();
        drop(lookup.of("slow"));
        tell.send(()).unwrap();
        lookup.of("slow").await.unwrap();
        assert_eq!(asked.load(Ordering::SeqCst), 1, "the first was given up before it began");
        for n in 0..3 * limits::LOOKUPS_MAX {
            drop(lookup.of(&format!("host-{n}")));
        }
        assert!(lookup.lock().len() <= limits::LOOKUPS_MAX);
    }

    #[tokio::test]
    async fn a_name_without_an_address_says_so() {
        let lookup = Lookup::new(Arc::new(|_| Err(io::Error::other("no such name"))));
        assert_eq!(lookup.of("nobody").await.unwrap_err().to_string(), "no such name");
    }
}
