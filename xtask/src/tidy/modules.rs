//! Rules about modules: each is named after what it is about, and each is part of a crate.

use std::collections::BTreeSet;

use super::source::Source;
use super::{File, Finding, has_extension};

const NAMES_BANNED: [&str; 8] =
    ["util", "utils", "common", "misc", "helper", "helpers", "manager", "managers"];

/// Every finding in these files.
pub(crate) fn check(files: &[File]) -> Vec<Finding> {
    let mut found: Vec<Finding> = files.iter().filter_map(module_name).collect();
    found.extend(dead_files(files));
    found
}

fn module_name(file: &File) -> Option<Finding> {
    if file.is_test() {
        return None;
    }
    let path = file.path.strip_suffix(".rs")?;
    let word = path.split(['/', '_']).find(|word| NAMES_BANNED.contains(word))?;
    let fix = format!("name the module after what it is about, not `{word}`");
    Some(file.finding("module-name", 1, fix))
}

fn dead_files(files: &[File]) -> Vec<Finding> {
    let rust: Vec<&File> = files.iter().filter(|f| f.source.is_some()).collect();
    let known: BTreeSet<&str> = rust.iter().map(|f| f.path.as_str()).collect();
    let packages: Vec<Package<'_>> = files.iter().filter_map(Package::new).collect();
    // A lone file, as in a test of the other rules, belongs to no package and is not judged.
    if packages.is_empty() {
        return Vec::new();
    }
    let mut reached: BTreeSet<String> = BTreeSet::new();
    let mut next: Vec<String> = known
        .iter()
        .filter(|path| packages.iter().any(|package| package.is_root(path)))
        .map(ToString::to_string)
        .collect();
    while let Some(path) = next.pop() {
        if let Some(file) = rust.iter().find(|f| f.path == path)
            && reached.insert(path)
        {
            next.extend(children(file).into_iter().filter(|child| known.contains(child.as_str())));
        }
    }
    rust.iter()
        .filter(|file| !reached.contains(&file.path))
        .map(|file| file.finding("dead-file", 1, "declare it with `mod`, or delete it"))
        .collect()
}

/// A directory with a manifest, and the paths which that names.
struct Package<'a> {
    dir: &'a str,
    named: Vec<String>,
}

impl<'a> Package<'a> {
    fn new(manifest: &'a File) -> Option<Self> {
        let dir = manifest.path.strip_suffix("/Cargo.toml")?;
        let value = |line: &str| {
            let quoted = line.trim().strip_prefix("path = \"")?.split('"').next()?;
            has_extension(quoted, "rs").then(|| format!("{dir}/{quoted}"))
        };
        Some(Package { dir, named: manifest.text.lines().filter_map(value).collect() })
    }

    /// Whether cargo compiles this file by itself.
    fn is_root(&self, path: &str) -> bool {
        if self.named.iter().any(|named| named == path) {
            return true;
        }
        let Some(rest) = path.strip_prefix(self.dir).and_then(|p| p.strip_prefix('/')) else {
            return false;
        };
        let parts: Vec<&str> = rest.split('/').collect();
        let target = |dir: &str| ["tests", "benches", "examples"].contains(&dir);
        match parts.as_slice() {
            ["build.rs"] | ["src", "lib.rs" | "main.rs"] => true,
            ["src", "bin", rest @ ..] => matches!(rest, [_] | [_, "main.rs"]),
            [dir, rest @ ..] => target(dir) && matches!(rest, [_] | [_, "main.rs"]),
            [] => false,
        }
    }
}

/// The files that are declared by `#[cfg(test)] mod name;`: all of them is for tests.
pub(crate) fn for_tests(files: &[File]) -> BTreeSet<String> {
    files.iter().flat_map(|file| declarations(file, Source::is_test)).collect()
}

/// Where the modules that a file declares may be.
fn children(file: &File) -> Vec<String> {
    declarations(file, |_, _| true)
}

/// Where the modules may be that a file declares on those of its lines that are wanted.
fn declarations(file: &File, wanted: impl Fn(&Source, usize) -> bool) -> Vec<String> {
    let Some(source) = &file.source else { return Vec::new() };
    let (dir, name) = file.path.rsplit_once('/').unwrap_or(("", &file.path));
    let stem = name.trim_end_matches(".rs");
    // Modules of `a.rs` are in `a/`, unless `a.rs` is a root or a `mod.rs`; both are tried, since
    // a file that is there and named like this is meant.
    let dirs = [dir.to_string(), format!("{dir}/{stem}")];
    let mut found = Vec::new();
    for (index, (code, text)) in source.code.lines().zip(file.text.lines()).enumerate() {
        if !wanted(source, index + 1) {
            continue;
        }
        if let Some(module) = declared(code) {
            for dir in &dirs {
                found.push(format!("{dir}/{module}.rs"));
                found.push(format!("{dir}/{module}/mod.rs"));
            }
        }
        // The insides of literals are blank in the code: the path is read from the text.
        if code.trim_start().starts_with("#[path = \"") || code.contains("include!(\"") {
            let quoted = text.split('"').nth(1).unwrap_or_default();
            found.push(format!("{dir}/{quoted}"));
        }
    }
    found
}

/// The name in `mod name;`, whoever may see it.
fn declared(code: &str) -> Option<&str> {
    let statement = code.trim().strip_suffix(';')?;
    let (before, module) = statement.rsplit_once("mod ")?;
    let visible = before.is_empty() || before.ends_with(' ');
    (visible && module.chars().all(|c| c.is_alphanumeric() || c == '_')).then_some(module)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(files: &[(&str, &str)]) -> Vec<(&'static str, String)> {
        let files: Vec<File> = files.iter().map(|(path, text)| File::new(path, text)).collect();
        check(&files).into_iter().map(|f| (f.rule, f.path)).collect()
    }

    #[test]
    fn a_module_is_named_after_what_it_is_about() {
        let refused = |path| !rules(&[(path, "")]).is_empty();
        for path in ["c/src/utils.rs", "c/src/job_manager.rs", "c/src/common/mod.rs"] {
            assert!(refused(path), "{path}");
        }
        for path in ["c/src/job.rs", "c/tests/helper.rs", "c/src/commonplace.rs"] {
            assert!(!refused(path), "{path}");
        }
    }

    #[test]
    fn a_module_for_tests_is_known_as_such() {
        let lib = File::new("c/src/lib.rs", "mod a;\n#[cfg(test)]\nmod golden;\nmod b;\n");
        let found = for_tests(&[lib]);
        assert!(found.contains("c/src/golden.rs"), "{found:?}");
        assert!(!found.contains("c/src/a.rs") && !found.contains("c/src/b.rs"), "{found:?}");
    }

    #[test]
    fn a_file_that_no_crate_includes_is_dead() {
        let found = rules(&[
            ("c/Cargo.toml", "[[bin]]\npath = \"src/cli.rs\"\n"),
            ("c/src/lib.rs", "pub mod a;\n#[path = \"odd.rs\"]\nmod b;\n// mod commented;\n"),
            ("c/src/a.rs", "pub(crate) mod deep;\n"),
            ("c/src/a/deep.rs", ""),
            ("c/src/odd.rs", ""),
            ("c/src/cli.rs", ""),
            ("c/src/commented.rs", ""),
            ("c/src/bin/tool.rs", ""),
            ("c/tests/it.rs", "mod support;\n"),
            ("c/tests/support/mod.rs", ""),
            ("c/tests/support/unused.rs", ""),
        ]);
        let dead = |path: &str| ("dead-file", path.to_string());
        assert_eq!(found, [dead("c/src/commented.rs"), dead("c/tests/support/unused.rs")]);
    }
}
