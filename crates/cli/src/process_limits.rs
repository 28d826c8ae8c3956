//! What the system allows a server: how many files, and how large.

use hence_server::Config;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::signal::unix::{SignalKind, signal};

use crate::failure::Failure;

/// What the store and the log keep open, and idle connections to receivers.
const FILES_OF_OUR_OWN: u64 = 200 + 1_024;

/// Takes as many open files as the system allows: its usual limit is for programs that need few,
/// and whoever reaches it can neither deliver nor answer.
pub(crate) fn allow_many_files(config: &Config) {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, ..limit };
    // Where that is refused, what there is must do.
    let files = setrlimit(Resource::Nofile, raised).map_or(limit.current, |()| limit.maximum);
    let wanted = config.max_connections as u64 + u64::from(config.pushes) + FILES_OF_OUR_OWN;
    if let Some(files) = files.filter(|files| *files < wanted) {
        tracing::warn!(
            files,
            wanted,
            "the limit of open files is low for so many connections and pushes: raise it \
             (`ulimit -n`, `LimitNOFILE=`), or lower max_connections and pushes"
        );
    }
}

/// A file that may not grow further is a full disk, which the store knows how to live with. Left
/// alone, the signal that comes with it ends the process without a word.
pub(crate) fn outlive_large_files() -> Result<(), Failure> {
    const SIGXFSZ: i32 = 25;
    let heard = signal(SignalKind::from_raw(SIGXFSZ));
    heard.map(drop).map_err(|error| Failure::io("listening for signals", &error))
}
