//! One job at hand: the command is run, its lease is kept alive, its end is reported.

use std::io;
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::process::{Child, Command};
use tokio::sync::watch;

use super::lease::{Leased, Leases, result_body};
use super::tally::Verdict;
use super::{Stop, Work};
use crate::clock;
use crate::failure::Failure;
use crate::output::Output;
use crate::words;

/// `EX_TEMPFAIL` of sysexits: not now, try again.
const TEMPFAIL: i32 = 75;
/// A result larger than this is not kept: the server's limit.
const RESULT_BYTES_MAX: usize = 1024 * 1024;
/// The part of the last line that can become a reason.
const REASON_BYTES_MAX: usize = 1_000;

/// How long the last words of a command that has ended are waited for. What it wrote is there by
/// then; a child that it left running holds the pipes open for as long as it likes.
const LAST_WORDS_WITHIN: Duration = Duration::from_millis(100);

/// How long a job waits that was given back because the command cannot be run: until this worker
/// is gone, so that its own request for more does not take the job again.
const GONE_WITHIN: Duration = Duration::from_secs(1);

/// Why a command may not be started now and be started later.
const PASSING: [Errno; 5] = [Errno::AGAIN, Errno::NOMEM, Errno::MFILE, Errno::NFILE, Errno::TXTBSY];

/// How the command ended.
enum End {
    /// It cannot be run.
    NotStarted(Failure),
    /// It could not be started now.
    NotNow(Failure),
    /// By itself.
    Exited { code: Option<i32>, output: Captured, reason: String },
    /// Killed by us: the lease went to somebody else.
    LeaseLost,
    /// Killed by us: the worker stops.
    Stopped,
}

/// What the command wrote to stdout, when that is kept.
#[derive(Debug, Default)]
struct Captured {
    bytes: Vec<u8>,
    cut: bool,
}

/// Runs the command for this job and reports how it went. Never fails: what goes wrong here is
/// said, and the lease's end brings the job back.
pub(super) async fn handle(
    job: Leased,
    leases: &Leases,
    work: &Work,
    output: &Output,
    stopping: watch::Receiver<Stop>,
) -> Verdict {
    let name = format!("{}/{}", job.delivery.queue, job.delivery.id);
    let token = job.delivery.token.clone();
    let attempt = job.delivery.attempt;
    let started = clock::instant();
    let ended = execute(job, leases, work, output, stopping).await;
    let took = words::span((clock::instant() - started).as_millis() as u64);
    let (verdict, words, reported) = match ended {
        Ok(end) => report(end, &token, leases, work, output).await,
        Err(failure) => {
            let reported = leases.nack(&token, &failure.message).await;
            (Verdict::Failed, format!("failed: {}", failure.message), reported)
        }
    };
    output.say(format_args!("{name} attempt {attempt} {words} ({took})"));
    if let Err(failure) = reported {
        output
            .warn(format_args!("{name}: the server did not take the report: {}", failure.message));
    }
    verdict
}

async fn report(
    end: End,
    token: &str,
    leases: &Leases,
    work: &Work,
    output: &Output,
) -> (Verdict, String, Result<(), Failure>) {
    match end {
        // It is no fault of the job, and the next one would fare no better.
        End::NotStarted(failure) => {
            let reported = leases.release(token, GONE_WITHIN, &failure.message).await;
            let words = format!("given back: {}", failure.message);
            (Verdict::NotStarted(failure), words, reported)
        }
        End::NotNow(Failure { message, .. }) => {
            let reported = leases.release(token, work.retry_delay, &message).await;
            (Verdict::GivenBack, format!("given back: {message}"), reported)
        }
        End::Exited { code: Some(0), output: captured, .. } => {
            if captured.cut {
                output.warn("the output is larger than 1 MiB; it is not kept as the result");
            }
            let keep = work.keep_output && !captured.cut;
            let result = keep.then(|| result_body(captured.bytes, work.output_type.as_deref()));
            (Verdict::Done, "done".to_owned(), leases.ack(token, result).await)
        }
        End::Exited { code: Some(TEMPFAIL), reason, .. } => {
            let reported = leases.release(token, work.retry_delay, &reason).await;
            (Verdict::GivenBack, format!("given back: {reason}"), reported)
        }
        End::Exited { reason, .. } => {
            let reported = leases.nack(token, &reason).await;
            (Verdict::Failed, format!("failed: {reason}"), reported)
        }
        End::LeaseLost => (Verdict::Failed, "killed: its lease was lost".to_owned(), Ok(())),
        End::Stopped => {
            let reported = leases.release(token, Duration::ZERO, "the worker stopped").await;
            (Verdict::GivenBack, "given back: the worker stops".to_owned(), reported)
        }
    }
}

async fn execute(
    job: Leased,
    leases: &Leases,
    work: &Work,
    output: &Output,
    mut stopping: watch::Receiver<Stop>,
) -> Result<End, Failure> {
    let payload = job.delivery.payload()?;
    let mut child = match spawn(&job, work) {
        Ok(child) => child,
        Err(end) => return Ok(end),
    };
    let mut heard = Heard::default();
    let lost = hold(&job, leases, output);
    match supervise(&mut child, payload, &mut heard, lost, &mut stopping, output).await {
        Ok(status) => {
            let status = status.map_err(|error| Failure::io("waiting for the command", &error))?;
            let program = work.command.first().map(|name| name.to_string_lossy());
            let program = program.unwrap_or_default();
            let reason = heard.last.text();
            let reason = reason.unwrap_or_else(|| format!("{program} ended with {status}"));
            Ok(End::Exited { code: status.code(), output: heard.captured, reason })
        }
        Err(end) => {
            kill(&mut child).await;
            Ok(end)
        }
    }
}

fn spawn(job: &Leased, work: &Work) -> Result<Child, End> {
    let delivery = &job.delivery;
    let Some((program, arguments)) = work.command.split_first() else {
        return Err(End::NotStarted(Failure::refused("no command was given")));
    };
    let max_attempts = delivery.max_attempts.map(|max| max.to_string());
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env("HENCE_JOB_ID", &delivery.id)
        .env("HENCE_QUEUE", &delivery.queue)
        .env("HENCE_KEY", delivery.key.as_deref().unwrap_or_default())
        .env("HENCE_ATTEMPT", delivery.attempt.to_string())
        .env("HENCE_MAX_ATTEMPTS", max_attempts.unwrap_or_default())
        .env("HENCE_DUE_AT", words::rfc3339(delivery.due_at))
        // Not HENCE_TOKEN: that is the server's own token, which a `hence` run by the command
        // needs.
        .env("HENCE_LEASE_TOKEN", &delivery.token)
        .stdin(Stdio::piped())
        .stdout(if work.keep_output { Stdio::piped() } else { Stdio::inherit() })
        .stderr(Stdio::piped())
        // A group of its own: Ctrl-C at the terminal is for the worker, which lets it finish; and
        // a kill takes the command's own children along.
        .process_group(0)
        .kill_on_drop(true);
    command.spawn().map_err(|error| not_begun(&program.to_string_lossy(), &error))
}

fn not_begun(program: &str, error: &std::io::Error) -> End {
    let failure = Failure::io(format_args!("running {program}"), error);
    let passes = Errno::from_io_error(error).is_some_and(|errno| PASSING.contains(&errno));
    if passes { End::NotNow(failure) } else { End::NotStarted(failure) }
}

/// What the command said.
#[derive(Debug, Default)]
struct Heard {
    captured: Captured,
    last: LastLine,
}

/// Feeds the command and reads what it writes until it ends, or until it is to be ended.
async fn supervise(
    child: &mut Child,
    payload: Vec<u8>,
    heard: &mut Heard,
    lost: impl Future<Output = ()>,
    stopping: &mut watch::Receiver<Stop>,
    output: &Output,
) -> Result<io::Result<ExitStatus>, End> {
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let Heard { captured, last } = heard;
    let talk = async {
        tokio::join!(feed(stdin, payload), capture(stdout, captured), tee(stderr, last, output))
    };
    let (mut talk, mut lost) = (pin!(talk), pin!(lost));
    let mut talking = true;
    let status = loop {
        tokio::select! {
            // First of all, because a command that has ended by itself is neither lost nor stopped.
            biased;
            status = child.wait() => break status,
            _ = &mut talk, if talking => talking = false,
            () = &mut lost => return Err(End::LeaseLost),
            _ = stopping.wait_for(|stop| *stop == Stop::Now) => return Err(End::Stopped),
        }
    };
    if talking {
        clock::within(LAST_WORDS_WITHIN, talk).await;
    }
    Ok(status)
}

async fn feed(stdin: Option<impl AsyncWrite + Unpin>, payload: Vec<u8>) {
    if let Some(mut stdin) = stdin {
        // A command that does not read its input to the end is within its rights.
        let _ = stdin.write_all(&payload).await;
    }
}

async fn capture(stdout: Option<impl AsyncRead + Unpin>, captured: &mut Captured) {
    let Some(mut stdout) = stdout else { return };
    let mut chunk = vec![0; 16 * 1024];
    // Read to the end even when it is too much: a blocked command would never finish.
    while let Ok(read @ 1..) = stdout.read(&mut chunk).await {
        captured.cut |= captured.bytes.len() + read > RESULT_BYTES_MAX;
        if !captured.cut {
            captured.bytes.extend_from_slice(&chunk[..read]);
        }
    }
}

/// Passes stderr on and remembers its last line.
async fn tee(stderr: Option<impl AsyncRead + Unpin>, last: &mut LastLine, output: &Output) {
    let Some(mut stderr) = stderr else { return };
    let mut chunk = vec![0; 4 * 1024];
    while let Ok(read @ 1..) = stderr.read(&mut chunk).await {
        output.pass_on(&chunk[..read]);
        last.feed(&chunk[..read]);
    }
}

/// The last line that is not blank, cut to what a reason may hold.
#[derive(Debug, Default)]
struct LastLine {
    complete: Vec<u8>,
    current: Vec<u8>,
}

impl LastLine {
    fn feed(&mut self, bytes: &[u8]) {
        for byte in bytes {
            if *byte == b'\n' {
                if !self.current.trim_ascii().is_empty() {
                    std::mem::swap(&mut self.complete, &mut self.current);
                }
                self.current.clear();
            } else if self.current.len() < REASON_BYTES_MAX {
                self.current.push(*byte);
            }
        }
    }

    fn text(self) -> Option<String> {
        let line = if self.current.trim_ascii().is_empty() { self.complete } else { self.current };
        let text = String::from_utf8_lossy(line.trim_ascii()).into_owned();
        (!text.is_empty()).then_some(text)
    }
}

/// Extends the lease at half its time, again and again; ends only when it is lost.
async fn hold(job: &Leased, leases: &Leases, output: &Output) {
    let mut until = job.until;
    loop {
        let left = until.saturating_duration_since(clock::instant());
        if left.is_zero() {
            return;
        }
        // At half of the span, and then at half of what is left: a server that is back in time
        // finds the lease asked for.
        clock::sleep(left.min(leases.span()) / 2 + Duration::from_millis(1)).await;
        match leases.extend(&job.delivery.token).await {
            Ok(Some(extended)) => until = extended,
            Ok(None) => return,
            Err(failure) => output.warn(format_args!(
                "{}: lease not extended yet: {}",
                job.delivery.id, failure.message
            )),
        }
    }
}

/// Ends the command and everything it started.
async fn kill(child: &mut Child) {
    let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    if let Some(group) = group {
        // It may have ended by itself this instant; then there is nothing to kill.
        let _ = kill_process_group(group, Signal::KILL);
    }
    let _ = child.wait().await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_that_says_something() {
        let check = |chunks: &[&str], expected: Option<&str>| {
            let mut last = LastLine::default();
            for chunk in chunks {
                last.feed(chunk.as_bytes());
            }
            assert_eq!(last.text().as_deref(), expected, "{chunks:?}");
        };
        check(&[], None);
        check(&["\n \n"], None);
        check(&["one\ntwo\n"], Some("two"));
        check(&["one\n\n\n"], Some("one"));
        check(&["one\ntw", "o"], Some("two"));
        check(&[&"x".repeat(5_000)], Some(&"x".repeat(REASON_BYTES_MAX)));
    }
}
