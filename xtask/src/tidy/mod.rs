//! The text lint: what neither rustfmt nor clippy looks at, each finding with its fix.
//!
//! A rule is a row of [`RULES`] and a function; the test at the end shows that each can go red.

mod length;
mod links;
mod modules;
mod rust;
mod source;
mod text;

use std::fmt;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use source::Source;

/// Every rule: the name that findings carry, and the sentence that `--rules` prints.
pub(crate) const RULES: [(&str, &str); 16] = [
    ("line-length", "lines of Rust have at most 100 characters; a line with a URL may be longer"),
    ("white-space", "no tabs, no spaces at the end of a line, one line break at the end of a file"),
    ("unfinished", "no todo!, unimplemented! or dbg!"),
    ("todo", "a TODO or FIXME names its issue: TODO(#12)"),
    ("dead-code", "no commented-out code: history remembers it"),
    ("long-function", "functions have at most 70 lines, or stand in xtask/ratchet.txt and shrink"),
    ("long-file", "Rust files have at most 600 lines, or stand in xtask/ratchet.txt and shrink"),
    ("ratchet", "xtask/ratchet.txt names only what is too long, at its present length"),
    ("allow", "an exception is #[expect(…, reason = \"…\")], never #[allow(…)]"),
    ("ignored-example", "an example that is not run says why: ```ignore (reason)"),
    ("module-doc", "every file under src/ starts with //! and says what it is"),
    ("module-name", "no module is called util, utils, common, misc, helper or manager"),
    ("unwrap", "no .unwrap() outside tests: answer with an error, or expect() a broken invariant"),
    ("dead-file", "every .rs file is part of some crate"),
    ("dead-link", "a relative link in a document leads somewhere"),
    ("dead-path", "a path in backticks in a document is there"),
];

/// One file as the rules see it.
pub(crate) struct File {
    /// From the root of the repository, with forward slashes.
    pub(crate) path: String,
    /// All of it.
    pub(crate) text: String,
    /// Taken apart, when it is Rust.
    pub(crate) source: Option<Source>,
}

/// What a file is for.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Purpose {
    /// It is shipped.
    Product,
    /// All of it is for tests.
    Test,
}

/// Something to put right.
#[derive(Debug, PartialEq)]
pub(crate) struct Finding {
    /// A name from [`RULES`].
    pub(crate) rule: &'static str,
    /// Which file.
    pub(crate) path: String,
    /// Which line, from 1.
    pub(crate) line: usize,
    /// What is wrong and what would be right.
    pub(crate) fix: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}: {}", self.path, self.line, self.rule, self.fix)
    }
}

impl File {
    pub(crate) fn new(path: &str, text: &str) -> Self {
        let source = has_extension(path, "rs").then(|| Source::new(text));
        File { path: path.to_string(), text: text.to_string(), source }
    }

    /// Whether its path says that all of it is for tests.
    pub(crate) fn is_test(&self) -> bool {
        let mut parts = self.path.split('/');
        self.path.starts_with("e2e/") || parts.any(|part| part == "tests" || part == "tests.rs")
    }

    pub(crate) fn finding(
        &self,
        rule: &'static str,
        line: usize,
        fix: impl Into<String>,
    ) -> Finding {
        debug_assert!(RULES.iter().any(|(name, _)| *name == rule), "{rule} is not in RULES");
        Finding { rule, path: self.path.clone(), line, fix: fix.into() }
    }
}

/// Whether a path ends in this extension.
pub(crate) fn has_extension(path: &str, extension: &str) -> bool {
    Path::new(path).extension().is_some_and(|found| found == extension)
}

/// Checks the repository at `root`.
pub(crate) fn check(root: &Path) -> Result<Vec<Finding>> {
    let files = read_files(root)?;
    let ratchet = fs::read_to_string(root.join(length::RATCHET)).unwrap_or_default();
    let exists = |path: &str| root.join(path).exists();
    Ok(findings(&files, &ratchet, &exists))
}

/// Lowers the entries of the ratchet to what is there now; never raises or adds one.
pub(crate) fn tighten(root: &Path) -> Result<()> {
    let files = read_files(root)?;
    let path = root.join(length::RATCHET);
    let ratchet = fs::read_to_string(&path).unwrap_or_default();
    let tightened = length::tighten(&files, &ratchet);
    fs::write(&path, tightened).with_context(|| format!("writing {}", path.display()))
}

/// Every finding in these files, in order of path and line.
fn findings(files: &[File], ratchet: &str, exists: &dyn Fn(&str) -> bool) -> Vec<Finding> {
    let mut found = Vec::new();
    let for_tests = modules::for_tests(files);
    for file in files {
        let test = file.is_test() || for_tests.contains(&file.path);
        found.extend(text::check(file));
        found.extend(rust::check(file, if test { Purpose::Test } else { Purpose::Product }));
        found.extend(links::check(file, exists));
    }
    found.extend(length::check(files, ratchet));
    found.extend(modules::check(files));
    found.sort_by(|a, b| (&a.path, a.line).cmp(&(&b.path, b.line)));
    found
}

/// The files that are, or would be, in the repository. Test data may hold anything; licences and
/// the lock file are not ours to format.
fn read_files(root: &Path) -> Result<Vec<File>> {
    let output = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .context("running git ls-files")?;
    ensure!(output.status.success(), "git ls-files: {}", String::from_utf8_lossy(&output.stderr));
    let mut files = Vec::new();
    for path in String::from_utf8_lossy(&output.stdout).split('\0') {
        if path.is_empty() || path.starts_with("testdata/") || !is_text(path) {
            continue;
        }
        // A file that was deleted but not yet committed is listed and cannot be read.
        let Ok(text) = fs::read_to_string(root.join(path)) else { continue };
        files.push(File::new(path, &text));
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

fn is_text(path: &str) -> bool {
    ["rs", "toml", "md", "yml", "yaml", "sh"].iter().any(|e| has_extension(path, e))
        || [".ci/run", "justfile"].contains(&path)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file with this text has a finding of this rule; with the other text it has none.
    struct Row {
        rule: &'static str,
        path: &'static str,
        bad: String,
        good: String,
    }

    fn row(rule: &'static str, path: &'static str, bad: &str, good: &str) -> Row {
        Row { rule, path, bad: bad.to_string(), good: good.to_string() }
    }

    /// Every rule but those about several files, which have tests beside them.
    fn rows() -> Vec<Row> {
        let long = "x".repeat(60);
        let body = |lines: usize| format!("fn f() {{\n{}}}\n", "    g();\n".repeat(lines));
        vec![
            row("line-length", "a/b.rs", &format!("// {long} {long}\n"), &format!("// {long}\n")),
            row(
                "line-length",
                "a/b.rs",
                &format!("// {long}{long}\n"),
                &format!("// https://{long}{long}\n"),
            ),
            row("white-space", "a.md", "a \n", "a\n"),
            row("white-space", "a/b.rs", "\tg();\n", "    g();\n"),
            row("white-space", "a.md", "a", "a\n"),
            row("white-space", "a.toml", "a\n\n", "a\n"),
            row("unfinished", "a/b.rs", "fn f() { todo!() }\n", "fn f() { g(\"todo!()\") }\n"),
            row("unfinished", "a/b.rs", "fn f() { dbg!(1); }\n", "fn f() { debug!(1); }\n"),
            row("todo", "a/b.rs", "// TODO: later\n", "// TODO(#12): later\n"),
            row("todo", "a/b.rs", "// FIXME\n", "const A: &str = \"FIXME\";\n"),
            row("dead-code", "a/b.rs", "// let a = b;\n", "// Let a be b;\n"),
            row("dead-code", "a/b.rs", "// self.f(1);\n", "// calls f (once);\n"),
            row("dead-code", "a/b.rs", "// if a {\n", "// if a then b\n"),
            row("long-function", "a/b.rs", &body(69), &body(68)),
            row("long-file", "a/b.rs", &"//\n".repeat(601), &"//\n".repeat(600)),
            row(
                "allow",
                "a/b.rs",
                "#[allow(dead_code)]\n",
                "#[expect(dead_code, reason = \"r\")]\n",
            ),
            row(
                "allow",
                "a/b.rs",
                "#[expect(dead_code)]\n",
                "#![expect(\n    a,\n    reason = \"r\"\n)]\n",
            ),
            row(
                "allow",
                "a/tests/support/mod.rs",
                "#![allow(dead_code)]\n",
                "#![allow(dead_code, reason = \"r\")]\n",
            ),
            row("ignored-example", "a/b.rs", "/// ```ignore\n", "/// ```ignore (needs a server)\n"),
            row("ignored-example", "a.md", "```rust,ignore\n", "```rust\n"),
            row("module-doc", "c/src/b.rs", "fn f() {}\n", "//! It.\nfn f() {}\n"),
            row("unwrap", "a/b.rs", "fn f() { g().unwrap(); }\n", "fn f() { g().unwrap_or(1); }\n"),
            row(
                "unwrap",
                "a/b.rs",
                "fn f() { g()\n.unwrap(); }\n",
                "#[test]\nfn f() { g().unwrap(); }\n",
            ),
            row("dead-link", "a.md", "[x](gone.md)\n", "[x](here.md#y) [z](https://a.b)\n"),
            row(
                "dead-path",
                "a.md",
                "see `crates/gone.rs`\n",
                "see `crates/here.md` or `crates/*`\n",
            ),
        ]
    }

    fn rules_hit(path: &str, text: &str) -> Vec<&'static str> {
        let exists = |path: &str| path.ends_with("here.md");
        let files = [File::new(path, text)];
        findings(&files, "", &exists).into_iter().map(|finding| finding.rule).collect()
    }

    #[test]
    fn every_rule_can_go_red_and_green() {
        for Row { rule, path, bad, good } in rows() {
            assert!(rules_hit(path, &bad).contains(&rule), "{rule} missed {bad:?}");
            assert!(!rules_hit(path, &good).contains(&rule), "{rule} refused {good:?}");
        }
    }

    #[test]
    fn no_rule_is_without_a_test() {
        // These look at several files at once; their tests are in `length` and `modules`.
        let elsewhere = ["ratchet", "module-name", "dead-file"];
        let rows = rows();
        for (rule, _) in RULES {
            let shown = rows.iter().any(|row| row.rule == rule) || elsewhere.contains(&rule);
            assert!(shown, "{rule} has no row");
        }
    }

    #[test]
    fn a_finding_names_place_rule_and_fix() {
        let finding = File::new("a.rs", "").finding("todo", 3, "name the issue");
        assert_eq!(finding.to_string(), "a.rs:3: todo: name the issue");
    }
}
