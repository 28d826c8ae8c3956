//! Damage: every bit of every byte of a small store is flipped, and every file is cut at every
//! length. It is opened with what was put into it, or refused with the name of the file: never
//! with anything else.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use hence_store_embedded::kv::disk::Disk;
use hence_store_embedded::kv::fake_disk::FakeDisk;
use hence_store_embedded::kv::{Error, WriteBatch};

use crate::crashes::{Model, contents, open};

const DIR: &str = "/store";

/// What was looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Bits that were flipped.
    pub flips: u64,
    /// Lengths that files were cut to.
    pub cuts: u64,
    /// Of all of these, how many were refused.
    pub refused: u64,
}

/// A small store, and what may be found in it.
struct Small {
    disk: FakeDisk,
    /// With everything, and without the last commit: that one may pass for torn.
    whole: Model,
    torn: Model,
}

/// Damages everything, one bit of every `step` bits at a time.
pub fn run(step: usize, progress: &dyn Fn()) -> Result<Counted> {
    let small = Small::make()?;
    let mut counted = Counted::default();
    for name in small.disk.list(Path::new(DIR))? {
        let path = Path::new(DIR).join(&name);
        if name == "LOCK" {
            continue;
        }
        let content = small.disk.content(&path).context("a file that is listed is there")?;
        for bit in (0..content.len() * 8).step_by(step) {
            let mut damaged = content.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let refused = small.look_at(&path, &damaged);
            let refused = refused.with_context(|| format!("{name}: bit {bit} flipped"))?;
            counted.refused += u64::from(refused);
            counted.flips += 1;
        }
        for length in (0..content.len()).step_by(step.div_ceil(8)) {
            let refused = small.look_at(&path, &content[..length]);
            let refused = refused.with_context(|| format!("{name}: cut to {length} bytes"))?;
            counted.refused += u64::from(refused);
            counted.cuts += 1;
        }
        progress();
    }
    Ok(counted)
}

impl Small {
    fn make() -> Result<Self> {
        let disk = FakeDisk::new();
        let (kv, _) = open(&disk)?;
        let put = |key: &str, bytes: usize| {
            let mut batch = WriteBatch::new();
            batch.put(key.as_bytes(), &vec![b'x'; bytes]);
            kv.commit(&batch)
        };
        for (key, bytes) in [("a", 30), ("b", 700), ("c", 10)] {
            put(key, bytes)?;
        }
        kv.compact()?;
        put("d", 20)?;
        let torn = contents(&kv)?;
        put("e", 50)?;
        let whole = contents(&kv)?;
        drop(kv);
        Ok(Small { disk, whole, torn })
    }

    /// Whether the store was refused.
    fn look_at(&self, path: &Path, content: &[u8]) -> Result<bool> {
        let disk = self.disk.fork();
        disk.set_content(path, content);
        let found = open(&disk).and_then(|(kv, report)| Ok((contents(&kv)?, report)));
        match found {
            Ok((found, report)) => {
                let last_is_torn = found == self.torn && report.torn.is_some();
                ensure!(found == self.whole || last_is_torn, "it opens with something else");
                Ok(false)
            }
            Err(Error::Corrupt { file, .. } | Error::Version { file, .. }) => {
                ensure!(file == path, "{} is blamed", file.display());
                Ok(true)
            }
            Err(other) => Err(other.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_is_named_or_harmless() {
        let counted = run(67, &|| {}).expect("never a wrong value");
        assert!(counted.flips > 500 && counted.cuts > 500, "{counted:?}");
        assert!(counted.refused > 300, "{counted:?}");
    }
}
