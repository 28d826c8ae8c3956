//! The disk: the one that forgets, below the real embedded store.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hence_core::time::Timestamp;
use hence_store::StoreError;
use hence_store_embedded::kv::fake_disk::{FakeDisk, Faulty};
use hence_store_embedded::kv::{Background, Options};
use hence_store_embedded::{EmbeddedStore, Settings};

const DIR: &str = "/hence";
const STORE_ID: [u8; 16] = *b"a simulated disk";

/// The disk of the node's machine.
#[derive(Default)]
pub(super) struct SimDisk {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    disk: FakeDisk,
    /// What is unsynced is at stake when the process ends.
    at_stake: bool,
    /// Nothing can be read.
    unreadable: bool,
}

impl SimDisk {
    /// Opens the store that is on the disk, or makes it.
    pub(super) fn open(&self) -> Result<EmbeddedStore, StoreError> {
        let settings = Settings { shards: 1, store_id: STORE_ID, created_at: Timestamp::EPOCH };
        // Everything small, so that a short life meets every part.
        let options = Options {
            segment_bytes: 32 * 1024,
            spares_ready: 2,
            memtable_bytes: 64 * 1024,
            cache_bytes: 16 * 1024,
            background: Background::Inline,
            ..Options::new(STORE_ID)
        };
        let disk = Arc::new(self.lock().disk.clone());
        EmbeddedStore::open_with(Path::new(DIR), &settings, options, disk)
    }

    /// The power goes when this many more changing calls have been made.
    pub(super) fn lose_power_after(&self, calls: u64) {
        let mut state = self.lock();
        state.at_stake = true;
        state.disk.power_off_after(state.disk.changes() + calls);
    }

    /// Calls of this kind fail from now on, and what they were about may be lost.
    pub(super) fn fail(&self, what: Faulty) {
        let mut state = self.lock();
        state.at_stake = true;
        state.disk.fail(what, ".log");
    }

    /// Reading fails from now on, or works again.
    pub(super) fn fail_reads(&self, fails: bool) {
        let mut state = self.lock();
        state.unreadable = fails;
        if fails { state.disk.fail(Faulty::Read, "") } else { state.disk.heal(Faulty::Read) }
    }

    /// How many calls failed because they were told to.
    pub(super) fn failed(&self) -> u64 {
        self.lock().disk.failed()
    }

    /// The next write to a file whose name contains this lands somewhere else.
    pub(super) fn misdirect(&self, name: &str, seed: u64) {
        self.lock().disk.misdirect(name, seed);
    }

    /// How many writes did.
    pub(super) fn misdirected(&self) -> u64 {
        self.lock().disk.misdirected()
    }

    /// Whether something is wrong because of it.
    pub(super) fn is_wrong(&self) -> bool {
        self.lock().disk.is_wrong()
    }

    /// Whether the end of the log is: nobody can tell that from a log that ends earlier.
    pub(super) fn end_is_wrong(&self) -> bool {
        self.lock().disk.end_is_wrong(".log")
    }

    /// The mirror takes its place.
    pub(super) fn put_right(&self) {
        self.lock().disk.put_right();
    }

    /// There is room for so many more bytes only; none: for any number.
    pub(super) fn limit(&self, more: Option<u64>) {
        let state = self.lock();
        state.disk.set_capacity(more.map(|more| state.disk.used() + more));
    }

    /// The process has ended: the disk is as it would be found now, and works again. Whether
    /// anything was at stake.
    pub(super) fn settle(&self, seed: u64) -> bool {
        let mut state = self.lock();
        if !std::mem::take(&mut state.at_stake) {
            return false;
        }
        state.disk = state.disk.after_crash(seed);
        if state.unreadable {
            state.disk.fail(Faulty::Read, "");
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
