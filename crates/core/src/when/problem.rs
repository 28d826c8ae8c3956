//! Why a text was not understood: where, why, and what could have been meant.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

use super::limits::{CANDIDATES_MAX, TEXT_BYTES_MAX};

/// A refusal to guess. Nothing was understood, even if a part of the text could have been.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// The bytes of the text that it is about; empty at the end when something is missing.
    pub span: Range<usize>,
    /// What is wrong, in a sentence without a full stop.
    pub message: String,
    /// What could have been meant: texts that would be understood, the likeliest first.
    pub candidates: Vec<String>,
    /// Whether the text was understood, and means a time at which nothing may be due.
    pub is_out_of_range: bool,
}

impl Problem {
    /// A problem with these bytes of the text.
    pub fn new(span: Range<usize>, message: impl Into<String>) -> Self {
        let (message, candidates) = (message.into(), Vec::new());
        Problem { span, message, candidates, is_out_of_range: false }
    }

    /// These bytes mean a time at which nothing may be due.
    pub(crate) fn out_of_range(span: Range<usize>, message: impl Into<String>) -> Self {
        Problem { is_out_of_range: true, ..Problem::new(span, message) }
    }

    /// The same problem, with what could have been meant.
    #[must_use]
    pub fn or<I>(mut self, candidates: I) -> Self
    where
        I: IntoIterator,
        I::Item: ToString,
    {
        let room = CANDIDATES_MAX.saturating_sub(self.candidates.len());
        self.candidates.extend(candidates.into_iter().take(room).map(|text| text.to_string()));
        self
    }

    /// The same problem in a text of which the one looked at was a part.
    #[must_use]
    pub(crate) fn shifted(mut self, bytes: usize) -> Self {
        self.span = self.span.start + bytes..self.span.end + bytes;
        self
    }

    /// For a terminal: the text, a caret under the place, the message, the candidates.
    ///
    /// ```
    /// use hence_core::when::Problem;
    /// let problem = Problem::new(9..15, "banana is not a time").or(["tomorrow"]);
    /// assert_eq!(
    ///     problem.render("tomorrow banana"),
    ///     "  tomorrow banana\n           ^^^^^^ banana is not a time\n  try: tomorrow\n"
    /// );
    /// ```
    pub fn render(&self, text: &str) -> String {
        // A line break in the text would part it from its caret.
        let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let width = |range: Range<usize>| text.get(range).map_or(0, |part| part.chars().count());
        let start = self.span.start.min(text.len());
        let end = self.span.end.clamp(start, text.len());
        let indent = " ".repeat(width(0..start));
        let carets = "^".repeat(width(start..end).max(1));
        let mut shown = format!("  {text}\n  {indent}{carets} {}\n", self.message);
        if !self.candidates.is_empty() {
            shown.push_str("  try: ");
            shown.push_str(&self.candidates.join(" | "));
            shown.push('\n');
        }
        shown
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if !self.candidates.is_empty() {
            write!(f, "; try: {}", self.candidates.join(" | "))?;
        }
        Ok(())
    }
}

impl core::error::Error for Problem {}

/// Whether a text is short enough to say a time.
pub(crate) fn check_length(text: &str) -> Result<(), Problem> {
    if text.len() <= TEXT_BYTES_MAX {
        return Ok(());
    }
    Err(Problem::new(0..text.len(), format!("longer than {TEXT_BYTES_MAX} bytes")))
}

/// Whether what is shown for a text, and kept, is short enough to be read back.
pub(crate) fn check_shown(shown: &str, text: &str) -> Result<(), Problem> {
    let bytes = shown.len();
    if bytes <= TEXT_BYTES_MAX {
        return Ok(());
    }
    let message = format!(
        "written out in full this has {bytes} bytes, more than {TEXT_BYTES_MAX}: say it in fewer \
         parts, or as several rhythms"
    );
    Err(Problem::new(0..text.len(), message))
}

/// The known words nearest to a mistyped one, if any is near.
pub(crate) fn nearest<'a>(
    word: &str,
    known: impl Iterator<Item = &'a str>,
    count: usize,
) -> Vec<String> {
    let lower = word.to_lowercase();
    // A third of the letters may be wrong; in a short word only one.
    let allowed = (lower.chars().count() / 3).clamp(1, 3);
    let mut found: Vec<(usize, &str)> = known
        .filter(|name| name.len().abs_diff(lower.len()) <= allowed)
        .map(|name| (distance(&lower, &name.to_lowercase()), name))
        .filter(|(distance, _)| *distance <= allowed)
        .collect();
    found.sort_unstable();
    found.dedup();
    let best = found.first().map_or(0, |(distance, _)| *distance);
    found.retain(|(distance, _)| *distance == best);
    found.into_iter().take(count).map(|(_, name)| name.to_string()).collect()
}

/// How many letters must be put in, taken out, changed, or swapped with their neighbour.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows: [Vec<usize>; 3] =
        [Vec::new(), (0..=b.len()).collect(), alloc::vec![0; b.len() + 1]];
    for i in 1..=a.len() {
        rows[2] = alloc::vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let change = usize::from(a[i - 1] != b[j - 1]);
            let mut best = (rows[1][j] + 1).min(rows[2][j - 1] + 1).min(rows[1][j - 1] + change);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[0][j - 2] + 1);
            }
            rows[2][j] = best;
        }
        rows.rotate_left(1);
    }
    rows[1][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_words_are_found_and_far_ones_are_not() {
        let known = ["tomorrow", "today", "monday", "month", "noon"];
        let rows: [(&str, &[&str]); 6] = [
            ("tommorow", &["tomorrow"]),
            ("tomorow", &["tomorrow"]),
            ("modnay", &["monday"]),
            ("nono", &["noon"]),
            ("banana", &[]),
            ("", &[]),
        ];
        for (word, expected) in rows {
            assert_eq!(nearest(word, known.into_iter(), 2), expected, "{word}");
        }
    }

    #[test]
    fn a_caret_stays_under_its_place_whatever_the_text() {
        let rows = [
            ("é 7", 3..4, "  é 7\n    ^ x\n"),
            ("a\nb", 2..3, "  a b\n    ^ x\n"),
            ("", 0..0, "  \n  ^ x\n"),
            ("ab", 7..9, "  ab\n    ^ x\n"),
        ];
        for (text, span, expected) in rows {
            assert_eq!(Problem::new(span, "x").render(text), expected);
        }
    }
}
