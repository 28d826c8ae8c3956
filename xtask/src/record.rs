//! The track record: what was run, how much of it, and what it found. Kept as data, one line each,
//! and made into a page by `cargo xtask docs`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

/// Where the data are.
const DATA: &str = "testdata/track-record.txt";

/// Where the page is.
pub(crate) const PAGE: &str = "docs/track-record.md";

/// What the page says above its tables.
const ABOVE: &str = "\
# Track record

What was run so far, and what it found. Made by `cargo xtask docs` from `testdata/track-record.txt`;
whoever runs a lot of something adds a line there. A run counts with everything that failed in it;
what failed is explained below, or was the fault of the simulator itself.

";

/// Everything that was run, by kind, and everything that was found.
#[derive(Default)]
struct Record<'a> {
    runs: Vec<[&'a str; 6]>,
    bugs: Vec<[&'a str; 4]>,
}

/// The page.
pub(crate) fn page(root: &Path) -> Result<String> {
    let text = fs::read_to_string(root.join(DATA)).with_context(|| format!("reading {DATA}"))?;
    Ok(Record::read(&text)?.page())
}

impl<'a> Record<'a> {
    fn read(text: &'a str) -> Result<Self> {
        let mut record = Record::default();
        for (at, line) in text.lines().enumerate() {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let fields: Vec<&str> = line.split('|').map(str::trim).collect();
            match fields[..] {
                ["run", what, when, commit, count, failed, note]
                    if count.parse::<u64>().is_ok() =>
                {
                    record.runs.push([what, when, commit, count, failed, note]);
                }
                ["bug", what, found_by, seed, fix] => record.bugs.push([what, found_by, seed, fix]),
                _ => bail!("{DATA}:{}: neither a run nor a bug: {line}", at + 1),
            }
        }
        Ok(record)
    }

    fn page(&self) -> String {
        let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
        for [what, _, _, count, ..] in &self.runs {
            *sums.entry(what).or_default() += count.parse::<u64>().unwrap_or_default();
        }
        let mut text = ABOVE.to_owned();
        text.push_str("| what | so far |\n|---|---|\n");
        for (what, sum) in sums {
            let _ = writeln!(text, "| {what} | {} |", grouped(sum));
        }
        text.push_str("\n## Runs\n\n| what | when | commit | how many | failed | note |\n");
        text.push_str("|---|---|---|---|---|---|\n");
        for row in &self.runs {
            let _ = writeln!(text, "| {} |", row.join(" | "));
        }
        text.push_str("\n## Bugs\n\n| bug | found by | seed | fix |\n|---|---|---|---|\n");
        for row in &self.bugs {
            let _ = writeln!(text, "| {} |", row.join(" | "));
        }
        text
    }
}

/// A number as people read it.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_a_kind_are_added_up() {
        let data = "# for people\nrun | seeds | a day | abc | 900 | 1 | -\n\
                    run | seeds | a day | def | 200 | 0 | -\nbug | b | sim | 7 | fixed\n";
        let page = Record::read(data).unwrap().page();
        assert!(page.contains("| seeds | 1,100 |"), "{page}");
        assert!(page.contains("| b | sim | 7 | fixed |"), "{page}");
    }

    #[test]
    fn a_line_that_is_neither_is_named() {
        let refused = Record::read("\nrun | seeds | many\n").err().unwrap().to_string();
        assert!(refused.contains(":2:"), "{refused}");
    }

    /// Without the binary that `cargo xtask docs` needs; `UPDATE_GOLDEN=1` writes it.
    #[test]
    fn the_page_says_what_the_data_say() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let made = page(&root).unwrap();
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            fs::write(root.join(PAGE), &made).unwrap();
        }
        assert_eq!(fs::read_to_string(root.join(PAGE)).unwrap_or_default(), made);
    }

    #[test]
    fn numbers_are_grouped() {
        for (number, text) in [(7, "7"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), text);
        }
    }
}
