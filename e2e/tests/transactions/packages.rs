//! The programs of `examples/transactions`, ready to run.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;
use hence_e2e::packages::{self, home, install, need, or_unreachable, target};

pub(crate) fn python(program: &str) -> Result<Command> {
    let programs = packages::python("python", &source("python").join("requirements.txt"))?;
    let mut command = Command::new(programs.join("python"));
    command.arg(source("python").join(program));
    Ok(command)
}

pub(crate) fn javascript(program: &str) -> Result<Command> {
    need("node")?;
    need("npm")?;
    let home = home("javascript")?;
    let lock = source("javascript").join("package-lock.json");
    install("javascript", &lock, || {
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

fn source(language: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/transactions").join(language)
}
