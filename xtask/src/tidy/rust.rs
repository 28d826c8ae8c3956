//! Rules about one Rust file (and about the fences of one document).

use super::source::Source;
use super::{File, Finding, Purpose, has_extension};

/// Every finding in one file.
pub(crate) fn check(file: &File, purpose: Purpose) -> Vec<Finding> {
    let mut found = ignored_examples(file);
    let Some(source) = &file.source else { return found };
    for (index, (code, comment)) in source.code.lines().zip(source.comments.lines()).enumerate() {
        let number = index + 1;
        found.extend(unfinished(file, number, code));
        found.extend(todo(file, number, comment));
        found.extend(dead_code(file, number, comment));
        if purpose == Purpose::Product && !source.is_test(number) {
            found.extend(unwrap(file, number, code));
        }
    }
    found.extend(exceptions(file, source));
    found.extend(module_doc(file));
    found
}

fn unfinished(file: &File, number: usize, code: &str) -> Option<Finding> {
    let name =
        ["todo!", "unimplemented!", "dbg!"].into_iter().find(|name| has_macro(code, name))?;
    Some(file.finding("unfinished", number, format!("finish it, or leave it out: {name}")))
}

fn has_macro(code: &str, name: &str) -> bool {
    code.match_indices(name).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        before.is_none_or(|c| !c.is_alphanumeric() && c != '_')
    })
}

fn todo(file: &File, number: usize, comment: &str) -> Option<Finding> {
    let (at, word) = ["TODO", "FIXME"].iter().find_map(|w| Some((comment.find(w)?, *w)))?;
    let names_issue = comment[at..]
        .split('#')
        .nth(1)
        .is_some_and(|after| after.starts_with(|c: char| c.is_ascii_digit()));
    if names_issue {
        return None;
    }
    Some(file.finding("todo", number, format!("open an issue and write {word}(#number)")))
}

fn dead_code(file: &File, number: usize, comment: &str) -> Option<Finding> {
    let text = comment.trim().strip_prefix("// ")?.trim();
    let fix = "delete the commented-out code: history remembers it";
    looks_like_code(text).then(|| file.finding("dead-code", number, fix))
}

/// Errs on the side of prose: a sentence may end in `;`, and must not be refused for it.
fn looks_like_code(text: &str) -> bool {
    const BLOCKS: [&str; 13] = [
        "if ", "for ", "while ", "match ", "fn ", "pub ", "impl ", "struct ", "enum ", "mod ",
        "loop ", "} else ", "async ",
    ];
    if text.ends_with(" {") {
        return BLOCKS.iter().any(|start| text.starts_with(start));
    }
    let Some(statement) = text.strip_suffix(';') else { return false };
    if let Some(rest) = statement.strip_prefix("let ") {
        return rest.contains(" = ");
    }
    if let Some(rest) = statement.strip_prefix("use ").or(statement.strip_prefix("pub use ")) {
        return rest.contains("::") && !rest.contains(' ');
    }
    // A call or an assignment: a path without spaces, then `(…)` or ` = …`.
    let path = statement.split(['(', ' ']).next().unwrap_or_default();
    let is_path = path.chars().all(|c| c.is_alphanumeric() || "_.:!&*?".contains(c));
    let rest = &statement[path.len()..];
    let call = rest.starts_with('(') && statement.ends_with([')', '?']);
    is_path && !path.is_empty() && (call || rest.starts_with(" = ") || rest.starts_with(" += "))
}

fn unwrap(file: &File, number: usize, code: &str) -> Option<Finding> {
    let fix = "answer with an error, or expect() with the invariant that makes it impossible";
    code.contains(".unwrap()").then(|| file.finding("unwrap", number, fix))
}

/// What several test binaries share is partly dead in each of them: no expectation holds in all.
fn is_shared_by_tests(file: &File, code: &str) -> bool {
    file.path.contains("/tests/support/") && code.starts_with("#![allow(dead_code, reason")
}

/// `#[allow]` outlives its cause unnoticed; `#[expect]` complains when the cause is gone.
fn exceptions(file: &File, source: &Source) -> Vec<Finding> {
    let mut found = Vec::new();
    let line_of = |at: usize| 1 + source.code[..at].matches('\n').count();
    for mark in ["#[allow(", "#![allow("] {
        for (at, _) in source.code.match_indices(mark) {
            if is_shared_by_tests(file, &source.code[at..]) {
                continue;
            }
            let fix = "use #[expect(…, reason = \"…\")]";
            found.push(file.finding("allow", line_of(at), fix));
        }
    }
    for mark in ["#[expect(", "#![expect("] {
        for (at, _) in source.code.match_indices(mark) {
            let attribute = source.code[at..].split(']').next().unwrap_or_default();
            if !attribute.contains("reason") {
                let fix = "say why: #[expect(…, reason = \"…\")]";
                found.push(file.finding("allow", line_of(at), fix));
            }
        }
    }
    found
}

fn ignored_examples(file: &File) -> Vec<Finding> {
    let rust = has_extension(&file.path, "rs");
    if !rust && !has_extension(&file.path, "md") {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        let line = line.trim();
        let doc = line.strip_prefix("///").or(line.strip_prefix("//!"));
        let shown = if rust { doc.unwrap_or_default() } else { line };
        let Some(words) = shown.trim().strip_prefix("```") else { continue };
        if words.contains("ignore") && !words.contains('(') {
            let fix = "let it compile (no_run), or say why not: ```ignore (reason)";
            found.push(file.finding("ignored-example", index + 1, fix));
        }
    }
    found
}

fn module_doc(file: &File) -> Option<Finding> {
    let in_src = file.path.split('/').rev().skip(1).any(|part| part == "src");
    if !in_src || file.text.starts_with("//!") {
        return None;
    }
    Some(file.finding("module-doc", 1, "start with //! and say what the file is, and is not"))
}
