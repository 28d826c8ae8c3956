//! A text as words, numbers and signs, and a cursor over them that can go back.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use jiff::tz::Offset;

use super::Parsed;
use super::vocabulary;
use crate::when::plain::is_offset;
use crate::when::problem::{Problem, nearest};
use crate::when::zone::{Zone, is_abbreviation, parse_offset};

/// What a token is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Word,
    /// Digits.
    Number,
    /// Digits, a point, digits.
    Decimal,
    /// One of the signs that times are written with.
    Sign,
}

/// A piece of the text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    /// In lower case.
    pub(crate) text: String,
    pub(crate) span: Range<usize>,
}

/// A place in a text.
#[derive(Clone, Debug)]
pub(crate) struct Cursor<'t> {
    pub(crate) text: &'t str,
    tokens: Vec<Token>,
    at: usize,
    /// The furthest place that was understood: a problem is most likely there.
    furthest: usize,
    view: View,
}

/// Where a moment may lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum View {
    /// Ahead, unless it is said with its year.
    Ahead,
    /// In the past too, when it is said so that it cannot lie ahead.
    Both,
}

impl<'t> Cursor<'t> {
    pub(crate) fn new(text: &'t str) -> Result<Self, Problem> {
        Cursor::with_view(text, View::Ahead)
    }

    /// The same, for a moment that may lie there.
    pub(crate) fn with_view(text: &'t str, view: View) -> Result<Self, Problem> {
        Ok(Cursor { text, tokens: tokens(text)?, at: 0, furthest: 0, view })
    }

    /// Whether what is past is a moment as good as any other.
    pub(crate) fn sees_past(&self) -> bool {
        self.view == View::Both
    }

    /// Where it stands; `back_to` returns there.
    pub(crate) fn mark(&self) -> usize {
        self.at
    }

    pub(crate) fn back_to(&mut self, mark: usize) {
        self.at = mark;
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.at >= self.tokens.len()
    }

    pub(crate) fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    /// The text of the word here, if it is one.
    pub(crate) fn peek_word(&self) -> Option<&str> {
        self.peek().filter(|token| token.kind == Kind::Word).map(|token| token.text.as_str())
    }

    pub(crate) fn step(&mut self) -> Option<Token> {
        let token = self.tokens.get(self.at)?.clone();
        self.at += 1;
        self.furthest = self.furthest.max(self.at);
        Some(token)
    }

    /// Takes the word here if it is one of these.
    pub(crate) fn word(&mut self, wanted: &[&str]) -> Option<String> {
        let found = self.peek_word().filter(|word| wanted.contains(word))?;
        let found = String::from(found);
        self.step();
        Some(found)
    }

    /// Takes these words, all of them or none.
    pub(crate) fn words(&mut self, wanted: &str) -> bool {
        let mark = self.mark();
        for word in wanted.split(' ') {
            if self.word(&[word]).is_none() {
                self.back_to(mark);
                return false;
            }
        }
        true
    }

    /// Takes the word here if the function knows it.
    pub(crate) fn known<T>(&mut self, know: impl Fn(&str) -> Option<T>) -> Option<T> {
        let found = know(self.peek_word()?)?;
        self.step();
        Some(found)
    }

    pub(crate) fn sign(&mut self, wanted: &str) -> bool {
        let is_here =
            self.peek().is_some_and(|token| token.kind == Kind::Sign && token.text == wanted);
        if is_here {
            self.step();
        }
        is_here
    }

    /// Takes the digits here: their number, and how many there are.
    pub(crate) fn number(&mut self) -> Option<(u32, usize)> {
        let token = self.peek().filter(|token| token.kind == Kind::Number)?;
        let found = (token.text.parse().ok()?, token.text.len());
        self.step();
        Some(found)
    }

    /// Whether the token here touches the one before it.
    pub(crate) fn is_glued(&self) -> bool {
        let before = self.at.checked_sub(1).and_then(|at| self.tokens.get(at));
        match (before, self.peek()) {
            (Some(before), Some(here)) => before.span.end == here.span.start,
            _ => false,
        }
    }

    /// The bytes from a mark to here.
    pub(crate) fn span_from(&self, mark: usize) -> Range<usize> {
        let start = self.tokens.get(mark).map_or(self.text.len(), |token| token.span.start);
        let last = self.at.checked_sub(1).and_then(|at| self.tokens.get(at));
        start..last.map_or(start, |token| token.span.end).max(start)
    }

    /// The text with these bytes exchanged: a candidate.
    pub(crate) fn with(&self, span: &Range<usize>, other: &str) -> String {
        format!("{}{other}{}", &self.text[..span.start], &self.text[span.end..])
    }

    /// The whole text was not understood: the place is where understanding ended.
    pub(crate) fn not_understood(&self) -> Problem {
        let Some(token) = self.tokens.get(self.furthest) else {
            let end = self.text.trim_end().len();
            return Problem::new(end..end, "something is missing at the end");
        };
        let known = vocabulary::all_words();
        let near: Vec<String> = nearest(&token.text, known, 2)
            .into_iter()
            .filter(|word| *word != token.text)
            .map(|word| self.with(&token.span, &word))
            .collect();
        let shown = &self.text[token.span.clone()];
        Problem::new(token.span.clone(), format!("{shown:?} is not understood here")).or(near)
    }
}

fn tokens(text: &str) -> Result<Vec<Token>, Problem> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        if byte.is_ascii_whitespace() {
            at += 1;
            continue;
        }
        let (kind, length) = match byte {
            b'0'..=b'9' => number_at(bytes, at),
            b'a'..=b'z' | b'A'..=b'Z' => (Kind::Word, word_at(&bytes[at..])),
            b':' | b',' | b'/' | b'-' | b'.' | b'(' | b')' | b'+' | b'&' => (Kind::Sign, 1),
            _ => {
                let character = text[at..].chars().next().map_or(1, char::len_utf8);
                let shown = &text[at..at + character];
                let message = format!("{shown:?} is not part of a time");
                return Err(Problem::new(at..at + character, message));
            }
        };
        let span = at..at + length;
        found.push(Token { kind, text: text[span.clone()].to_lowercase(), span });
        at += length;
    }
    Ok(found)
}

fn number_at(bytes: &[u8], at: usize) -> (Kind, usize) {
    let digits =
        |from: usize| bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let point = |at: usize| bytes.get(at) == Some(&b'.');
    let whole = digits(at);
    let after_point = at.checked_sub(1).is_some_and(point);
    if point(at + whole) && !after_point {
        let fraction = digits(at + whole + 1);
        // A second point makes it a date: 24.12.2026.
        if fraction > 0 && !point(at + whole + 1 + fraction) {
            return (Kind::Decimal, whole + 1 + fraction);
        }
    }
    (Kind::Number, whole)
}

/// Letters and apostrophes; the name of a zone goes on over slashes, digits and signs.
fn word_at(bytes: &[u8]) -> usize {
    let is_letter = |byte: &u8| byte.is_ascii_alphabetic() || matches!(byte, b'\'' | b'_');
    let letters = bytes.iter().take_while(|byte| is_letter(byte)).count();
    if bytes.get(letters) == Some(&b'/')
        && bytes.get(letters + 1).is_some_and(u8::is_ascii_alphabetic)
    {
        let in_zone = |byte: &u8| is_letter(byte) || b"0123456789/+-".contains(byte);
        return bytes.iter().take_while(|byte| in_zone(byte)).count();
    }
    letters
}

/// `Europe/Paris`, `UTC`, `+02:00`, `Europe/Paris (+01:00)`; the offset tells the two sides of a
/// fold apart.
pub(crate) fn parse_zone(cursor: &mut Cursor<'_>) -> Parsed<(Zone, Option<Offset>)> {
    let mark = cursor.mark();
    cursor.word(&["in"]);
    if let Some(word) = cursor.peek_word() {
        let is_zone = word.contains('/') || ["utc", "gmt", "z"].contains(&word);
        if is_zone || is_abbreviation(word) {
            let span = cursor.step().map_or(0..0, |token| token.span);
            let name = &cursor.text[span.clone()];
            let zone = Zone::named(name).map_err(|problem| {
                let candidates: Vec<String> =
                    problem.candidates.iter().map(|zone| cursor.with(&span, zone)).collect();
                Problem::new(span.clone(), problem.message).or(candidates)
            })?;
            cursor.word(&["time"]);
            let offset = parse_bracketed_offset(cursor);
            return Ok(Some((zone, offset)));
        }
    }
    if let Some(offset) = parse_bare_offset(cursor)
        && let Ok(zone) = Zone::named(&crate::when::zone::show_offset(offset))
    {
        // "+02:00 (+02:00)" is how a time in such a zone is said back.
        parse_bracketed_offset(cursor);
        return Ok(Some((zone, Some(offset))));
    }
    cursor.back_to(mark);
    Ok(None)
}

fn parse_bracketed_offset(cursor: &mut Cursor<'_>) -> Option<Offset> {
    let mark = cursor.mark();
    if cursor.sign("(")
        && let Some(offset) = parse_bare_offset(cursor)
        && cursor.sign(")")
    {
        return Some(offset);
    }
    cursor.back_to(mark);
    None
}

fn parse_bare_offset(cursor: &mut Cursor<'_>) -> Option<Offset> {
    let mark = cursor.mark();
    if !cursor.sign("+") && !cursor.sign("-") {
        return None;
    }
    while cursor.is_glued() && (cursor.number().is_some() || cursor.sign(":")) {}
    let span = cursor.span_from(mark);
    // Seconds are for dates of history, not for words: what they come to could not be read again.
    let is_sayable = |offset: &Offset| offset.seconds() % 60 == 0 && is_offset(*offset);
    let offset = parse_offset(&cursor.text[span]).filter(is_sayable);
    if offset.is_none() {
        cursor.back_to(mark);
    }
    offset
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_falls_apart_where_it_should() {
        let rows: [(&str, &[&str]); 6] = [
            ("7pm Tomorrow", &["7", "pm", "tomorrow"]),
            ("1h30m", &["1", "h", "30", "m"]),
            ("1.5 hours", &["1.5", "hours"]),
            ("24.12.2026", &["24", ".", "12", ".", "2026"]),
            ("at 08:15 America/Port-au-Prince", &["at", "08", ":", "15", "america/port-au-prince"]),
            ("9 o'clock, 1st", &["9", "o'clock", ",", "1", "st"]),
        ];
        for (text, expected) in rows {
            let found: Vec<String> =
                tokens(text).unwrap().into_iter().map(|token| token.text).collect();
            assert_eq!(found, expected, "{text}");
        }
        assert_eq!(tokens("at é").unwrap_err().span, 3..5);
    }
}
