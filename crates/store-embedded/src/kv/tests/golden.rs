//! Directories written by every version of the format open for ever.
//!
//! Never rewrite a directory that exists: it stands for stores in the field. For a new version,
//! change the name below and run
//! `cargo test -p hence-store-embedded golden -- --ignored` once.

use std::path::PathBuf;

use super::*;
use crate::kv::check;
use crate::kv::disk::RealDisk;

const VERSION: &str = "v2";
/// Every version there ever was.
const VERSIONS: &[&str] = &["v1", "v2"];

const COMMITS: usize = 40;

fn testdata() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata")
}

fn copy_of(name: &str) -> tempfile::TempDir {
    let copy = tempfile::tempdir().expect("a directory");
    for entry in std::fs::read_dir(testdata().join(name)).expect("the golden directory") {
        let file = entry.expect("an entry").path();
        let name = file.file_name().expect("a name");
        std::fs::copy(&file, copy.path().join(name)).expect("copies");
    }
    copy
}

#[test]
#[ignore = "writes the golden directory of a new version"]
fn write_golden() {
    let dir = testdata().join(VERSION);
    assert!(!dir.exists(), "a golden directory is never rewritten");
    let (kv, _) = Kv::open(&dir, small(), Arc::new(RealDisk)).expect("opens");
    run_commits(&kv, COMMITS);
}

#[test]
fn every_version_opens() {
    for name in VERSIONS {
        let copy = copy_of(name);
        assert_eq!(check(copy.path(), &RealDisk).expect("reads").findings, [], "{name}");
        let (kv, report) = Kv::open(copy.path(), small(), Arc::new(RealDisk)).expect("opens");
        assert_eq!(contents(&kv).expect("reads"), states(COMMITS)[COMMITS], "{name}");
        assert!(report.tables > 0 && report.frames_replayed > 0, "{name} has tables and a log");
    }
}

#[test]
fn a_damaged_directory_is_refused_by_name() {
    for (name, file, offset) in [("v1", "MANIFEST", 40), ("v1", "TABLE", 20), ("v1", "LOG", 80)] {
        let copy = copy_of(name);
        let ending = match file {
            "TABLE" => ".table",
            "LOG" => ".log",
            other => other,
        };
        let mut files: Vec<_> = std::fs::read_dir(copy.path())
            .expect("lists")
            .map(|entry| entry.expect("an entry").path())
            .filter(|path| path.to_string_lossy().ends_with(ending))
            .collect();
        files.sort();
        let mut content = std::fs::read(&files[0]).expect("reads");
        content[offset] ^= 1;
        std::fs::write(&files[0], &content).expect("writes");
        let findings = check(copy.path(), &RealDisk).expect("reads").findings;
        assert!(findings.iter().any(|finding| finding.file == files[0]), "{findings:?}");
    }
}
