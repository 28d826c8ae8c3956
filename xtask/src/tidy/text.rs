//! Rules about characters: they hold for every text file.

use super::{File, Finding, has_extension};

const LINE_CHARS_MAX: usize = 100;

/// Every finding in one file.
pub(crate) fn check(file: &File) -> Vec<Finding> {
    let mut found = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        let number = index + 1;
        found.extend(line_length(file, number, line));
        found.extend(white_space(file, number, line));
    }
    let last = file.text.lines().count();
    if !file.text.is_empty() && (!file.text.ends_with('\n') || file.text.ends_with("\n\n")) {
        found.push(file.finding("white-space", last, "end the file with exactly one line break"));
    }
    found
}

fn line_length(file: &File, number: usize, line: &str) -> Option<Finding> {
    let chars = line.chars().count();
    let url = line.contains("http://") || line.contains("https://");
    if !has_extension(&file.path, "rs") || chars <= LINE_CHARS_MAX || url {
        return None;
    }
    let fix = format!("{chars} characters, at most {LINE_CHARS_MAX}: break the line");
    Some(file.finding("line-length", number, fix))
}

fn white_space(file: &File, number: usize, line: &str) -> Option<Finding> {
    if line.contains('\t') {
        return Some(file.finding("white-space", number, "use spaces (or \\t inside a literal)"));
    }
    if line.ends_with(' ') {
        return Some(file.finding("white-space", number, "remove the spaces at the end"));
    }
    None
}
