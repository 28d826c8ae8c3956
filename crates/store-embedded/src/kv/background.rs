//! The work that no commit waits for: ready segments, flushing memtables, merging tables.
//!
//! Each duty is a function that does one step; threads call them in a loop, or, for tests and
//! simulation, the committing caller does. A lack of space is reported and tried again; any other
//! failed write ends the store, and so does a panic.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use super::error::{Error, Result};
use super::limits::{FULL_REST_MAX_MS, FULL_REST_MS, FULL_RETRY_MS, MERGE_NICENESS};
use super::options::Background;
use super::segment::segment_path;
use super::state::{Duty, State, lock};

/// One step of a duty; `false` if there was nothing to do.
type Step = fn(&State) -> Result<bool>;

const DUTIES: [(&str, Duty, Step); 3] = [
    ("store-spares", Duty::Spares, State::prepare_one),
    ("store-flush", Duty::Flush, State::flush_one),
    ("store-merge", Duty::Merge, State::merge_one),
];

/// Starts a thread for each duty.
pub(super) fn start(state: &Arc<State>) -> Result<Vec<JoinHandle<()>>> {
    let mut threads = Vec::new();
    for (name, duty, step) in DUTIES {
        let shared = Arc::clone(state);
        let spawned = Builder::new().name(name.to_owned()).spawn(move || {
            if matches!(duty, Duty::Merge) {
                step_back();
            }
            // What a panic leaves half done nobody sees: the store ends with it.
            let ran = catch_unwind(AssertUnwindSafe(|| run(&shared, duty, step)));
            if ran.is_err() {
                let cause = io::Error::other(format!("the thread {name} panicked"));
                shared.end_with(&Error::fatal("work in", &shared.dir, cause));
            }
        });
        threads.push(spawned.map_err(|cause| Error::io("start a thread for", &state.dir, cause))?);
    }
    Ok(threads)
}

/// Asks the threads to end and waits for it; a merge in progress is given up.
pub(super) fn stop(state: &State, threads: &mut Vec<JoinHandle<()>>) {
    state.closing.store(true, Ordering::Release);
    state.bell.ring();
    for thread in threads.drain(..) {
        // A panic there has ended the store already.
        let _ = thread.join();
    }
}

/// Merging can always wait for those who commit. Linux counts niceness by thread; where it cannot
/// be had, merging is as important as the rest, which is no harm.
fn step_back() {
    let _ = rustix::process::setpriority_process(None, MERGE_NICENESS);
}

fn run(state: &State, duty: Duty, step: Step) {
    let mut rest_ms = FULL_REST_MS;
    loop {
        // The count first: a ring after this look at the state ends the wait below.
        let seen = state.bell.count();
        if state.is_stopping() {
            return;
        }
        match state.attempt(duty, step) {
            Ok(true) => rest_ms = FULL_REST_MS,
            Ok(false) => state.bell.wait_past(seen, None),
            // Much may have been written before the space ran out: not again at every ring.
            Err(error) if error.is_full() && matches!(duty, Duty::Merge) => {
                state.bell.rest(Duration::from_millis(rest_ms), || state.is_stopping());
                rest_ms = (rest_ms * 2).min(FULL_REST_MAX_MS);
            }
            Err(error) if error.is_full() => {
                let now = state.bell.count();
                state.bell.wait_past(now, Some(Duration::from_millis(FULL_RETRY_MS)));
            }
            Err(error) => state.end_with(&error),
        }
    }
}

impl State {
    /// Makes one segment ready or removes one that is not needed.
    pub(super) fn prepare_one(&self) -> Result<bool> {
        let mut shelf = lock(&self.shelf);
        let enough = shelf.ready.len() >= self.options.spares_ready.max(1);
        let kept = if enough { self.options.old_kept } else { 0 };
        let old = if shelf.obsolete.len() > kept { shelf.obsolete.pop() } else { None };
        let number = shelf.next_number;
        drop(shelf);
        if enough {
            return old.map_or(Ok(false), |old| self.remove_segment(old).map(|()| true));
        }
        let segment = self.segments.make(number, old)?;
        let mut shelf = lock(&self.shelf);
        shelf.ready.push_back(segment);
        shelf.next_number = number + 1;
        drop(shelf);
        self.bell.ring();
        Ok(true)
    }

    /// Makes segments until enough are ready; a full disk is noted, not an error.
    pub(super) fn prepare_all(&self) -> Result<()> {
        self.drain(Duty::Spares, State::prepare_one)
    }

    /// All that is to be done now, if there are no threads to do it.
    pub(super) fn work_inline(&self) -> Result<()> {
        if self.options.background == Background::Threads {
            return Ok(());
        }
        self.drain(Duty::Flush, State::flush_one)?;
        self.drain(Duty::Merge, State::merge_one)?;
        self.drain(Duty::Spares, State::prepare_one)
    }

    /// Does steps until nothing is left or space runs out.
    fn drain(&self, duty: Duty, step: Step) -> Result<()> {
        loop {
            match self.attempt(duty, step) {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(error) if error.is_full() => return Ok(()),
                Err(error) => {
                    self.end_with(&error);
                    return Err(error);
                }
            }
        }
    }

    /// One step, with its news about space.
    fn attempt(&self, duty: Duty, step: Step) -> Result<bool> {
        let result = step(self);
        match &result {
            Ok(_) => self.has_space(duty),
            Err(error) if error.is_full() => self.lacks_space(duty),
            Err(_) => {}
        }
        result
    }

    fn remove_segment(&self, number: u64) -> Result<()> {
        let path = segment_path(&self.dir, number);
        self.disk.remove(&path).map_err(|cause| Error::fatal("remove", &path, cause))
    }
}
