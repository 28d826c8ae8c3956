//! Logs: human on a terminal, JSON lines otherwise, on stderr. Events carry ids, never payloads or
//! secrets; control characters in them are escaped, so that nobody can forge a line.

use std::io::{self, IsTerminal, Write};
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::config::{Config, LogFormat};

/// Lines that may wait for a slow terminal or pipe before whoever logs must wait for it.
const LINES_MAX: usize = 16_384;
/// Bytes gathered for one write.
const WRITE_BYTES: usize = 64 * 1024;
/// How long the end of the process waits for what is still to be written: a pipe that nobody reads
/// must not keep a server that has to end.
const END_WITHIN: Duration = Duration::from_secs(2);

/// Writes what is still waiting when it is ended or dropped.
#[must_use = "dropping it ends the log"]
pub struct Telemetry {
    lines: Waiting,
    /// Closed by the thread that writes, when it has written everything.
    written: Mutex<Receiver<()>>,
}

/// Where lines wait to be written; none when the log has ended.
type Waiting = Arc<Mutex<Option<SyncSender<Vec<u8>>>>>;

/// The log could not be set up: another one is in place.
#[derive(Debug, thiserror::Error)]
#[error("cannot set up the log: {0}")]
pub struct TelemetryError(String);

/// Sets up the log of this process.
pub fn init(config: &Config) -> Result<Telemetry, TelemetryError> {
    let filter = EnvFilter::builder()
        .parse(&config.log)
        .map_err(|error| TelemetryError(error.to_string()))?;
    let terminal = io::stderr().is_terminal();
    let human = match config.log_format {
        LogFormat::Auto => terminal,
        LogFormat::Human => true,
        LogFormat::Json => false,
    };
    let telemetry =
        Telemetry::to(io::stderr()).map_err(|error| TelemetryError(error.to_string()))?;
    let writer = Lines { lines: Arc::clone(&telemetry.lines), escapes: human };
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer);
    let installed = if human {
        builder.with_ansi(terminal).try_init()
    } else {
        builder.json().flatten_event(true).with_current_span(false).with_span_list(false).try_init()
    };
    installed.map_err(|error| TelemetryError(error.to_string()))?;
    Ok(telemetry)
}

impl Telemetry {
    fn to(out: impl Write + Send + 'static) -> io::Result<Self> {
        let (lines, inbox) = sync_channel(LINES_MAX);
        let (done, written) = channel();
        std::thread::Builder::new().name("hence-log".to_owned()).spawn(move || {
            write_lines(&inbox, out);
            drop(done);
        })?;
        Ok(Telemetry { lines: Arc::new(Mutex::new(Some(lines))), written: Mutex::new(written) })
    }

    /// Writes what is still waiting; later lines are written at once. For whoever is about to end
    /// the process.
    pub fn end(&self) {
        // Without a sender the thread ends, after it has written everything.
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).take();
        let written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        // Nothing is ever sent: it is closed, or it takes too long.
        let _ = written.recv_timeout(END_WITHIN);
    }
}

impl Drop for Telemetry {
    fn drop(&mut self) {
        self.end();
    }
}

/// Gathers what is there and writes it at once: a busy server logs many lines, and a system call
/// for each would be paid by the jobs.
fn write_lines(inbox: &Receiver<Vec<u8>>, mut out: impl Write) {
    while let Ok(mut block) = inbox.recv() {
        while block.len() < WRITE_BYTES {
            match inbox.try_recv() {
                Ok(line) => block.extend(line),
                Err(_) => break,
            }
        }
        // There is nobody left to tell when stderr is gone.
        drop(out.write_all(&block));
    }
}

/// Hands lines to the thread that writes them.
#[derive(Clone)]
struct Lines {
    lines: Waiting,
    escapes: bool,
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Lines;

    fn make_writer(&'a self) -> Lines {
        self.clone()
    }
}

impl Write for Lines {
    /// Called once for each event, with the whole line.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let length = line.len();
        let line = if self.escapes { escape(line) } else { line.to_owned() };
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match lines {
            // A full channel makes whoever logs wait: slower is better than lost. The other end is
            // gone only when the process is.
            Some(lines) => drop(lines.send(line)),
            None => io::stderr().write_all(&line)?,
        }
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The line with its control characters made visible. Colours are left: the formatter makes them,
/// and escapes those that come from elsewhere.
fn escape(line: &[u8]) -> Vec<u8> {
    const ESCAPE: char = '\u{1b}';
    let text = String::from_utf8_lossy(line);
    let body = text.strip_suffix('\n').unwrap_or(&text);
    let mut safe = String::with_capacity(line.len() + 1);
    for c in body.chars() {
        if c.is_control() && c != ESCAPE && c != '\t' {
            safe.extend(c.escape_default());
        } else {
            safe.push(c);
        }
    }
    safe.push('\n');
    safe.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_stays_a_line() {
        let rows = [
            ("plain\n", "plain\n"),
            ("forged\nERROR line\r\n", "forged\\nERROR line\\r\n"),
            ("bell\u{7} c1\u{9b}2J\n", "bell\\u{7} c1\\u{9b}2J\n"),
            ("tab\there Zoë\n", "tab\there Zoë\n"),
        ];
        for (given, expected) in rows {
            assert_eq!(String::from_utf8(escape(given.as_bytes())).unwrap(), expected);
        }
    }

    #[test]
    fn everything_is_written_in_order_before_the_end() {
        let (lines, inbox) = sync_channel(LINES_MAX);
        let expected: Vec<String> = (0..1_000).map(|n| format!("{n}\n")).collect();
        for line in &expected {
            lines.send(line.clone().into_bytes()).unwrap();
        }
        drop(lines);
        let mut out = Vec::new();
        write_lines(&inbox, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), expected.concat());
    }

    /// Writes a byte at a time, so that the end has something to wait for.
    #[derive(Clone, Default)]
    struct Slow(Arc<Mutex<Vec<u8>>>);

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            std::thread::yield_now();
            self.0.lock().unwrap().extend(bytes.first());
            Ok(bytes.len().min(1))
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A process that ended with 74 once lost the line that said why.
    #[test]
    fn the_last_line_is_written_when_the_end_returns() {
        let out = Slow::default();
        let telemetry = Telemetry::to(out.clone()).unwrap();
        let mut lines = Lines { lines: Arc::clone(&telemetry.lines), escapes: false };
        let expected: Vec<String> = (0..1_000).map(|n| format!("line {n}\n")).collect();
        for line in &expected {
            lines.write_all(line.as_bytes()).unwrap();
        }
        telemetry.end();
        assert_eq!(String::from_utf8(out.0.lock().unwrap().clone()).unwrap(), expected.concat());
        telemetry.end();
    }

    #[test]
    fn json_lines_escape_what_people_send() {
        let (lines, inbox) = sync_channel(LINES_MAX);
        let writer = Lines { lines: Arc::new(Mutex::new(Some(lines))), escapes: false };
        let subscriber =
            tracing_subscriber::fmt().json().flatten_event(true).with_writer(writer).finish();
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!(job = %"a\nb\u{1b}[31m", "scheduled");
        });
        let line = String::from_utf8(inbox.recv().unwrap()).unwrap();
        assert_eq!(line.matches('\n').count(), 1, "{line}");
        let event: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(event["message"], "scheduled");
        assert_eq!(event["level"], "INFO");
    }
}
