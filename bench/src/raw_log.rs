//! The raw limit: a log that is nothing but a log. Bytes of jobs into a file that was written
//! before, one sync for each group.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;

/// The size of a job in the log.
pub(crate) const JOB_BYTES: usize = 184;

/// The file is written in rounds; what matters is that it is large and was written before.
const FILE_BYTES: usize = 64 * 1024 * 1024;

/// The log.
pub(crate) struct RawLog {
    file: File,
}

impl RawLog {
    /// Makes one in this directory.
    pub(crate) fn create(dir: &Path) -> Result<Self> {
        let file = File::create(dir.join("raw.log"))?;
        file.write_all_at(&vec![0; FILE_BYTES], 0)?;
        file.sync_all()?;
        Ok(RawLog { file })
    }

    /// Jobs a second when so many are made durable by one sync.
    pub(crate) fn rate(&self, group: usize, span: Duration) -> Result<f64> {
        let file = &self.file;
        let record = vec![0x5a; group * JOB_BYTES];
        let (started, mut at, mut jobs) = (Instant::now(), 0, 0);
        while started.elapsed() < span {
            if at + record.len() > FILE_BYTES {
                at = 0;
            }
            file.write_all_at(&record, at as u64)?;
            file.sync_data()?;
            at += record.len();
            jobs += group;
        }
        Ok(jobs as f64 / started.elapsed().as_secs_f64())
    }
}
