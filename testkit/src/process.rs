//! A server as a child process with a directory of its own: started, stopped, killed, paused.

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

use crate::home::User;
use crate::wait::until;
use crate::watchdog::Watchdog;

/// How long a start may take. A busy machine is slow; a hang is longer.
const READY_WITHIN: Duration = Duration::from_mins(1);

/// How long a server may take to end when it is asked to.
const ENDS_WITHIN: Duration = Duration::from_mins(1);

/// Lines of the log that an error shows.
const TAIL_LINES: usize = 30;

/// One server and its directory. Killed, and the directory removed, with this value.
#[derive(Debug)]
pub(crate) struct Process {
    name: &'static str,
    child: Option<Child>,
    watchdog: Watchdog,
}

impl Process {
    /// With a new directory that belongs to the user; nothing runs yet.
    pub(crate) fn new(name: &'static str, user: &User) -> Result<Self> {
        let home = user.new_home(&format!("hence-{name}-"))?;
        Ok(Process { name, child: None, watchdog: Watchdog::over(home)? })
    }

    /// Its directory.
    pub(crate) fn home(&self) -> &Path {
        self.watchdog.home()
    }

    /// Starts it, and waits until `ready` says so; it is told the number of the process.
    pub(crate) fn start(
        &mut self,
        mut command: Command,
        mut ready: impl FnMut(u32) -> bool,
    ) -> Result<()> {
        ensure!(self.child.is_none(), "{} runs already", self.name);
        let log = OpenOptions::new().create(true).append(true).open(self.log_path())?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        // A group of its own: an interrupt at the terminal is ours to deal with, not the server's.
        command.current_dir(self.home()).process_group(0);
        let child = command.spawn().with_context(|| format!("starting {}", self.name))?;
        let pid = child.id();
        self.child = Some(child);
        self.watchdog.watch(pid)?;
        let started = until(READY_WITHIN, || {
            if let Some(Ok(Some(status))) = self.child.as_mut().map(Child::try_wait) {
                return Some(Err(status));
            }
            ready(pid).then_some(Ok(()))
        });
        let why = match started {
            Some(Ok(())) => return Ok(()),
            Some(Err(status)) => format!("ended with {status}"),
            None => format!("was not ready after {READY_WITHIN:?}"),
        };
        let tail = self.log_tail();
        self.kill()?;
        bail!("{} {why}:\n{tail}", self.name)
    }

    /// Asks it to end with this signal, and waits for that.
    pub(crate) fn stop(&mut self, signal: Signal) -> Result<()> {
        send(self.pid()?, signal)?;
        let mut child = self.child.take().context("it does not run")?;
        let ended = until(ENDS_WITHIN, || child.try_wait().ok().flatten());
        if ended.is_none() {
            self.child = Some(child);
            let tail = self.log_tail();
            self.kill()?;
            bail!("{} still ran after {ENDS_WITHIN:?}:\n{tail}", self.name);
        }
        self.watchdog.forget()
    }

    /// Kills it and all its children with -9, and waits until they are gone.
    pub(crate) fn kill(&mut self) -> Result<()> {
        let pid = self.pid()?;
        let children = descendants(pid);
        let mut child = self.child.take().context("it does not run")?;
        // The parent first: it would report the death of a child and start another.
        child.kill()?;
        for child in &children {
            // One that has ended meanwhile is as gone as it should be.
            drop(send(*child, Signal::KILL));
        }
        child.wait()?;
        self.watchdog.forget()?;
        let gone = until(ENDS_WITHIN, || {
            let running = processes();
            (!children.iter().any(|child| running.contains_key(child))).then_some(())
        });
        gone.with_context(|| format!("children of {} outlive kill -9", self.name))
    }

    /// Stops it and all its children in their tracks.
    pub(crate) fn pause(&self) -> Result<()> {
        let pid = self.pid()?;
        // The parent first, so that no child is born meanwhile.
        send(pid, Signal::STOP)?;
        descendants(pid).into_iter().try_for_each(|child| send(child, Signal::STOP))
    }

    /// Lets it go on.
    pub(crate) fn resume(&self) -> Result<()> {
        let pid = self.pid()?;
        descendants(pid).into_iter().try_for_each(|child| send(child, Signal::CONT))?;
        send(pid, Signal::CONT)
    }

    /// The number of the process.
    pub(crate) fn pid(&self) -> Result<u32> {
        self.child.as_ref().map(Child::id).with_context(|| format!("{} does not run", self.name))
    }

    /// The end of what it printed, all starts together.
    pub(crate) fn log_tail(&self) -> String {
        let bytes = std::fs::read(self.log_path()).unwrap_or_default();
        let log = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
    }

    fn log_path(&self) -> PathBuf {
        self.home().join("log")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.child.is_some() {
            // What cannot be killed here, the watchdog tries once more.
            drop(self.kill());
        }
    }
}

fn send(pid: u32, signal: Signal) -> Result<()> {
    let pid = Pid::from_raw(i32::try_from(pid)?).context("no process has the number 0")?;
    kill_process(pid, signal).with_context(|| format!("sending {signal:?} to {pid:?}"))
}

/// The children of a process, their children, and so on.
fn descendants(of: u32) -> Vec<u32> {
    let parents = processes();
    let mut found = vec![of];
    let mut looked_at = 0;
    while let Some(parent) = found.get(looked_at).copied() {
        looked_at += 1;
        found.extend(parents.iter().filter(|(_, of)| **of == parent).map(|(child, _)| *child));
    }
    found.split_off(1)
}

/// The parent of each process that is not a zombie.
fn processes() -> HashMap<u32, u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
            // `pid (name) state parent …`, where the name may hold anything.
            let mut rest = stat.get(stat.rfind(')')? + 1..)?.split_ascii_whitespace();
            let state = rest.next()?;
            let parent = rest.next()?.parse().ok()?;
            (state != "Z").then_some((pid, parent))
        })
        .collect()
}
