//! `hence doctor`: looks for what is wrong, and says what to do about it.

use std::collections::BTreeSet;

use clap::Args;
use serde_json::{Value, json};

use super::version;
use crate::api::{Answer, Api, Path};
use crate::clock;
use crate::failure::{Exit, Failure};
use crate::output::{Output, Tone};
use crate::wire::{self, Queue};
use crate::words;

pub(crate) const EXAMPLES: &str = "\
Examples:
  hence doctor            one line per check; exit code 1 when one fails, 4 when nobody answers
  hence doctor --json     one document per check";

/// A clock further off than this makes `--in` and lateness on this machine misleading.
const CLOCK_WARN_MS: u64 = 2_000;
/// A job that was ready so long ago waits for a worker that does not come.
const OLDEST_WARN_MS: u64 = 60_000;

/// The advice where whoever answered gave none: it may have been a proxy.
const LOOK: &str = "look whether --server is the server's address, and at its log";

#[derive(Debug, Args)]
pub(crate) struct Doctor {}

/// How a check went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    Ok,
    Warn,
    Fail,
}

impl Mark {
    const fn as_str(self) -> &'static str {
        match self {
            Mark::Ok => "ok",
            Mark::Warn => "warn",
            Mark::Fail => "fail",
        }
    }

    const fn tone(self) -> Tone {
        match self {
            Mark::Ok => Tone::Good,
            Mark::Warn => Tone::Warning,
            Mark::Fail => Tone::Bad,
        }
    }
}

/// One check and its finding.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    check: &'static str,
    mark: Mark,
    found: String,
    fix: Option<String>,
}

impl Finding {
    fn ok(check: &'static str, found: impl Into<String>) -> Self {
        Finding { check, mark: Mark::Ok, found: found.into(), fix: None }
    }

    fn warn(check: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Self {
        Finding { check, mark: Mark::Warn, found: found.into(), fix: Some(fix.into()) }
    }

    fn fail(check: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Self {
        Finding { check, mark: Mark::Fail, found: found.into(), fix: Some(fix.into()) }
    }
}

pub(crate) async fn run(_: Doctor, api: &Api, output: &Output) -> Result<(), Failure> {
    let (findings, exit) = examine(api).await?;
    for finding in &findings {
        print(finding, output)?;
    }
    let count = |mark| findings.iter().filter(|finding| finding.mark == mark).count() as u64;
    let (failed, warned) = (count(Mark::Fail), count(Mark::Warn));
    if failed == 0 {
        output.say(match warned {
            0 => "all is well".to_owned(),
            _ => format!("nothing is broken; {} to look at", words::count(warned, "thing")),
        });
        return Ok(());
    }
    Err(Failure::new(exit, format!("{} failed", words::count(failed, "check"))))
}

/// What was found, and what the shell is told if something of it failed.
async fn examine(api: &Api) -> Result<(Vec<Finding>, Exit), Failure> {
    let asked = clock::now_ms();
    let answer = match api.fetch(&Path::new("/v1/stats")).await {
        Ok(answer) => answer,
        Err(failure) => {
            // One that answers, if only to refuse, can be reached.
            let exit = if failure.is_passing() { failure.exit } else { Exit::Refused };
            let fix = failure.fix.unwrap_or_else(|| LOOK.to_owned());
            return Ok((vec![Finding::fail("server", failure.message, fix)], exit));
        }
    };
    let answered = clock::now_ms();
    let stats: Value = serde_json::from_slice(&answer.body).map_err(Failure::unexpected)?;
    let mut findings = vec![Finding::ok("server", format!("{} answers", api.base()))];
    findings.push(readiness(api).await);
    findings.push(versions(version::of(&stats).as_deref()));
    findings.push(clocks(&answer, asked, answered));
    findings.push(tier(&stats));
    findings.push(space(&stats));
    let queues = wire::items(api.get(&Path::new("/v1/queues")).await?, "queues")?;
    let queues = queues.into_iter().map(wire::read).collect::<Result<Vec<Queue>, _>>()?;
    findings.push(oldest_ready(&queues, answered));
    findings.push(handlers(&queues));
    findings.push(dead(&queues));
    findings.push(schedules(&stats));
    Ok((findings, Exit::Refused))
}

fn print(finding: &Finding, output: &Output) -> Result<(), Failure> {
    let Finding { check, mark, found, fix } = finding;
    if output.is_json() {
        return output
            .json(&json!({"check": check, "result": mark.as_str(), "found": found, "fix": fix}));
    }
    let mark = output.paint(mark.tone(), &format!("{:4}", mark.as_str()));
    output.line(format_args!("{mark}  {check}: {found}"))?;
    match fix {
        Some(fix) => output.line(format_args!("      fix: {fix}")),
        None => Ok(()),
    }
}

async fn readiness(api: &Api) -> Finding {
    match api.fetch(&Path::new("/ready")).await {
        Ok(_) => Finding::ok("ready", "it takes work"),
        Err(failure) => Finding::fail(
            "ready",
            failure.message,
            failure.fix.unwrap_or_else(|| "look at the server's log".to_owned()),
        ),
    }
}

fn versions(server: Option<&str>) -> Finding {
    match server {
        Some(server) if server == version::OURS => {
            Finding::ok("version", format!("{server} on both sides"))
        }
        Some(server) => Finding::warn(
            "version",
            format!("the server is {server}, this program is {}", version::OURS),
            "use the same version on both sides",
        ),
        None => Finding::warn(
            "version",
            "the server does not say",
            "use the same version on both sides",
        ),
    }
}

/// The Date header has whole seconds, and the answer was on its way: both are allowed for.
fn clocks(answer: &Answer, asked: i64, answered: i64) -> Finding {
    let Some(server) = answer.date_ms else {
        return Finding::warn(
            "clock",
            "the server's answer has no date",
            "a proxy may remove it; ask the server itself",
        );
    };
    let off = if server > answered { server - answered } else { (asked - (server + 999)).max(0) };
    let off = off.unsigned_abs();
    if off > CLOCK_WARN_MS {
        let found = format!("this machine and the server differ by {}", words::span(off));
        return Finding::warn(
            "clock",
            found,
            "run a time service (chrony, ntpd) on both; the server's clock decides",
        );
    }
    Finding::ok("clock", "this machine and the server agree")
}

fn tier(stats: &Value) -> Finding {
    let text = |name: &str| stats.pointer(&format!("/store/{name}")).and_then(Value::as_str);
    let engine = text("engine").unwrap_or("unknown");
    match text("tier") {
        Some(tier @ ("durable" | "replicated")) => {
            Finding::ok("store", format!("{engine}, {tier}"))
        }
        Some(tier) => Finding::warn(
            "store",
            format!("{engine}, {tier}: an acknowledged job can be lost in a crash"),
            "use a data directory on a disk, with syncing on",
        ),
        None => {
            Finding::warn("store", "the server does not say how safe it is", "update the server")
        }
    }
}

fn space(stats: &Value) -> Finding {
    match stats.pointer("/store/full").and_then(Value::as_bool) {
        Some(false) => Finding::ok("space", "there is room for new work"),
        Some(true) => Finding::fail(
            "space",
            "the store is full: new jobs are refused, accepted ones go on",
            "free some space on its disk; no restart is needed",
        ),
        None => Finding::warn("space", "the server does not say", "update the server"),
    }
}

fn oldest_ready(queues: &[Queue], now: i64) -> Finding {
    let oldest = queues.iter().filter_map(|queue| Some((queue.oldest_ready?, &queue.name))).min();
    let Some((at, name)) = oldest else {
        return Finding::ok("waiting", "no job waits for a worker");
    };
    let age = now.saturating_sub(at).max(0).unsigned_abs();
    if age > OLDEST_WARN_MS {
        let found = format!("the oldest ready job of queue {name} has waited {}", words::span(age));
        return Finding::warn(
            "waiting",
            found,
            format!("start a worker (hence work {name} -- COMMAND), or resume or widen the queue"),
        );
    }
    Finding::ok("waiting", format!("the oldest ready job has waited {}", words::span(age)))
}

fn handlers(queues: &[Queue]) -> Finding {
    let waiting: u64 = queues.iter().map(|queue| queue.unregistered).sum();
    if waiting == 0 {
        return Finding::ok("handlers", "no job waits for a handler that is not there");
    }
    let names: BTreeSet<&str> =
        queues.iter().flat_map(|queue| &queue.missing_handlers).map(String::as_str).collect();
    let names = names.into_iter().collect::<Vec<_>>().join(", ");
    Finding::warn(
        "handlers",
        format!(
            "{} cannot start, no such handler is registered: {names}",
            words::count(waiting, "job")
        ),
        "register it in the program that runs the jobs (`hence serve` by itself has none), or \
         cancel them and submit them for a URL or a worker",
    )
}

fn dead(queues: &[Queue]) -> Finding {
    let total: u64 = queues.iter().map(|queue| queue.counts.dead).sum();
    if total == 0 {
        return Finding::ok("dead", "no dead jobs");
    }
    let fix = "see why: hence jobs --state dead; bring them back: hence replay --state dead";
    Finding::warn("dead", format!("{} failed for good", words::count(total, "job")), fix)
}

/// The server's own check: each has a next tick or a reason why not, and none is overdue.
fn schedules(stats: &Value) -> Finding {
    let Some(found) = stats.get("schedules") else {
        return Finding::warn("schedules", "the server does not say", "update the server");
    };
    let number = |name: &str| found.get(name).and_then(Value::as_u64).unwrap_or_default();
    let failing = found.get("failing").and_then(Value::as_array);
    let failing: Vec<&str> = failing.into_iter().flatten().filter_map(Value::as_str).collect();
    if let Some(first) = failing.first() {
        return Finding::fail(
            "schedules",
            format!("overdue, or with neither a next tick nor a reason: {}", failing.join(", ")),
            format!(
                "look at it: hence schedules show {first}; is the store full, or the clock off?"
            ),
        );
    }
    let (ticking, paused, ended) = (number("ticking"), number("paused"), number("ended"));
    let found = format!("{ticking} with a next tick, {paused} paused, {ended} at their end");
    Finding::ok("schedules", found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    #[test]
    fn clocks_are_compared_within_what_can_be_known() {
        let check = |date_ms: Option<i64>, mark| {
            let answer = Answer { body: Bytes::new(), content_type: None, date_ms };
            assert_eq!(clocks(&answer, 10_500, 10_700).mark, mark, "{date_ms:?}");
        };
        check(Some(10_000), Mark::Ok); // the same second
        check(Some(12_000), Mark::Ok);
        check(Some(13_000), Mark::Warn);
        check(Some(7_000), Mark::Warn);
        check(None, Mark::Warn);
    }

    #[test]
    fn what_is_worth_a_look() {
        let queue = |json: Value| wire::read::<Queue>(json).expect("a queue");
        let calm = queue(json!({"name": "a"}));
        let stuck = queue(
            json!({"name": "b", "oldest_ready": "1970-01-01T00:00:00Z", "counts": {"dead": 2}}),
        );
        assert_eq!(oldest_ready(std::slice::from_ref(&calm), 100_000).mark, Mark::Ok);
        assert_eq!(oldest_ready(std::slice::from_ref(&stuck), 10_000).mark, Mark::Ok);
        assert_eq!(oldest_ready(std::slice::from_ref(&stuck), 100_000).mark, Mark::Warn);
        assert_eq!(handlers(std::slice::from_ref(&stuck)).mark, Mark::Ok);
        let lost = |name: &str| {
            queue(json!({"name": name, "unregistered": 2, "missing_handlers": ["nope", name]}))
        };
        let found = handlers(&[calm.clone(), lost("b"), lost("c")]).found;
        assert_eq!(found, "4 jobs cannot start, no such handler is registered: b, c, nope");
        assert_eq!(dead(&[calm, stuck]).found, "2 jobs failed for good");
        assert_eq!(versions(Some("99.0.0")).mark, Mark::Warn);
        assert_eq!(space(&json!({"store": {"full": true}})).mark, Mark::Fail);
        let of = |failing: &[&str]| json!({"schedules": {"ticking": 3, "failing": failing}});
        assert_eq!(schedules(&of(&[])).found, "3 with a next tick, 0 paused, 0 at their end");
        assert_eq!(schedules(&of(&["a", "b"])).mark, Mark::Fail);
        assert_eq!(schedules(&json!({})).mark, Mark::Warn);
        assert_eq!(
            tier(&json!({"store": {"engine": "memory", "tier": "best-effort"}})).mark,
            Mark::Warn
        );
    }
}
