//! Golden histories: good ones in which nothing is found, and bad ones in which one property, the
//! one they are named after, finds something. So each property can go red, and only for its own
//! reason. `linear` may agree: it sees many of the others' reasons in the answers alone.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};

use hence_sim::check::{self, Finding, PROPERTIES};
use hence_sim::history;

/// A property that can go red in one way only is hardly tested.
const BAD_MIN: usize = 2;

fn files() -> Vec<(String, PathBuf)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/histories");
    let entries = fs::read_dir(&dir).expect("the histories are there");
    let paths = entries.map(|entry| entry.expect("can be listed").path());
    let stem = |path: &Path| path.file_stem().expect("a name").to_string_lossy().into_owned();
    let mut files: Vec<_> = paths.map(|path| (stem(&path), path)).collect();
    files.sort();
    files
}

fn judge(path: &Path) -> Vec<Finding> {
    let file = File::open(path).expect("can be opened");
    let events = history::read(BufReader::new(file))
        .unwrap_or_else(|error| panic!("{}: {error:#}", path.display()));
    check::judge(&events)
}

#[test]
fn nothing_is_found_in_good_histories() {
    let good: Vec<_> = files().into_iter().filter(|(name, _)| name.starts_with("good-")).collect();
    assert!(good.len() >= 8, "{} good histories", good.len());
    for (name, path) in good {
        assert_eq!(judge(&path), [], "{name}");
    }
}

#[test]
fn each_bad_history_is_found_by_its_own_property() {
    let mut wrong = Vec::new();
    let mut caught: BTreeMap<&str, usize> = BTreeMap::new();
    for (name, path) in files() {
        let Some(rest) = name.strip_prefix("bad-") else { continue };
        let property = PROPERTIES.iter().find(|property| {
            rest.strip_prefix(property.name).is_some_and(|rest| rest.starts_with('-'))
        });
        let property = property.unwrap_or_else(|| panic!("{name} names no property"));
        let findings = judge(&path);
        let its_own = |finding: &Finding| finding.property == property.name;
        let only_it = findings.iter().all(|f| its_own(f) || f.property == "linear");
        if !findings.iter().any(its_own) || !only_it {
            wrong.push(format!("{name}: {findings:#?}"));
        }
        *caught.entry(property.name).or_default() += 1;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for property in &PROPERTIES {
        let bad = caught.get(property.name).copied().unwrap_or_default();
        assert!(bad >= BAD_MIN, "{} goes red in {bad} histories", property.name);
    }
}

#[test]
fn a_history_survives_its_text_form() {
    for (name, path) in files() {
        let events = history::read(BufReader::new(File::open(&path).expect("opens")));
        let events = events.expect("reads");
        let mut text = Vec::new();
        history::write(&events, &mut text).expect("writes");
        assert_eq!(history::read(&text[..]).expect("reads again"), events, "{name}");
    }
}

#[test]
fn a_line_that_is_no_event_is_named() {
    let refused = history::read(&b"# for people\n\n{\"t\":1}\n"[..]).expect_err("no event");
    assert!(refused.to_string().contains("line 3"), "{refused:#}");
}
