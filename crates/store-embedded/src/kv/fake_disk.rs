//! A disk in memory that does what bad days do: it loses and tears unsynced writes, fills up,
//! writes to the wrong place, and answers with errors on demand.
//!
//! Deterministic: the same calls and the same seed give the same disk. The model of a crash: of
//! every file, each sector written since its last sync is kept or lost on its own; of the
//! directory, a prefix of the changes since its last sync is kept. It is for tests and the
//! simulator; nothing of it runs in production.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use super::disk::{Access, Disk, DiskFile, DiskLock};

/// What a disk writes atomically.
const SECTOR: usize = 512;

/// A file system in memory. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct FakeDisk {
    state: Arc<Mutex<State>>,
}

/// Which call is to fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Faulty {
    /// [`DiskFile::write_at`].
    Write,
    /// The same, for lack of space.
    Space,
    /// [`DiskFile::sync_data`].
    Sync,
    /// [`DiskFile::read_at`].
    Read,
    /// [`Disk::lock`], on a file system that cannot be written.
    Lock,
}

#[derive(Debug, Default)]
struct State {
    inodes: Vec<Inode>,
    names: BTreeMap<PathBuf, usize>,
    durable_names: BTreeMap<PathBuf, usize>,
    pending_names: Vec<NameChange>,
    locked: BTreeSet<PathBuf>,
    /// Bytes that all files together may have; `None` is without limit.
    capacity: Option<u64>,
    /// Calls that change something and were made so far.
    changes: u64,
    /// From this change on the machine is off.
    off_after: Option<u64>,
    faulty: Vec<(Faulty, String)>,
    /// Calls that failed because they were told to.
    failed: u64,
    astray: Astray,
    entropy: u64,
}

/// Writes that land in the wrong place.
#[derive(Debug, Default)]
struct Astray {
    /// The next write to a file whose name contains this, and the dice for where it lands.
    next: Option<(String, Dice)>,
    /// How many did.
    count: u64,
    /// Every byte that is wrong because of it, by file and offset, and what it should be.
    wrong: BTreeMap<(usize, usize), u8>,
    /// The last write to each file: when it was in the order of changes, under which name, from
    /// where to where.
    last: BTreeMap<usize, (u64, PathBuf, std::ops::Range<usize>)>,
}

#[derive(Debug, Default, Clone)]
struct Inode {
    now: Vec<u8>,
    durable: Vec<u8>,
    dirty: BTreeSet<usize>,
    reserved: u64,
}

#[derive(Debug)]
enum NameChange {
    Set(PathBuf, usize),
    Remove(PathBuf),
}

#[derive(Debug)]
struct FakeFile {
    disk: FakeDisk,
    inode: usize,
    path: PathBuf,
}

#[derive(Debug)]
struct FakeLock {
    disk: FakeDisk,
    path: PathBuf,
}

impl FakeDisk {
    /// An empty disk.
    pub fn new() -> Self {
        FakeDisk::default()
    }

    /// From now on all files together have at most this many bytes.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.state().capacity = bytes;
    }

    /// Bytes used and reserved.
    pub fn used(&self) -> u64 {
        self.state().used()
    }

    /// Calls of this kind on files whose name contains `name` fail with an input/output error, or
    /// with a lack of space if that is asked for.
    pub fn fail(&self, what: Faulty, name: &str) {
        self.state().faulty.push((what, name.to_owned()));
    }

    /// Calls of this kind do not fail any more.
    pub fn heal(&self, what: Faulty) {
        self.state().faulty.retain(|(faulty, _)| *faulty != what);
    }

    /// How many calls failed because they were told to.
    pub fn failed(&self) -> u64 {
        self.state().failed
    }

    /// The next write to a file whose name contains `name` is reported as done and lands
    /// elsewhere, in this file or in another; `seed` chooses where.
    pub fn misdirect(&self, name: &str, seed: u64) {
        self.state().astray.next = Some((name.to_owned(), Dice(seed)));
    }

    /// How many writes landed elsewhere.
    pub fn misdirected(&self) -> u64 {
        self.state().astray.count
    }

    /// Whether a file that counts has bytes that are wrong because of that.
    pub fn is_wrong(&self) -> bool {
        let state = self.state();
        let live: BTreeSet<_> = state.names.values().collect();
        state.astray.wrong.keys().any(|(inode, _)| live.contains(inode))
    }

    /// Whether some of what was written last to the files with `name` in their names is wrong. It
    /// looks as if it had never been written, or not to its end: nothing behind it says otherwise.
    pub fn end_is_wrong(&self, name: &str) -> bool {
        let Astray { last, wrong, .. } = &self.state().astray;
        let of_name = last.iter().filter(|(_, (_, path, _))| path.to_string_lossy().contains(name));
        let Some((inode, (_, _, range))) = of_name.max_by_key(|(_, (when, ..))| *when) else {
            return false;
        };
        wrong.range((*inode, range.start)..(*inode, range.end)).next().is_some()
    }

    /// Every byte becomes what it should be, as from a mirror.
    pub fn put_right(&self) {
        let mut state = self.state();
        for ((inode, at), byte) in std::mem::take(&mut state.astray.wrong) {
            let Inode { now, durable, .. } = &mut state.inodes[inode];
            for content in [now, durable] {
                if let Some(found) = content.get_mut(at) {
                    *found = byte;
                }
            }
        }
    }

    /// How many changing calls were made.
    pub fn changes(&self) -> u64 {
        self.state().changes
    }

    /// The power fails when this many changing calls have been made: that call and all later
    /// ones are errors.
    pub fn power_off_after(&self, changes: u64) {
        self.state().off_after = Some(changes);
    }

    /// What the disk holds after the power came back; `seed` chooses among the possible outcomes.
    /// Open files and locks of the time before are void.
    #[must_use]
    pub fn after_crash(&self, seed: u64) -> FakeDisk {
        let mut dice = Dice(seed);
        self.after_crash_by(seed, &mut |limit| dice.below(limit))
    }

    /// The same, with every choice made by `choose`, which is given how many there are: for those
    /// who want to see every outcome. `seed` is for the numbers drawn afterwards.
    #[must_use]
    pub fn after_crash_by(&self, seed: u64, choose: &mut dyn FnMut(u64) -> u64) -> FakeDisk {
        let state = self.state();
        let mut names = state.durable_names.clone();
        let kept = match state.pending_names.len() {
            0 => 0,
            pending => choose(pending as u64 + 1) as usize,
        };
        for change in &state.pending_names[..kept] {
            match change {
                NameChange::Set(path, inode) => {
                    names.retain(|_, other| other != inode);
                    names.insert(path.clone(), *inode);
                }
                NameChange::Remove(path) => drop(names.remove(path)),
            }
        }
        let inodes = state.inodes.iter().map(|inode| inode.after_crash(choose)).collect();
        let durable_names = names.clone();
        let (entropy, failed) = (state.entropy.wrapping_add(seed), state.failed);
        let state = State { inodes, names, durable_names, failed, entropy, ..State::default() };
        FakeDisk { state: Arc::new(Mutex::new(state)) }
    }

    /// A copy of what is on the disk now, synced or not.
    #[must_use]
    pub fn fork(&self) -> FakeDisk {
        let state = self.state();
        let inodes: Vec<Inode> = state
            .inodes
            .iter()
            .map(|inode| Inode {
                durable: inode.now.clone(),
                dirty: BTreeSet::new(),
                ..inode.clone()
            })
            .collect();
        let names = state.names.clone();
        let (durable_names, entropy) = (names.clone(), state.entropy);
        let state = State { inodes, names, durable_names, entropy, ..State::default() };
        FakeDisk { state: Arc::new(Mutex::new(state)) }
    }

    /// The content of a file; for tests that damage it.
    pub fn content(&self, path: &Path) -> Option<Vec<u8>> {
        let state = self.state();
        state.names.get(path).map(|inode| state.inodes[*inode].now.clone())
    }

    /// Replaces the content of a file, durably; for tests that damage it.
    pub fn set_content(&self, path: &Path, content: &[u8]) {
        let mut state = self.state();
        let inode = match state.names.get(path) {
            Some(inode) => *inode,
            None => state.new_inode(path),
        };
        state.inodes[inode] = Inode {
            now: content.to_vec(),
            durable: content.to_vec(),
            dirty: BTreeSet::new(),
            reserved: 0,
        };
        state.durable_names.insert(path.to_owned(), inode);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no test panics while it holds the disk")
    }
}

impl State {
    fn used(&self) -> u64 {
        let live: BTreeSet<_> = self.names.values().collect();
        live.iter().map(|inode| self.inodes[**inode].used()).sum()
    }

    /// Counts a change; an error once the power is off.
    fn change(&mut self) -> io::Result<()> {
        if self.off_after.is_some_and(|off| self.changes >= off) {
            return Err(io::Error::other("the power is off"));
        }
        self.changes += 1;
        Ok(())
    }

    fn check(&mut self, what: Faulty, path: &Path) -> io::Result<()> {
        let fails = |(faulty, name): &(Faulty, String)| {
            *faulty == what && path.to_string_lossy().contains(name)
        };
        if self.faulty.iter().any(fails) {
            self.failed += 1;
            return Err(match what {
                Faulty::Space => io::ErrorKind::StorageFull.into(),
                Faulty::Lock => io::ErrorKind::ReadOnlyFilesystem.into(),
                Faulty::Write | Faulty::Sync | Faulty::Read => io::Error::from_raw_os_error(5),
            });
        }
        Ok(())
    }

    /// Writes, in the right place or, if this write is to go astray, in another.
    fn write(&mut self, path: &Path, inode: usize, bytes: &[u8], offset: usize) {
        let next = self.astray.next.take_if(|(name, _)| path.to_string_lossy().contains(&*name));
        let end = offset + bytes.len();
        self.astray.last.insert(inode, (self.changes, path.to_owned(), offset..end));
        // Whatever these bytes should have been before, they are something else from now on.
        let range = (inode, offset)..(inode, end);
        let covered: Vec<_> = self.astray.wrong.range(range).map(|(at, _)| *at).collect();
        for at in covered {
            self.astray.wrong.remove(&at);
        }
        let Some((_, dice)) = next else { return self.inodes[inode].write(bytes, offset) };
        self.astray.count += 1;
        let length = self.inodes[inode].now.len().max(end);
        self.inodes[inode].now.resize(length, 0);
        let missing = (offset..).zip(bytes).filter(|(at, b)| self.inodes[inode].now[*at] != **b);
        self.astray.wrong.extend(missing.map(|(at, byte)| ((inode, at), *byte)));
        if let Some((other, start)) = self.elsewhere(dice, (inode, offset)) {
            let now = &mut self.inodes[other].now;
            for (at, byte) in (start..now.len()).zip(bytes) {
                if now[at] != *byte {
                    // What was wrong there already stays known for what it should be.
                    self.astray.wrong.entry((other, at)).or_insert(now[at]);
                    now[at] = *byte;
                }
            }
        }
    }

    /// A sector of any file, other than the right one. None: the write is lost altogether.
    fn elsewhere(&self, mut dice: Dice, right: (usize, usize)) -> Option<(usize, usize)> {
        let counts = |path: &&PathBuf| path.file_name().is_some_and(|name| name != "LOCK");
        let files: Vec<usize> =
            self.names.keys().filter(counts).map(|path| self.names[path]).collect();
        let other = *files.get(dice.below(files.len().max(1) as u64) as usize)?;
        let sectors = self.inodes[other].now.len().div_ceil(SECTOR).max(1) as u64;
        let start = dice.below(sectors) as usize * SECTOR;
        ((other, start) != right).then_some((other, start))
    }

    fn new_inode(&mut self, path: &Path) -> usize {
        let inode = self.inodes.len();
        self.inodes.push(Inode::default());
        self.names.insert(path.to_owned(), inode);
        self.pending_names.push(NameChange::Set(path.to_owned(), inode));
        inode
    }

    /// Makes room for a file to use `bytes`, or says that there is none.
    fn reserve(&mut self, inode: usize, bytes: u64) -> io::Result<()> {
        let more = bytes.saturating_sub(self.inodes[inode].used());
        if self.capacity.is_some_and(|capacity| more > 0 && self.used() + more > capacity) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }
}

impl Inode {
    fn used(&self) -> u64 {
        self.reserved.max(self.now.len() as u64)
    }

    fn write(&mut self, bytes: &[u8], offset: usize) {
        let end = offset + bytes.len();
        if self.now.len() < end {
            self.now.resize(end, 0);
        }
        self.now[offset..end].copy_from_slice(bytes);
        self.dirty.extend(offset / SECTOR..end.div_ceil(SECTOR));
    }

    fn sync(&mut self) {
        self.durable.resize(self.now.len(), 0);
        for sector in std::mem::take(&mut self.dirty) {
            copy_sector(&self.now, &mut self.durable, sector);
        }
    }

    fn after_crash(&self, choose: &mut dyn FnMut(u64) -> u64) -> Inode {
        let mut durable = self.durable.clone();
        // The length changes with the data or not at all.
        if self.now.len() != durable.len() && choose(2) == 0 {
            durable.resize(self.now.len(), 0);
        }
        for sector in &self.dirty {
            if choose(2) == 0 {
                copy_sector(&self.now, &mut durable, *sector);
            }
        }
        Inode { now: durable.clone(), durable, dirty: BTreeSet::new(), reserved: self.reserved }
    }
}

fn copy_sector(from: &[u8], to: &mut [u8], sector: usize) {
    let start = (sector * SECTOR).min(from.len()).min(to.len());
    let end = (start + SECTOR).min(from.len()).min(to.len());
    to[start..end].copy_from_slice(&from[start..end]);
}

impl Disk for FakeDisk {
    fn create_dir(&self, _dir: &Path) -> io::Result<()> {
        Ok(())
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let mut state = self.state();
        state.change()?;
        let inode = state.new_inode(path);
        Ok(Arc::new(FakeFile { disk: self.clone(), inode, path: path.to_owned() }))
    }

    fn open(&self, path: &Path, _access: Access) -> io::Result<Arc<dyn DiskFile>> {
        let state = self.state();
        let inode = *state.names.get(path).ok_or(io::ErrorKind::NotFound)?;
        Ok(Arc::new(FakeFile { disk: self.clone(), inode, path: path.to_owned() }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.change()?;
        let inode = state.names.remove(from).ok_or(io::ErrorKind::NotFound)?;
        state.names.insert(to.to_owned(), inode);
        state.pending_names.push(NameChange::Set(to.to_owned(), inode));
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.change()?;
        state.names.remove(path).ok_or(io::ErrorKind::NotFound)?;
        state.pending_names.push(NameChange::Remove(path.to_owned()));
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let state = self.state();
        let inside = state.names.keys().filter(|path| path.parent() == Some(dir));
        let names = inside.filter_map(|path| path.file_name());
        Ok(names.map(|name| name.to_string_lossy().into_owned()).collect())
    }

    fn sync_dir(&self, _dir: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.change()?;
        state.durable_names = state.names.clone();
        state.pending_names.clear();
        Ok(())
    }

    fn lock(&self, path: &Path, holder: &str) -> io::Result<Box<dyn DiskLock>> {
        self.state().check(Faulty::Lock, path)?;
        if !self.state().locked.insert(path.to_owned()) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.set_content(path, holder.as_bytes());
        Ok(Box::new(FakeLock { disk: self.clone(), path: path.to_owned() }))
    }

    fn entropy(&self) -> u64 {
        let mut state = self.state();
        state.entropy = state.entropy.wrapping_add(1);
        Dice(state.entropy).next()
    }
}

impl DiskFile for FakeFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let mut state = self.disk.state();
        state.check(Faulty::Read, &self.path)?;
        let content = &state.inodes[self.inode].now;
        let end = offset as usize + buffer.len();
        let found = content.get(offset as usize..end).ok_or(io::ErrorKind::UnexpectedEof)?;
        buffer.copy_from_slice(found);
        Ok(())
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut state = self.disk.state();
        state.change()?;
        state.check(Faulty::Write, &self.path)?;
        state.check(Faulty::Space, &self.path)?;
        state.reserve(self.inode, offset + bytes.len() as u64)?;
        state.write(&self.path, self.inode, bytes, offset as usize);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.disk.state();
        state.change()?;
        state.check(Faulty::Sync, &self.path)?;
        state.inodes[self.inode].sync();
        Ok(())
    }

    fn preallocate(&self, len: u64) -> io::Result<()> {
        let mut state = self.disk.state();
        state.change()?;
        state.reserve(self.inode, len)?;
        let inode = &mut state.inodes[self.inode];
        inode.reserved = inode.reserved.max(len);
        if inode.now.len() < len as usize {
            inode.now.resize(len as usize, 0);
        }
        Ok(())
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        let mut state = self.disk.state();
        state.change()?;
        state.reserve(self.inode, len)?;
        let inode = &mut state.inodes[self.inode];
        inode.reserved = len;
        inode.now.resize(len as usize, 0);
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.disk.state().inodes[self.inode].now.len() as u64)
    }
}

impl DiskLock for FakeLock {}

impl Drop for FakeLock {
    fn drop(&mut self) {
        self.disk.state().locked.remove(&self.path);
    }
}

/// A small generator of chances; good enough to choose sectors.
#[derive(Debug)]
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}
