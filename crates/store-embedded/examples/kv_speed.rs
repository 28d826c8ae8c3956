//! How fast the store takes durable jobs, against a bare log of the same bytes in the same run.
//!
//! `cargo run --release -p hence-store-embedded --example kv_speed [directory] [seconds]`
//!
//! A job is two keys of about 40 bytes, one with a value of 180 bytes and one with 20: a place in
//! due order and a name. The bare log writes the same number of bytes into prewritten segments
//! with the same number of syncs and indexes nothing.
#![expect(clippy::print_stdout, reason = "an example's output is its purpose")]
#![expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hence_store_embedded::kv::disk::{Disk, RealDisk};
use hence_store_embedded::kv::{Kv, Options, Read, WriteBatch};

const SEGMENT_BYTES: u64 = 16 * 1024 * 1024;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let root = arguments.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let seconds: f64 = arguments.next().map_or(Ok(3.0), |text| text.parse())?;
    let root = root.join(format!("kv-speed-{}", std::process::id()));
    let limit = Duration::from_secs_f64(seconds);
    println!("{:>9} {:>14} {:>14} {:>7}", "per sync", "bare log /s", "store /s", "ratio");
    for per_sync in [1, 16, 256, 4096] {
        let bare = bare_log(&root, per_sync, limit)?;
        let store = store(&root, per_sync, limit)?;
        println!("{per_sync:>9} {bare:>14.0} {store:>14.0} {:>7.2}", store / bare);
    }
    absent_reads(&root)?;
    std::fs::remove_dir_all(&root)?;
    Ok(())
}

/// Jobs per second into the store.
fn store(root: &Path, per_sync: usize, limit: Duration) -> Result<f64, Box<dyn Error>> {
    let dir = root.join("store");
    let (kv, _) = Kv::open(&dir, Options::new([7; 16]), Arc::new(RealDisk))?;
    while kv.stats().spares == 0 {
        std::thread::yield_now();
    }
    let mut jobs = Jobs::new();
    let mut batch = WriteBatch::new();
    let start = Instant::now();
    while start.elapsed() < limit {
        batch.clear();
        for _ in 0..per_sync {
            jobs.next_into(&mut batch);
        }
        kv.commit(&batch)?;
    }
    let rate = jobs.number as f64 / start.elapsed().as_secs_f64();
    drop(kv);
    std::fs::remove_dir_all(&dir)?;
    Ok(rate)
}

/// Jobs per second into prewritten segments without an index.
fn bare_log(root: &Path, per_sync: usize, limit: Duration) -> Result<f64, Box<dyn Error>> {
    let dir = root.join("bare");
    RealDisk.create_dir(&dir)?;
    let file = RealDisk.create(&dir.join("log"))?;
    let zeros = vec![0; 1024 * 1024];
    for megabyte in 0..SEGMENT_BYTES >> 20 {
        file.write_at(&zeros, megabyte << 20)?;
    }
    file.sync_data()?;
    let mut jobs = Jobs::new();
    let mut batch = WriteBatch::new();
    let mut out = Vec::new();
    let mut at = 0;
    let start = Instant::now();
    while start.elapsed() < limit {
        batch.clear();
        for _ in 0..per_sync {
            jobs.next_into(&mut batch);
        }
        out.resize(batch.bytes() + 32, 7);
        at = if at + out.len() as u64 > SEGMENT_BYTES { 0 } else { at };
        file.write_at(&out, at)?;
        file.sync_data()?;
        at += out.len() as u64;
    }
    let rate = jobs.number as f64 / start.elapsed().as_secs_f64();
    std::fs::remove_dir_all(&dir)?;
    Ok(rate)
}

/// What it costs to learn that a key is not there, and to read one that is, with a million jobs.
fn absent_reads(root: &Path) -> Result<(), Box<dyn Error>> {
    const JOBS: u64 = 1_000_000;
    const READS: u64 = 200_000;
    let dir = root.join("reads");
    let (kv, _) = Kv::open(&dir, Options::new([7; 16]), Arc::new(RealDisk))?;
    let mut jobs = Jobs::new();
    let mut batch = WriteBatch::new();
    while jobs.number < JOBS {
        batch.clear();
        for _ in 0..4096 {
            jobs.next_into(&mut batch);
        }
        kv.commit(&batch)?;
    }
    kv.flush()?;
    for (what, known) in [("absent", false), ("present", true)] {
        let start = Instant::now();
        let mut found = 0;
        for read in 0..READS {
            let number = if known { scatter(read) % JOBS } else { JOBS * 2 + read };
            found += u64::from(kv.get(&name_key(number))?.is_some());
        }
        assert_eq!(found, if known { READS } else { 0 });
        let each = start.elapsed().as_nanos() as f64 / READS as f64 / 1000.0;
        println!("read of an {what} key: {each:.2} µs, {} tables", kv.stats().tables);
    }
    Ok(())
}

/// Jobs with scattered due times and names.
struct Jobs {
    number: u64,
}

impl Jobs {
    fn new() -> Self {
        Jobs { number: 0 }
    }

    fn next_into(&mut self, batch: &mut WriteBatch) {
        let mut due_key = Vec::with_capacity(40);
        due_key.extend_from_slice(b"J\0\0\0\x07customer-emails\0");
        let due = 1_700_000_000_000 + scatter(self.number) % 86_400_000;
        due_key.extend_from_slice(&due.to_be_bytes());
        due_key.extend_from_slice(&self.number.to_be_bytes());
        batch.put(&due_key, &[7; 180]);
        batch.put(&name_key(self.number), &due_key[16..36]);
        self.number += 1;
    }
}

fn name_key(number: u64) -> Vec<u8> {
    let mut key = b"I\0\0\0\x07".to_vec();
    key.extend_from_slice(format!("invoice-{:020}-reminder", scatter(number)).as_bytes());
    key
}

fn scatter(number: u64) -> u64 {
    let mut word = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word ^ (word >> 31)
}
