//! The tables under `testdata/time/`, broken in every way a seed can think of: no text makes a
//! reader panic, loop, or make a promise that it does not keep.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use hence_core::time::Timestamp;
use hence_core::when::{
    Dialect, Holidays, Plan, Problem, Reading, Saying, Zone, parse_any, parse_in, parse_instant,
    parse_span, plain_instant, plain_span, preview,
};

/// Texts that are made: some seconds without optimisation.
const MUTANTS: usize = 3_000;
/// One text through every reader. A hundred times slower than measured without optimisation: it
/// is there for what does not end.
const LONGEST: Duration = Duration::from_secs(2);
/// Wednesday 2026-03-04 10:30 in New York.
const NOW: Timestamp = Timestamp::from_millis(1_772_638_200_000);
/// What is put in: signs and words on which the readers turn.
const PIECES: [&str; 40] = [
    "",
    " ",
    "  ",
    "\t",
    "\n",
    "-",
    "/",
    ":",
    ".",
    ",",
    "*",
    "#",
    "?",
    "~",
    "@",
    "+",
    "(",
    ")",
    "[",
    "]",
    "0",
    "9",
    "60",
    "99999999999",
    "L",
    "W",
    "H",
    "every",
    "at",
    "in",
    "next",
    "last",
    "am",
    "TZ=",
    "@every",
    "é",
    "ß",
    "日",
    "\u{0}",
    "\u{202e}",
];

#[test]
#[expect(clippy::disallowed_methods, reason = "it is about time that passes")]
fn no_broken_text_breaks_a_reader() {
    let texts = texts();
    let mut draw = Draw(0x9e37_79b9_7f4a_7c15);
    let (mut understood, mut refused) = (0, 0);
    for _ in 0..MUTANTS {
        let text = draw.mutant(&texts);
        let start = Instant::now();
        let is_understood = read_all(&text);
        assert!(start.elapsed() < LONGEST, "{text:?} took {:?}", start.elapsed());
        *if is_understood { &mut understood } else { &mut refused } += 1;
    }
    // Mutants that are all refused, or all understood, would test little.
    assert!(understood > MUTANTS / 10 && refused > MUTANTS / 2, "{understood} and {refused}");
}

/// Puts a text through every reader; whether one of them understood it.
fn read_all(text: &str) -> bool {
    let zone = Zone::named("America/Santiago").expect("a zone");
    let moment = parse_instant(text, NOW, &zone);
    match &moment {
        Ok(found) => {
            let again = parse_instant(&found.canonical, NOW, &zone).map(|again| again.instant);
            assert_eq!(again, Ok(found.instant), "{text:?} as {}", found.canonical);
        }
        Err(problem) => check(text, problem, |other| parse_instant(other, NOW, &zone).is_ok()),
    }
    if let Some(instant) = plain_instant(text) {
        assert!(moment.as_ref().map_or(true, |found| found.instant == instant), "{text:?}");
    }
    let span = parse_span(text);
    if let Some(plain) = plain_span(text) {
        assert_eq!(span, Ok(plain), "{text:?}");
    }
    let ahead = parse_in(text, NOW, &zone);
    if let Err(problem) = &span {
        check(text, problem, |other| parse_span(other).is_ok());
    }
    if let Err(problem) = &ahead {
        check(text, problem, |other| parse_in(other, NOW, &zone).is_ok());
    }
    let dialects = [None].into_iter().chain(Dialect::ALL.map(Some));
    let read = dialects.map(|dialect| read_rhythm(text, dialect, &zone)).filter(|read| *read);
    let is_rhythm = read.count() > 0;
    if let Err(problem) = Holidays::parse(text) {
        check(text, &problem, |_| true);
    }
    if let Err(problem) = Zone::named(text) {
        check(text, &problem, |other| Zone::named(other).is_ok());
    }
    moment.is_ok() || ahead.is_ok() || is_rhythm
}

fn read_rhythm(text: &str, dialect: Option<Dialect>, zone: &Zone) -> bool {
    let reading = Reading { now: NOW, zone, dialect, schedule: Some("a") };
    let free = Reading { dialect: None, ..reading };
    match parse_any(text, &reading) {
        Ok(Saying::Rhythm(rhythm)) => {
            let plan = Plan::new(rhythm);
            assert!(preview(&plan, NOW, 3).len() <= 63, "{text:?}");
            true
        }
        Ok(Saying::Moment(_)) => true,
        Err(problem) => {
            let reads =
                |other: &str| parse_any(other, &reading).is_ok() || parse_any(other, &free).is_ok();
            check(text, &problem, reads);
            false
        }
    }
}

/// A problem lies in its text, can be shown, and offers only what would be understood.
fn check(text: &str, problem: &Problem, reads: impl Fn(&str) -> bool) {
    assert!(text.get(problem.span.clone()).is_some(), "{text:?}: {:?}", problem.span);
    assert!(problem.render(text).contains('^'), "{text:?}");
    for candidate in &problem.candidates {
        assert!(reads(candidate), "{text:?}: the candidate {candidate:?} is refused");
    }
}

/// The tables, and the column that holds the text.
const TABLES: [(&str, usize); 4] =
    [("instants.txt", 0), ("recurrences.txt", 0), ("cron.txt", 1), ("clock_changes.txt", 1)];

fn texts() -> Vec<String> {
    let mut texts = Vec::new();
    for (name, column) in TABLES {
        let path: PathBuf =
            [env!("CARGO_MANIFEST_DIR"), "../../testdata/time", name].iter().collect();
        let table = std::fs::read_to_string(&path).expect("the table is there");
        let cases = table.lines().filter(|line| !line.is_empty() && !line.starts_with(['#', '@']));
        texts.extend(cases.filter_map(|line| line.split(" | ").nth(column)).map(str::to_owned));
    }
    assert!(texts.len() > 1_400, "{} texts", texts.len());
    texts
}

/// A small generator: the same texts in every run, on every machine.
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound.max(1) as u64) as usize
    }

    fn one_of<'a>(&mut self, texts: &'a [String]) -> &'a str {
        &texts[self.below(texts.len())]
    }

    /// One of the texts, changed once to three times.
    fn mutant(&mut self, texts: &[String]) -> String {
        let mut text = self.one_of(texts).to_owned();
        for _ in 0..=self.below(3) {
            text = self.changed(&text, texts);
        }
        text
    }

    fn changed(&mut self, text: &str, texts: &[String]) -> String {
        let letters: Vec<char> = text.chars().collect();
        let (from, length) = (self.below(letters.len() + 1), self.below(4));
        let to = (from + length).min(letters.len());
        let (head, middle, tail) = (&letters[..from], &letters[from..to], &letters[to..]);
        let join = |parts: &[&[char]]| parts.concat().into_iter().collect::<String>();
        let piece: Vec<char> = PIECES[self.below(PIECES.len())].chars().collect();
        let mut words: Vec<&str> = text.split(' ').collect();
        let (one, other) = (self.below(words.len()), self.below(words.len()));
        match self.below(7) {
            0 => join(&[head, tail]),
            1 => join(&[head, &piece, middle, tail]),
            2 => join(&[head, &piece, tail]),
            3 => join(&[head, middle, middle, tail]),
            4 => {
                words.swap(one, other);
                words.join(" ")
            }
            5 => {
                words.insert(one, words[other]);
                words.join(" ")
            }
            // The beginning of one and the end of another.
            _ => {
                let end: Vec<char> = self.one_of(texts).chars().collect();
                let cut = self.below(end.len());
                join(&[head, &[' '], &end[cut..]])
            }
        }
    }
}
