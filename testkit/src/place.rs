//! Where a server is: somebody else's, which is only used, or our own, which can be killed.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::Result;
use rustix::process::Signal;

use crate::home::User;
use crate::process::Process;
use crate::{Missing, free_port};

/// One or the other.
#[derive(Debug)]
pub(crate) enum Place {
    /// Somebody else's, and the variable that named it.
    Given {
        /// Where it is.
        url: String,
        /// What gave it.
        variable: &'static str,
    },
    /// Our own.
    Own(Own),
}

/// A server of ours.
#[derive(Debug)]
pub(crate) struct Own {
    process: Mutex<Process>,
    /// As whom it runs.
    pub(crate) user: User,
    /// On loopback; the same after a restart.
    pub(crate) port: u16,
}

impl Place {
    /// The server that a variable of the environment names, if it does.
    pub(crate) fn given(variable: &'static str) -> Option<Self> {
        std::env::var(variable).ok().map(|url| Place::Given { url, variable })
    }

    /// Our own server, or the reason why nothing of the kind can be done to it.
    pub(crate) fn own(&self, what: &str) -> Result<&Own> {
        match self {
            Place::Own(own) => Ok(own),
            Place::Given { variable, .. } => {
                Err(Missing::new(format!("a server that may be {what}: {variable} is set")).into())
            }
        }
    }

    /// Asks it to end with a signal.
    pub(crate) fn stop(&self, signal: Signal) -> Result<()> {
        self.own("stopped")?.process().stop(signal)
    }

    /// Kills it with -9.
    pub(crate) fn kill(&self) -> Result<()> {
        self.own("killed")?.process().kill()
    }

    /// Ends it if it runs, so that it can be started again.
    pub(crate) fn down(&self, signal: Signal) -> Result<&Own> {
        let own = self.own("restarted")?;
        let mut process = own.process();
        if process.pid().is_ok() {
            process.stop(signal)?;
        }
        drop(process);
        Ok(own)
    }

    /// Stops it in its tracks.
    pub(crate) fn pause(&self) -> Result<()> {
        self.own("paused")?.process().pause()
    }

    /// Lets it go on.
    pub(crate) fn resume(&self) -> Result<()> {
        self.own("resumed")?.process().resume()
    }

    /// The end of its log; of somebody else's nothing.
    pub(crate) fn log_tail(&self) -> String {
        self.own("read").map(|own| own.process().log_tail()).unwrap_or_default()
    }
}

impl Own {
    /// A home for one; nothing runs yet.
    pub(crate) fn new(name: &'static str, preferred_user: &str) -> Result<Self> {
        let user = User::for_server(preferred_user)?;
        let process = Mutex::new(Process::new(name, &user)?);
        Ok(Own { process, user, port: free_port()? })
    }

    /// Its directory.
    pub(crate) fn home(&self) -> PathBuf {
        self.process().home().to_path_buf()
    }

    /// The process, one caller at a time.
    pub(crate) fn process(&self) -> MutexGuard<'_, Process> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The name of a database that no other test of this machine uses now.
pub(crate) fn database_name() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("hence_{}_{number}", std::process::id())
}
