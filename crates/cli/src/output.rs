//! The only file that prints. Data goes to stdout, talk goes to stderr; with `--json` data is JSON,
//! one document a line. Colours are for terminals, and `NO_COLOR` is honoured.

use std::fmt::Display;
use std::io::{self, BufRead, IsTerminal, Write};
use std::time::Duration;

use comfy_table::{CellAlignment, Table, presets};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};

use crate::args::{Colour, Global};
use crate::failure::{Exit, Failure};

/// Where a command's words go.
#[derive(Debug, Clone)]
pub(crate) struct Output {
    json: bool,
    quiet: bool,
    colour_out: bool,
    colour_err: bool,
}

/// What a piece of text means; the colour follows from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    Good,
    Warning,
    Bad,
    Strong,
    Faint,
}

impl Tone {
    const fn code(self) -> &'static str {
        match self {
            Tone::Good => "32",
            Tone::Warning => "33",
            Tone::Bad => "31",
            Tone::Strong => "1",
            Tone::Faint => "2",
        }
    }
}

#[expect(
    clippy::unused_self,
    reason = "printing needs an Output, even where its settings do not matter"
)]
impl Output {
    pub(crate) fn new(global: &Global) -> Self {
        // https://no-color.org: present and not empty means no colour.
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let colour = |terminal: bool| match global.color {
            Colour::Always => true,
            Colour::Never => false,
            Colour::Auto => wanted && terminal,
        };
        Output {
            json: global.json,
            quiet: global.quiet,
            colour_out: colour(io::stdout().is_terminal()),
            colour_err: colour(io::stderr().is_terminal()),
        }
    }

    /// Whether data is to be JSON.
    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// Whether a person watches stdout, so that it may be redrawn in place.
    pub(crate) fn is_live(&self) -> bool {
        !self.json && io::stdout().is_terminal()
    }

    /// One line of data.
    pub(crate) fn line(&self, text: impl Display) -> Result<(), Failure> {
        self.raw(format!("{text}\n").as_bytes())
    }

    /// Data as it is.
    pub(crate) fn raw(&self, bytes: &[u8]) -> Result<(), Failure> {
        let mut stdout = io::stdout().lock();
        let written = stdout.write_all(bytes).and_then(|()| stdout.flush());
        written.map_err(|error| write_failure("writing to stdout", &error))
    }

    /// Where a stream of data goes that is too large to be held; what goes wrong with it is a
    /// [`write_failure`].
    pub(crate) fn data_writer(&self) -> impl Write + use<> {
        io::stdout()
    }

    /// One JSON document on one line.
    pub(crate) fn json(&self, value: &Value) -> Result<(), Failure> {
        self.line(value)
    }

    /// Rows under headings, without rules: easy to read, easy to cut.
    pub(crate) fn table(&self, columns: &[Column], rows: Vec<Vec<String>>) -> Result<(), Failure> {
        table_lines(columns, rows).iter().try_for_each(|line| self.line(line))
    }

    /// Names and values below each other, the values in one column.
    pub(crate) fn fields(&self, fields: &[(&str, String)]) -> Result<(), Failure> {
        let width = fields.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
        for (name, value) in fields {
            let name = self.paint(Tone::Faint, &format!("{name:width$}"));
            self.line(format!("{name}  {value}").trim_end())?;
        }
        Ok(())
    }

    /// Clears the terminal and shows these lines at its top.
    pub(crate) fn redraw(&self, lines: &[String]) -> Result<(), Failure> {
        self.raw(format!("\x1b[H\x1b[2J{}\n", lines.join("\n")).as_bytes())
    }

    /// Text for stdout in a tone, when colours are on.
    pub(crate) fn paint(&self, tone: Tone, text: &str) -> String {
        painted(self.colour_out, tone, text)
    }

    /// Talk: for the person, never for the pipe. A closed stderr is nobody's failure.
    pub(crate) fn say(&self, text: impl Display) {
        if !self.quiet {
            let _ = writeln!(io::stderr().lock(), "{text}");
        }
    }

    /// What a child process said on its stderr, as it came.
    pub(crate) fn pass_on(&self, bytes: &[u8]) {
        let _ = io::stderr().lock().write_all(bytes);
    }

    /// Talk that `--quiet` does not silence.
    pub(crate) fn warn(&self, text: impl Display) {
        let label = painted(self.colour_err, Tone::Warning, "warning:");
        let _ = writeln!(io::stderr().lock(), "{label} {text}");
    }

    /// Why one of many lines of a file was refused: for programs a document, as a failure is.
    pub(crate) fn refused_line(&self, line: u64, why: &str) {
        if !self.json {
            return self.warn(format_args!("line {line}: {why}"));
        }
        let _ = writeln!(io::stderr().lock(), "{}", json!({"line": line, "error": why}));
    }

    /// Why the command failed, and what would help.
    pub(crate) fn failure(&self, failure: &Failure) {
        if failure.exit == Exit::Quiet {
            return;
        }
        let text = if self.json {
            failure_json(failure).to_string()
        } else {
            failure_text(failure, self.colour_err)
        };
        let _ = writeln!(io::stderr().lock(), "{text}");
    }

    /// A bar for long work; drawn on stderr, and only on a terminal.
    pub(crate) fn progress(&self, total: Option<u64>, what: &str) -> ProgressBar {
        if self.quiet || self.json || !io::stderr().is_terminal() {
            return ProgressBar::hidden();
        }
        let (bar, template) = match total {
            Some(total) => (
                ProgressBar::new(total),
                "{msg} {bar:30} {human_pos}/{human_len} ({per_sec}, {eta})",
            ),
            None => (ProgressBar::no_length(), "{msg} {spinner} {human_pos} ({per_sec})"),
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_message(what.to_owned());
        bar.enable_steady_tick(Duration::from_millis(200));
        bar
    }

    /// Asks a yes-or-no question. Without a terminal there is nobody to ask: the caller is told to
    /// use `--yes`.
    pub(crate) fn confirm(&self, question: &str) -> Result<bool, Failure> {
        if !io::stdin().is_terminal() {
            return Err(Failure::refused(
                "this needs a confirmation, and there is no terminal to ask on",
            )
            .fix("repeat it with --yes"));
        }
        let mut stderr = io::stderr().lock();
        let _ = write!(stderr, "{question} [y/N] ").and_then(|()| stderr.flush());
        let mut answer = String::new();
        let read = io::stdin().lock().read_line(&mut answer);
        read.map_err(|error| Failure::io("reading the answer", &error))?;
        Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
    }
}

/// Why data could not be written. `hence jobs | head` is not a failure.
pub(crate) fn write_failure(what: &str, error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::new(Exit::Quiet, ""),
        _ => Failure::io(what, error),
    }
}

/// A heading, and whether its column holds numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    heading: &'static str,
    numeric: bool,
}

impl Column {
    pub(crate) const fn text(heading: &'static str) -> Self {
        Column { heading, numeric: false }
    }

    pub(crate) const fn number(heading: &'static str) -> Self {
        Column { heading, numeric: true }
    }
}

/// The lines of a table.
pub(crate) fn table_lines(columns: &[Column], rows: Vec<Vec<String>>) -> Vec<String> {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(columns.iter().map(|column| column.heading));
    for (index, column) in columns.iter().enumerate() {
        if let Some(shown) = table.column_mut(index) {
            shown.set_padding((0, 2));
            if column.numeric {
                shown.set_cell_alignment(CellAlignment::Right);
            }
        }
    }
    table.add_rows(rows);
    table.lines().map(|line| line.trim_end().to_owned()).collect()
}

fn painted(on: bool, tone: Tone, text: &str) -> String {
    if on { format!("\x1b[{}m{text}\x1b[0m", tone.code()) } else { text.to_owned() }
}

fn failure_text(failure: &Failure, colour: bool) -> String {
    use std::fmt::Write as _;
    let label = painted(colour, Tone::Bad, "error:");
    if let Some(unread) = &failure.unread {
        let shown = unread.problem.render(&unread.text);
        let mut text = format!("{label} {} is not understood\n{}", unread.what, shown.trim_end());
        // What could have been meant is the fix, when it is known.
        if let (true, Some(fix)) = (unread.problem.candidates.is_empty(), &failure.fix) {
            let _ = write!(text, "\n{} {fix}", painted(colour, Tone::Good, "fix:"));
        }
        return text;
    }
    let mut text = format!("{label} {}", failure.message);
    if let Some(field) = &failure.field {
        let _ = write!(text, " (field {field})");
    }
    if let Some(fix) = &failure.fix {
        let _ = write!(text, "\n{} {fix}", painted(colour, Tone::Good, "fix:"));
    }
    text
}

fn failure_json(failure: &Failure) -> Value {
    json!({
        "error": failure.message,
        "field": failure.field,
        "fix": failure.fix,
        "candidates": failure.unread.as_ref().map(|unread| &unread.problem.candidates),
        "exit_code": failure.exit.code(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use hence_core::when::Problem;

    #[test]
    fn a_failure_names_field_and_fix() {
        let mut failure = Failure::refused("in must be a span of time");
        assert_eq!(failure_text(&failure, false), "error: in must be a span of time");
        failure.field = Some("in".to_owned());
        let failure = failure.fix("write 5s or 1h30m");
        assert_eq!(
            failure_text(&failure, false),
            "error: in must be a span of time (field in)\nfix: write 5s or 1h30m"
        );
        assert!(failure_text(&failure, true).starts_with("\x1b[31merror:\x1b[0m "));
        assert_eq!(failure_json(&failure)["exit_code"], 1);
    }

    #[test]
    fn what_was_not_understood_is_shown_with_its_place() {
        let problem =
            Problem::new(4..11, "\"tomorow\" is not understood here").or(["7pm tomorrow"]);
        let failure = Failure::not_understood(Exit::Refused, "at", "7pm tomorow", problem);
        assert_eq!(
            failure_text(&failure, false),
            "error: at is not understood\n  7pm tomorow\n      ^^^^^^^ \"tomorow\" is not \
             understood here\n  try: 7pm tomorrow"
        );
        let shown = failure_json(&failure);
        assert_eq!(shown["error"], "at is not understood: \"tomorow\" is not understood here");
        assert_eq!(shown["candidates"], json!(["7pm tomorrow"]));
    }
}
