//! Makes the recorded disk a block device with a file system on it: nbdfuse, a loop device, ext4.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hence_e2e::clock;
use hence_e2e::suite::has_program;

use crate::text;

/// Why it cannot be done on this machine, if it cannot.
pub(crate) fn unavailable() -> Option<String> {
    for program in ["nbdfuse", "losetup", "mkfs.ext4", "mount", "umount"] {
        if !has_program(program) {
            return Some(format!("{program} is not installed"));
        }
    }
    for device in ["/dev/fuse", "/dev/loop-control"] {
        if std::fs::OpenOptions::new().read(true).write(true).open(device).is_err() {
            return Some(format!("{device} cannot be used"));
        }
    }
    None
}

/// A mounted loop device; unmounted and detached with its value.
#[derive(Debug)]
pub(crate) struct Mounted {
    device: String,
    at: PathBuf,
}

/// The recorded disk, mounted.
#[derive(Debug)]
pub(crate) struct Volume {
    // Fields are dropped in their order: the file system, then what is under it.
    mounted: Mounted,
    _fuse: Fuse,
}

impl Volume {
    /// Makes a file system on the disk behind `home/socket`, and mounts it.
    pub(crate) fn make(home: &Path) -> Result<Self> {
        let fuse = Fuse::start(home)?;
        let device = attach(&fuse.dir.join("disk"))?;
        let made = run("mkfs.ext4", &["-q", "-E", "nodiscard,lazy_itable_init=0", &device]);
        if made.is_err() {
            drop(run("losetup", &["-d", &device]));
        }
        made?;
        let mounted = mount(device, &home.join("mounted"))?;
        Ok(Volume { mounted, _fuse: fuse })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.mounted.at
    }

    /// Writes everything out and takes it apart.
    pub(crate) fn unmount(self) -> Result<()> {
        run("umount", &[&text(&self.mounted.at)]).map(drop)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Whatever was done before by hand is not there any more to be undone.
        drop(Command::new("umount").arg(&self.at).stderr(Stdio::null()).status());
        drop(Command::new("losetup").args(["-d", &self.device]).stderr(Stdio::null()).status());
    }
}

impl Mounted {
    pub(crate) fn path(&self) -> &Path {
        &self.at
    }
}

/// Mounts the file system in a file.
pub(crate) fn mount_image(image: &Path, at: &Path) -> Result<Mounted> {
    mount(attach(image)?, at)
}

fn attach(file: &Path) -> Result<String> {
    run("losetup", &["-f", "--show", "--direct-io=on", &text(file)])
        .or_else(|_| run("losetup", &["-f", "--show", &text(file)]))
}

fn mount(device: String, at: &Path) -> Result<Mounted> {
    std::fs::create_dir_all(at)?;
    let mounted = Mounted { device, at: at.to_owned() };
    run("mount", &["-t", "ext4", &mounted.device, &text(at)])?;
    Ok(mounted)
}

/// nbdfuse, which shows the disk as a file.
#[derive(Debug)]
struct Fuse {
    child: Child,
    dir: PathBuf,
}

impl Fuse {
    fn start(home: &Path) -> Result<Self> {
        let dir = home.join("fuse");
        std::fs::create_dir_all(&dir)?;
        let uri = format!("nbd+unix://?socket={}", text(&home.join("socket")));
        let child = Command::new("nbdfuse").arg(dir.join("disk")).arg(uri).spawn()?;
        let fuse = Fuse { child, dir };
        let disk = fuse.dir.join("disk");
        clock::until(Duration::from_secs(10), || disk.is_file().then_some(()))
            .context("nbdfuse does not show the disk")?;
        Ok(fuse)
    }
}

impl Drop for Fuse {
    fn drop(&mut self) {
        drop(Command::new("umount").arg("--lazy").arg(&self.dir).status());
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Runs a program to its end; what it printed.
pub(crate) fn run(program: &str, args: &[&str]) -> Result<String> {
    let output = Command::new(program).args(args).stdin(Stdio::null()).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{program} {}: {}", args.join(" "), said.trim());
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
