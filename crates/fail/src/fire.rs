//! A build for tests of faults: what the environment asks for happens at its point.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::{Act, OnError, Point};

#[derive(Debug, PartialEq, Eq)]
struct Armed {
    point: Point,
    action: Action,
    /// Fires when the point is reached for this time.
    at: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Abort,
    Error,
    Skip,
}

struct Plan {
    armed: Option<Armed>,
    reached: [AtomicU64; Point::ALL.len()],
    report: Option<File>,
    small: bool,
}

/// Reads the environment. What it says must be right: a fault that is silently not made would
/// pass for one that was survived.
pub fn arm() {
    plan();
}

/// Does what was asked for at this point.
pub fn reach(point: Point) -> Act {
    let plan = plan();
    let times = plan.reached[point as usize].fetch_add(1, Ordering::SeqCst) + 1;
    if times == 1 {
        plan.tell("reached", point);
    }
    let Some(armed) = plan.armed.as_ref().filter(|armed| armed.point == point) else {
        return Act::GoOn;
    };
    if armed.action == Action::Skip && times > armed.at {
        return Act::Skip;
    }
    if times != armed.at {
        return Act::GoOn;
    }
    plan.tell("fired", point);
    match armed.action {
        Action::Abort => std::process::abort(),
        Action::Error => Act::Error,
        Action::Skip => Act::Skip,
    }
}

/// Whether files are to be small.
pub fn small() -> bool {
    plan().small
}

fn plan() -> &'static Plan {
    static PLAN: OnceLock<Plan> = OnceLock::new();
    PLAN.get_or_init(|| {
        let text = |name| std::env::var(name).ok();
        let armed = text("HENCE_FAIL").map(|spec| parse(&spec));
        let report = text("HENCE_FAIL_REPORT").map(|path| {
            let opened = OpenOptions::new().create(true).append(true).open(path);
            opened.expect("HENCE_FAIL_REPORT names a file that can be written")
        });
        let armed = armed.map(|armed| armed.unwrap_or_else(|problem| panic!("{problem}")));
        let reached = [const { AtomicU64::new(0) }; Point::ALL.len()];
        Plan { armed, reached, report, small: text("HENCE_FAIL_SMALL").is_some() }
    })
}

impl Plan {
    /// One write, so that lines of several threads stay whole; nothing is done about a failure,
    /// because whoever reads the report misses the line.
    fn tell(&self, what: &str, point: Point) {
        if let Some(mut report) = self.report.as_ref() {
            let _ = report.write_all(format!("{what} {}\n", point.name()).as_bytes());
        }
    }
}

fn parse(spec: &str) -> Result<Armed, String> {
    let wrong = |what: &str| format!("HENCE_FAIL={spec}: {what}");
    let (name, rest) = spec.split_once('=').ok_or_else(|| wrong("say POINT=ACTION"))?;
    let (action, at) = rest.split_once('@').unwrap_or((rest, "1"));
    let mut all = Point::ALL.iter().copied();
    let point = all.find(|point| point.name() == name).ok_or_else(|| wrong("no such point"))?;
    let action = match action {
        "abort" => Action::Abort,
        "error" if point.on_error() != OnError::Never => Action::Error,
        "error" => return Err(wrong("nothing can fail there")),
        "skip" if point.name().ends_with("sync") => Action::Skip,
        "skip" => return Err(wrong("only a sync can be skipped")),
        _ => return Err(wrong("an action is abort, error or skip")),
    };
    let at = at.parse().ok().filter(|at| *at > 0).ok_or_else(|| wrong("count from 1"))?;
    Ok(Armed { point, action, at })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_understood() {
        let armed = |point, action, at| Ok(Armed { point, action, at });
        let check = |spec: &str, expected: Result<Armed, String>| {
            assert_eq!(parse(spec), expected, "{spec}");
        };
        check("log.sync=abort", armed(Point::LogSync, Action::Abort, 1));
        check("log.sync=error@3", armed(Point::LogSync, Action::Error, 3));
        check("disk.sync=skip", armed(Point::DiskSync, Action::Skip, 1));
        for wrong in [
            "",
            "log.sync",
            "log.snyc=abort",
            "log.sync=explode",
            "log.sync=abort@0",
            "log.sync=abort@x",
            "log.write=skip",
            "commit.apply=error",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
