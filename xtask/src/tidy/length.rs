//! Rules about size, with a ratchet: what was too long already may only shrink.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::{File, Finding};

/// What is too long for now: `path::function lines` or `path lines`, a line each.
pub(crate) const RATCHET: &str = "xtask/ratchet.txt";

const FUNCTION_LINES_MAX: usize = 70;
const FILE_LINES_MAX: usize = 600;

/// Something that has a length.
struct Measured<'a> {
    /// As the ratchet names it.
    name: String,
    file: &'a File,
    line: usize,
    lines: usize,
    rule: &'static str,
    max: usize,
}

/// Every finding in these files, and in the ratchet itself.
pub(crate) fn check(files: &[File], ratchet: &str) -> Vec<Finding> {
    let mut allowed = parse(ratchet);
    let mut found = Vec::new();
    for thing in too_long(files) {
        let Measured { name, file, line, lines, rule, max } = thing;
        match allowed.remove(&name) {
            Some(limit) if lines == limit => {}
            Some(limit) if lines < limit => {
                let fix =
                    format!("{lines} lines now: run `cargo xtask tidy --ratchet` to keep it so");
                found.push(file.finding("ratchet", line, fix));
            }
            Some(limit) => {
                let fix = format!("{name} grew from {limit} to {lines} lines: split it");
                found.push(file.finding(rule, line, fix));
            }
            None => {
                let fix = format!("{name} has {lines} lines, at most {max}: split it");
                found.push(file.finding(rule, line, fix));
            }
        }
    }
    let ratchet = File::new(RATCHET, ratchet);
    for name in allowed.keys() {
        let fix = format!("{name} is short enough now: run `cargo xtask tidy --ratchet`");
        found.push(ratchet.finding("ratchet", 1, fix));
    }
    found
}

/// The ratchet with every entry lowered to what is there, and without those no longer needed.
pub(crate) fn tighten(files: &[File], ratchet: &str) -> String {
    let allowed = parse(ratchet);
    let mut text = String::from(HEADER);
    for thing in too_long(files) {
        if let Some(limit) = allowed.get(&thing.name) {
            let _ = writeln!(text, "{} {}", thing.name, thing.lines.min(*limit));
        }
    }
    text
}

const HEADER: &str = "\
# What is longer than STYLE.md allows: `path::function lines`, or `path lines` for a whole file.
# An entry may only shrink or go; `cargo xtask tidy --ratchet` lowers them. None is added.
";

fn parse(ratchet: &str) -> BTreeMap<String, usize> {
    let entry = |line: &str| {
        let (name, lines) = line.split_once(' ')?;
        Some((name.to_string(), lines.trim().parse().ok()?))
    };
    ratchet.lines().filter(|line| !line.starts_with('#')).filter_map(entry).collect()
}

/// The files and functions beyond their limit, in order; of functions of one name in one file
/// the longest.
fn too_long(files: &[File]) -> Vec<Measured<'_>> {
    let mut found: BTreeMap<String, Measured<'_>> = BTreeMap::new();
    for file in files {
        let Some(source) = &file.source else { continue };
        let lines = file.text.lines().count();
        let (rule, max) = ("long-file", FILE_LINES_MAX);
        keep_longest(
            &mut found,
            Measured { name: file.path.clone(), file, line: 1, lines, rule, max },
        );
        for function in source.functions() {
            let name = format!("{}::{}", file.path, function.name);
            let (line, lines) = (function.first, function.last - function.first + 1);
            let (rule, max) = ("long-function", FUNCTION_LINES_MAX);
            keep_longest(&mut found, Measured { name, file, line, lines, rule, max });
        }
    }
    found.into_values().collect()
}

fn keep_longest<'a>(found: &mut BTreeMap<String, Measured<'a>>, thing: Measured<'a>) {
    if thing.lines <= thing.max {
        return;
    }
    if found.get(&thing.name).is_none_or(|other| other.lines < thing.lines) {
        found.insert(thing.name.clone(), thing);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(lines: usize) -> File {
        File::new("a/b.rs", &format!("fn f() {{\n{}}}\n", "    g();\n".repeat(lines - 2)))
    }

    fn rules(lines: usize, ratchet: &str) -> Vec<&'static str> {
        check(&[file(lines)], ratchet).into_iter().map(|finding| finding.rule).collect()
    }

    #[test]
    fn a_ratchet_turns_one_way() {
        let rows: [(usize, &str, &[&str]); 6] = [
            (70, "", &[]),
            (71, "", &["long-function"]),
            (80, "a/b.rs::f 80\n", &[]),
            (81, "a/b.rs::f 80\n", &["long-function"]),
            (79, "a/b.rs::f 80\n", &["ratchet"]),
            (70, "# note\na/b.rs::f 80\n", &["ratchet"]),
        ];
        for (lines, ratchet, expected) in rows {
            assert_eq!(rules(lines, ratchet), expected, "{lines} lines, {ratchet:?}");
        }
    }

    #[test]
    fn tightening_lowers_and_removes_but_never_adds() {
        assert_eq!(tighten(&[file(75)], "a/b.rs::f 80\n"), format!("{HEADER}a/b.rs::f 75\n"));
        assert_eq!(tighten(&[file(85)], "a/b.rs::f 80\n"), format!("{HEADER}a/b.rs::f 80\n"));
        assert_eq!(tighten(&[file(70)], "a/b.rs::f 80\n"), HEADER);
        assert_eq!(tighten(&[file(90)], ""), HEADER);
    }
}
