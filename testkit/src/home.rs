//! As whom a server runs, and where: databases refuse to run as root, and another user cannot
//! reach every directory.

use std::ffi::OsStr;
use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::Missing;

/// A user of the machine that servers run as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct User {
    /// None: we are not root, and run everything as ourselves.
    switch: Option<(u32, u32)>,
    name: String,
}

impl User {
    /// Ourselves, or, when we are root, the first of these that there is, or `nobody`.
    pub(crate) fn for_server(preferred: &str) -> Result<Self> {
        if !rustix::process::geteuid().is_root() {
            let name = rustix::process::geteuid().as_raw().to_string();
            return Ok(User { switch: None, name });
        }
        for name in [preferred, "nobody"] {
            if let (Some(user), Some(group)) = (id("-u", name), id("-g", name)) {
                return Ok(User { switch: Some((user, group)), name: name.to_owned() });
            }
        }
        bail!(Missing::new("a user for servers: they do not run as root, and there is no nobody"))
    }

    /// Tells users apart in names of files.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The number of the user that files are to belong to.
    pub(crate) fn number(&self) -> u32 {
        self.switch.map_or_else(|| rustix::process::geteuid().as_raw(), |(user, _)| user)
    }

    /// A command that runs as this user. It replaces the wrapper: the child is the program itself.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let Some((user, group)) = self.switch else { return Command::new(program) };
        let mut command = Command::new("setpriv");
        let ids = [format!("--reuid={user}"), format!("--regid={group}")];
        command.args(ids).args(["--clear-groups", "--"]).arg(program);
        // Programs look for files of their own at home.
        command.env("HOME", "/nonexistent").env_remove("XDG_RUNTIME_DIR");
        command
    }

    /// A new directory that belongs to this user and that this user can reach.
    pub(crate) fn new_home(&self, prefix: &str) -> Result<PathBuf> {
        let places = [std::env::temp_dir(), "/tmp".into(), "/var/tmp".into()];
        for place in &places {
            let Ok(made) = tempfile::Builder::new().prefix(prefix).tempdir_in(place) else {
                continue;
            };
            self.own(made.path())?;
            if self.can_write(made.path()) {
                return Ok(made.keep());
            }
        }
        bail!(Missing::new(format!("a temporary directory that {} can reach", self.name)))
    }

    /// Gives it to this user, and hides it from others.
    pub(crate) fn own(&self, path: &Path) -> Result<()> {
        let what = || format!("giving {} to {}", path.display(), self.name);
        std::fs::set_permissions(path, Permissions::from_mode(0o700)).with_context(what)?;
        if let Some((user, group)) = self.switch {
            chown(path, Some(user), Some(group)).with_context(what)?;
        }
        Ok(())
    }

    fn can_write(&self, path: &Path) -> bool {
        let mut test = self.command("test");
        test.arg("-w").arg(path).current_dir("/").stderr(Stdio::null());
        test.status().is_ok_and(|status| status.success())
    }
}

fn id(what: &str, name: &str) -> Option<u32> {
    let out = Command::new("id").args([what, name]).stderr(Stdio::null()).output().ok()?;
    if !out.status.success() {
        return None;
    }
    String::from_utf8_lossy(&out.stdout).trim().parse().ok()
}
