//! Programs in other languages that tests run, and their packages: installed below `target/` as a
//! lock file names them, once. What cannot be had on this machine is [`Missing`], with the reason.

use std::fs;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hence_testkit::{Missing, suite};

use crate::clock;

/// How long an installation may take.
const INSTALLS_WITHIN: Duration = Duration::from_mins(5);

/// An environment of Python with these packages, kept under this name; its directory of programs.
pub fn python(name: &str, requirements: &Path) -> Result<PathBuf> {
    need("python3")?;
    let environment = home(name)?.join("environment");
    let programs = environment.join("bin");
    install(name, requirements, || {
        let mut make = Command::new("python3");
        let made = run(make.args(["-m", "venv", "--clear"]).arg(&environment), INSTALLS_WITHIN);
        made.map_err(|_| Missing::new("python3 makes no environments: is python3-venv there?"))?;
        let pip = |args: &[&str]| {
            let mut pip = Command::new(programs.join("python"));
            pip.args(["-m", "pip"]).args(args);
            pip
        };
        let mut packages = pip(&["install", "--quiet", "--requirement"]);
        packages.arg(requirements);
        or_unreachable(&mut packages, &mut pip(&["index", "versions", "pip"]))
    })?;
    Ok(programs)
}

/// Installs packages, unless those of this very lock file are there from last time.
pub fn install(name: &str, lock: &Path, packages: impl FnOnce() -> Result<()>) -> Result<()> {
    // Two programs of one language share them.
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let installed = home(name)?.join("installed");
    let wanted = fs::read(lock).with_context(|| format!("reading {}", lock.display()))?;
    if fs::read(&installed).is_ok_and(|there| there == wanted) {
        return Ok(());
    }
    packages()?;
    Ok(fs::write(installed, wanted)?)
}

/// An installation that fails while nothing can be had from the registry is no failure of ours.
pub fn or_unreachable(install: &mut Command, ask: &mut Command) -> Result<()> {
    let Err(error) = run(install, INSTALLS_WITHIN) else { return Ok(()) };
    match run(ask, INSTALLS_WITHIN) {
        Ok(_) => Err(error),
        Err(_) => Err(Missing::new(format!("packages cannot be had: {ask:?} fails, too")).into()),
    }
}

/// Runs a program to its end, and gives what it printed; one that fails or hangs is an error.
pub fn run(program: &mut Command, within: Duration) -> Result<String> {
    let mut log = tempfile::tempfile()?;
    program.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log.try_clone()?);
    let mut child = program.spawn().with_context(|| format!("starting {program:?}"))?;
    let ended = clock::until(within, || child.try_wait().ok().flatten());
    if ended.is_none() {
        child.kill()?;
    }
    let status = child.wait()?;
    let mut bytes = Vec::new();
    log.rewind()?;
    log.read_to_end(&mut bytes)?;
    let said = String::from_utf8_lossy(&bytes).into_owned();
    let end =
        if ended.is_none() { format!("cut off after {within:?}") } else { status.to_string() };
    ensure!(ended.is_some() && status.success(), "{program:?}: {end}:\n{said}");
    Ok(said)
}

/// Refuses to go on without this program.
pub fn need(program: &str) -> Result<()> {
    if suite::has_program(program) {
        return Ok(());
    }
    Err(Missing::new(format!("{program} is not installed")).into())
}

/// Where the packages of this name are kept from one run to the next.
pub fn home(name: &str) -> Result<PathBuf> {
    let home = target().join("packages").join(name);
    fs::create_dir_all(&home)?;
    Ok(home)
}

/// Of `target/<profile>/deps/<this test>`.
pub fn target() -> PathBuf {
    let test = std::env::current_exe().unwrap_or_default();
    test.ancestors().nth(3).unwrap_or(Path::new("target")).to_path_buf()
}
