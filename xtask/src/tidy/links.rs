//! Rules about documents: what they point at must be there.

use super::{File, Finding, has_extension};

/// Backticked words that start like this are paths from the root of the repository.
const ROOTS: [&str; 10] = [
    "crates/",
    "docs/",
    "xtask/",
    "e2e/",
    "bench/",
    "examples/",
    "testdata/",
    "testkit/",
    ".ci/",
    ".github/",
];

/// Every finding in one file; `exists` answers for a path from the root.
pub(crate) fn check(file: &File, exists: &dyn Fn(&str) -> bool) -> Vec<Finding> {
    if !has_extension(&file.path, "md") {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut fenced = false;
    for (index, line) in file.text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        for target in links(line).filter(|target| !exists(&resolve(&file.path, target))) {
            let fix = format!("{target} is not there: correct the link");
            found.push(file.finding("dead-link", index + 1, fix));
        }
        for path in paths(line).filter(|path| !exists(path)) {
            let fix = format!("{path} is not there: correct the path");
            found.push(file.finding("dead-path", index + 1, fix));
        }
    }
    found
}

/// The targets of the relative links in a line, without their anchors.
fn links(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| {
        let target = rest.split([')', '#', ' ']).next()?;
        let elsewhere = target.contains("://") || target.starts_with("mailto:");
        (!target.is_empty() && !elsewhere).then_some(target)
    })
}

/// The words between backticks that are paths of this repository, patterns left out.
fn paths(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2).filter(|word| {
        let rooted = ROOTS.iter().any(|root| word.starts_with(root));
        rooted && !word.contains(['*', '{', '<', ' ', '…', 'N'])
    })
}

/// The path from the root of what `from` calls `target`.
fn resolve(from: &str, target: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            ".." => {
                parts.pop();
            }
            "." | "" => {}
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_relative_to_their_document() {
        assert_eq!(
            resolve("docs/guides/http.md", "../concepts/delivery.md"),
            "docs/concepts/delivery.md"
        );
        assert_eq!(resolve("README.md", "./docs/"), "docs");
    }

    #[test]
    fn code_blocks_are_left_alone() {
        let file = File::new("a.md", "```text\n[a](b.md) `crates/c.rs`\n```\n");
        assert_eq!(check(&file, &|_| false), []);
    }
}
