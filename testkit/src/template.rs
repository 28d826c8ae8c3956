//! Empty data directories: to make one takes seconds, to copy it a tenth of one.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::home::User;

/// Fills `data` in the home of a server from the template of this name, which `make` makes the
/// first time. It stays on the machine, beside the homes.
pub(crate) fn fill(
    home: &Path,
    user: &User,
    name: &str,
    make: impl FnOnce(&Path) -> Result<()>,
) -> Result<()> {
    let places = home.parent().context("a home has a place")?;
    let template = places.join(format!("hence-testkit-{}-{name}", user.name()));
    // Somebody else could have put one there; a symbolic link is not a directory here.
    let ours = fs::symlink_metadata(&template)
        .is_ok_and(|found| found.is_dir() && found.uid() == user.number());
    let data = home.join("data");
    if ours {
        return run(user.command("cp").args(["-Rp"]).arg(&template).arg(&data));
    }
    make(&data)?;
    let copy = home.join("template");
    run(user.command("cp").args(["-Rp"]).arg(&data).arg(&copy))?;
    // Whoever is first has made it. Ours goes with our home otherwise.
    drop(fs::rename(&copy, &template));
    Ok(())
}

/// Runs a command to its end; what it said is the error.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let out = command.current_dir("/").output().with_context(|| format!("{command:?}"))?;
    let said = [out.stdout, out.stderr].concat();
    ensure!(out.status.success(), "{command:?}: {}", String::from_utf8_lossy(&said).trim());
    Ok(())
}
