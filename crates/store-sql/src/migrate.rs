//! Which migrations are to be run: pure; a dialect lists its files and runs the steps.
//!
//! Each has a number, an `up` and a `down`, and a checksum that is stored when it was run. A store
//! that was made by a newer program, or by files that were changed since, is refused.

use hence_store::{ErrorKind, StoreError};
use sha2::{Digest, Sha256};

/// One numbered change of the tables.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Migration {
    /// From 1, without gaps.
    pub(crate) version: u32,
    /// A few words for people.
    pub(crate) name: &'static str,
    /// Makes the change.
    pub(crate) up: &'static str,
    /// Takes it back.
    pub(crate) down: &'static str,
}

/// Those whose files lie in `migrations/` beside the caller, by the number and the name of each.
macro_rules! migrations {
    ($($number:literal $name:literal),+ $(,)?) => {
        [$($crate::migrate::Migration {
            version: $crate::migrate::version($number),
            name: $name,
            up: include_str!(concat!("migrations/", $number, "_", $name, ".up.sql")),
            down: include_str!(concat!("migrations/", $number, "_", $name, ".down.sql")),
        }),+]
    };
}
pub(crate) use migrations;

/// The number that a name of a file begins with.
pub(crate) const fn version(number: &str) -> u32 {
    match u32::from_str_radix(number, 10) {
        Ok(version) => version,
        Err(_) => panic!("a migration begins with its number"),
    }
}

/// A migration that was run, as the store remembers it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Applied {
    /// Its number.
    pub version: u32,
    /// Of its text.
    pub checksum: String,
}

/// A step to run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// Of which migration.
    pub version: u32,
    /// Its few words.
    pub name: &'static str,
    /// Which way.
    pub direction: Direction,
    /// What is run.
    pub sql: &'static str,
}

impl Step {
    /// The step for people to read; `named` gives the tables their names.
    pub(crate) fn text(&self, named: impl Fn(&str) -> String) -> String {
        let direction = match self.direction {
            Direction::Up => "up",
            Direction::Down => "down",
        };
        format!("-- {} {}, {direction}\n{}\n", self.version, self.name, named(self.sql))
    }
}

/// Which way a migration is run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// Made.
    Up,
    /// Taken back.
    Down,
}

/// The checksum of a migration's text.
pub(crate) fn checksum(sql: &str) -> String {
    let digest: [u8; 32] = Sha256::digest(sql.as_bytes()).into();
    let (first, _) = digest.split_first_chunk().expect("a digest is longer than eight bytes");
    format!("{:016x}", u64::from_be_bytes(*first))
}

/// The steps from what was run to version `to`; the newest, without one.
pub(crate) fn plan(
    known: &[Migration],
    applied: &[Applied],
    to: Option<u32>,
) -> Result<Vec<Step>, StoreError> {
    let newest = known.len() as u32;
    let to = to.unwrap_or(newest);
    if to > newest {
        let message = format!("migrate to version {to}: this program knows 0 to {newest}");
        return Err(StoreError::new(ErrorKind::Unsupported, message));
    }
    for (position, done) in (1..).zip(applied) {
        check(known, done, position)?;
    }
    let current = applied.len() as u32;
    let step = |direction| {
        move |migration: &Migration| {
            let Migration { version, name, up, down } = *migration;
            let sql = if direction == Direction::Up { up } else { down };
            Step { version, name, direction, sql }
        }
    };
    let between = |low: u32, high: u32| &known[low as usize..high as usize];
    Ok(if to >= current {
        between(current, to).iter().map(step(Direction::Up)).collect()
    } else {
        between(to, current).iter().rev().map(step(Direction::Down)).collect()
    })
}

fn check(known: &[Migration], done: &Applied, position: u32) -> Result<(), StoreError> {
    let refused = |message| Err(StoreError::new(ErrorKind::Version, message));
    let Applied { version, checksum: stored } = done;
    if *version != position {
        return refused(format!("the store lacks migration {position}: its list has a gap"));
    }
    let Some(migration) = known.get(position as usize - 1) else {
        let newest = known.len();
        return refused(format!(
            "the store has version {version}, this program knows {newest}: use a newer one"
        ));
    };
    if checksum(migration.up) != *stored {
        return refused(format!(
            "migration {version} ({}) was run with another text: its checksum is {stored}, here \
             it is {}",
            migration.name,
            checksum(migration.up)
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [Migration; 3] = [
        Migration { version: 1, name: "one", up: "up 1", down: "down 1" },
        Migration { version: 2, name: "two", up: "up 2", down: "down 2" },
        Migration { version: 3, name: "three", up: "up 3", down: "down 3" },
    ];

    fn applied(versions: &[u32]) -> Vec<Applied> {
        let done = |version: &u32| {
            let known = KNOWN.iter().find(|it| it.version == *version);
            let checksum = checksum(known.map_or("unknown", |it| it.up));
            Applied { version: *version, checksum }
        };
        versions.iter().map(done).collect()
    }

    #[test]
    fn steps_lead_from_here_to_there() {
        let rows: [(&[u32], Option<u32>, &[&str]); 7] = [
            (&[], None, &["up 1", "up 2", "up 3"]),
            (&[1], None, &["up 2", "up 3"]),
            (&[1, 2, 3], None, &[]),
            (&[], Some(1), &["up 1"]),
            (&[1, 2, 3], Some(1), &["down 3", "down 2"]),
            (&[1, 2], Some(0), &["down 2", "down 1"]),
            (&[1, 2], Some(2), &[]),
        ];
        for (done, to, expected) in rows {
            let steps = plan(&KNOWN, &applied(done), to).unwrap();
            let found: Vec<&str> = steps.iter().map(|step| step.sql).collect();
            assert_eq!(found, expected, "from {done:?} to {to:?}");
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let mut changed = applied(&[1, 2]);
        changed[1].checksum = checksum("something else");
        let rows = [
            ("a newer store", applied(&[1, 2, 3, 4]), None, ErrorKind::Version),
            ("a gap", applied(&[1, 3]), None, ErrorKind::Version),
            ("another text", changed, None, ErrorKind::Version),
            ("an unknown aim", applied(&[1]), Some(4), ErrorKind::Unsupported),
        ];
        for (what, done, to, kind) in rows {
            let error = plan(&KNOWN, &done, to).expect_err(what);
            assert_eq!(error.kind(), kind, "{what}: {error}");
        }
    }
}
