//! Finds the programs of the servers, and installs their Debian packages where that can be done
//! without asking.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail, ensure};
use rustix::fs::{FlockOperation, flock};

use crate::Missing;

/// A program that is needed, and what brings it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Program {
    /// Its name.
    pub name: &'static str,
    /// The Debian packages that bring it and what it needs.
    pub packages: &'static [&'static str],
}

pub(crate) const POSTGRES: Program = Program { name: "initdb", packages: &["postgresql"] };
pub(crate) const PSQL: Program = Program { name: "psql", packages: &["postgresql-client"] };
/// Only the core package: it has no service that could be started.
pub(crate) const MARIADB: Program =
    Program { name: "mariadbd", packages: &["mariadb-server-core"] };
pub(crate) const MARIADB_CLIENT: Program =
    Program { name: "mariadb", packages: &["mariadb-client-core"] };
/// The library that makes a cluster of servers.
pub(crate) const GALERA: Program = Program { name: "libgalera_smm.so", packages: &["galera-4"] };
pub(crate) const OPENSSL: Program = Program { name: "openssl", packages: &["openssl"] };
pub(crate) const PGBOUNCER: Program = Program { name: "pgbouncer", packages: &["pgbouncer"] };

/// Every program that the servers of this crate need.
pub fn programs() -> [Program; 7] {
    [POSTGRES, PSQL, MARIADB, MARIADB_CLIENT, GALERA, PGBOUNCER, OPENSSL]
}

/// While this file forbids it, a package does not start its service.
const POLICY: &str = "/usr/sbin/policy-rc.d";

impl Program {
    /// Where it is; installed when it is not there and that is possible. Else [`Missing`].
    pub fn need(&self) -> Result<PathBuf> {
        // Tried once in a process: what has failed takes as long a second time.
        static TRIED: Mutex<Option<HashMap<&str, String>>> = Mutex::new(None);
        if let Some(found) = self.find() {
            return Ok(found);
        }
        let mut tried = TRIED.lock().unwrap_or_else(PoisonError::into_inner);
        let why = tried.get_or_insert_default().entry(self.name).or_insert_with(|| {
            match self.install() {
                Ok(()) => format!("{} did not bring it", self.packages.join(" ")),
                Err(error) => format!("{error:#}"),
            }
        });
        self.find().ok_or_else(|| Missing::new(format!("{}: {why}", self.name)).into())
    }

    /// Where it is, if it is there: on the path, or where Debian keeps programs of servers. Of
    /// several versions of PostgreSQL the newest.
    pub fn find(&self) -> Option<PathBuf> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut places: Vec<PathBuf> = std::env::split_paths(&path).collect();
        places.extend(["/usr/sbin", "/usr/lib/galera"].map(PathBuf::from));
        places.extend(postgres_versions());
        places.iter().map(|place| place.join(self.name)).find(|program| program.is_file())
    }

    fn install(&self) -> Result<()> {
        let packages = self.packages.join(" ");
        let root = rustix::process::geteuid().is_root();
        let apt = Command::new("apt-get").arg("--version").stdout(Stdio::null()).status();
        if !root || !apt.is_ok_and(|status| status.success()) {
            bail!("install the packages {packages}; only root with apt can do it by itself");
        }
        let _alone = lock()?;
        if self.find().is_some() {
            return Ok(()); // another process was faster
        }
        let _policy = NoServices::begin()?;
        if apt_get(&install_args(self.packages)).is_err() {
            apt_get(&["update"])?;
            apt_get(&install_args(self.packages))?;
        }
        Ok(())
    }
}

fn install_args(packages: &[&'static str]) -> Vec<&'static str> {
    [&["install", "--yes", "--no-install-recommends"], packages].concat()
}

fn apt_get(args: &[&str]) -> Result<()> {
    let mut command = Command::new("apt-get");
    command.args(args).env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null());
    let out = command.output().context("starting apt-get")?;
    let said = String::from_utf8_lossy(&out.stderr);
    ensure!(out.status.success(), "apt-get {}: {}", args.join(" "), said.trim());
    Ok(())
}

/// One process at a time installs; the lock goes with the file.
fn lock() -> Result<File> {
    let path = "/run/hence-testkit.lock";
    let file = File::create(path).with_context(|| format!("creating {path}"))?;
    flock(&file, FlockOperation::LockExclusive).with_context(|| format!("locking {path}"))?;
    Ok(file)
}

/// Keeps packages from starting the services of the machine, unless something else does already.
struct NoServices {
    ours: bool,
}

impl NoServices {
    fn begin() -> Result<Self> {
        let made = OpenOptions::new().write(true).create_new(true).mode(0o755).open(POLICY);
        match made {
            Ok(mut file) => {
                let guard = NoServices { ours: true };
                file.write_all(b"#!/bin/sh\nexit 101\n").with_context(|| POLICY.to_owned())?;
                Ok(guard)
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                Ok(NoServices { ours: false })
            }
            Err(error) => Err(error).with_context(|| format!("creating {POLICY}")),
        }
    }
}

impl Drop for NoServices {
    fn drop(&mut self) {
        if self.ours {
            // It can only be gone already.
            drop(std::fs::remove_file(POLICY));
        }
    }
}

/// `/usr/lib/postgresql/*/bin`, newest first.
fn postgres_versions() -> Vec<PathBuf> {
    let entries = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let version = |path: &Path| path.file_name()?.to_str()?.parse::<u32>().ok();
    let mut found: Vec<(u32, PathBuf)> = entries
        .filter_map(|entry| Some((version(&entry.path())?, entry.path().join("bin"))))
        .collect();
    found.sort_by_key(|(version, _)| std::cmp::Reverse(*version));
    found.into_iter().map(|(_, bin)| bin).collect()
}
