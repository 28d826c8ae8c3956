//! The programs of `examples/transactions`, ready to run: their packages are installed below
//! `target/`, as their lock files name them.

use std::fs;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hence_e2e::{clock, suite};
use hence_testkit::Missing;

/// How long an installation may take.
const INSTALLS_WITHIN: Duration = Duration::from_mins(5);

pub(crate) fn python(program: &str) -> Result<Command> {
    need("python3")?;
    let home = home("python")?;
    let environment = home.join("environment");
    let python = environment.join("bin/python");
    let requirements = source("python").join("requirements.txt");
    install("python", "requirements.txt", || {
        let mut make = Command::new("python3");
        let made = run(make.args(["-m", "venv", "--clear"]).arg(&environment), INSTALLS_WITHIN);
        made.map_err(|_| Missing::new("python3 makes no environments: is python3-venv there?"))?;
        let mut pip = Command::new(&python);
        pip.args(["-m", "pip", "install", "--quiet", "--requirement"]).arg(&requirements);
        let mut ask = Command::new(&python);
        ask.args(["-m", "pip", "index", "versions", "psycopg"]);
        or_unreachable(&mut pip, &mut ask)
    })?;
    let mut command = Command::new(python);
    command.arg(source("python").join(program));
    Ok(command)
}

pub(crate) fn javascript(program: &str) -> Result<Command> {
    need("node")?;
    need("npm")?;
    let home = home("javascript")?;
    install("javascript", "package-lock.json", || {
        for file in ["package.json", "package-lock.json"] {
            fs::copy(source("javascript").join(file), home.join(file))?;
        }
        let mut npm = Command::new("npm");
        npm.args(["ci", "--no-audit", "--no-fund"]).current_dir(&home);
        let mut ask = Command::new("npm");
        ask.args(["view", "pg", "version"]).current_dir(&home);
        or_unreachable(&mut npm, &mut ask)
    })?;
    // Packages are looked for beside the program.
    fs::copy(source("javascript").join(program), home.join(program))?;
    let mut command = Command::new("node");
    command.arg(home.join(program));
    Ok(command)
}

pub(crate) fn go(package: &str) -> Result<Command> {
    need("go")?;
    let binary = home("go")?.join(if package == "." { "orders" } else { package });
    let mut build = Command::new("go");
    // Go keeps what it downloads and compiles in caches of its own; the sums are in go.sum.
    build.args(["build", "-mod=readonly", "-buildvcs=false", "-o"]).arg(&binary);
    build.arg(format!("./{package}"));
    build.current_dir(source("go"));
    let mut ask = Command::new("go");
    ask.args(["list", "-m", "-versions", "github.com/jackc/pgx/v5"]).current_dir(source("go"));
    or_unreachable(&mut build, &mut ask)?;
    Ok(Command::new(binary))
}

pub(crate) fn rust(example: &str) -> Command {
    let mut program = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    program.args(["run", "--quiet", "--package", "hence-examples", "--example", example]);
    program.arg("--target-dir").arg(target()).current_dir(source("rust"));
    program
}

/// Runs a program to its end, and gives what it printed; one that fails or hangs is an error.
pub(crate) fn run(program: &mut Command, within: Duration) -> Result<String> {
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

/// Installs packages, unless those of this very lock file are there from last time.
fn install(language: &str, lock: &str, packages: impl FnOnce() -> Result<()>) -> Result<()> {
    // Two programs of one language share them.
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let installed = home(language)?.join("installed");
    let wanted = fs::read(source(language).join(lock))?;
    if fs::read(&installed).is_ok_and(|there| there == wanted) {
        return Ok(());
    }
    packages()?;
    Ok(fs::write(installed, wanted)?)
}

/// An installation that fails while nothing can be had from the registry is no failure of ours.
fn or_unreachable(install: &mut Command, ask: &mut Command) -> Result<()> {
    let Err(error) = run(install, INSTALLS_WITHIN) else { return Ok(()) };
    match run(ask, INSTALLS_WITHIN) {
        Ok(_) => Err(error),
        Err(_) => Err(Missing::new(format!("packages cannot be had: {ask:?} fails, too")).into()),
    }
}

fn need(program: &str) -> Result<()> {
    if suite::has_program(program) {
        return Ok(());
    }
    Err(Missing::new(format!("{program} is not installed")).into())
}

fn source(language: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/transactions").join(language)
}

/// Where packages of a language are kept from one run to the next.
fn home(language: &str) -> Result<PathBuf> {
    let home = target().join("transactions").join(language);
    fs::create_dir_all(&home)?;
    Ok(home)
}

/// Of `target/<profile>/deps/<this test>`.
fn target() -> PathBuf {
    let test = std::env::current_exe().unwrap_or_default();
    test.ancestors().nth(3).unwrap_or(Path::new("target")).to_path_buf()
}
