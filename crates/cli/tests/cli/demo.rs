//! The demo is a test of the whole: it ends with 0 only if every job arrived and none was early.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

use crate::support::{hence, signal, text};

#[test]
fn the_demo_runs_by_itself() {
    let output = hence().arg("demo").output().unwrap();
    let shown = text(&output.stdout);
    assert!(output.status.success(), "{shown}{}", text(&output.stderr));
    for words in [
        "flaky refused (503), attempt 1",
        "flaky delivered, attempt 2",
        "server killed",
        "none early",
    ] {
        assert!(shown.contains(words), "{shown}");
    }
}

/// A signal once left the demo's server running, and its directory behind.
#[test]
fn a_demo_that_is_broken_off_leaves_nothing_behind() {
    let rows = [
        ("TERM", "server started"),
        ("INT", "later scheduled"),
        ("HUP", "server starts again"),
        ("QUIT", "server killed"),
    ];
    for (name, at) in rows {
        let place = tempfile::tempdir().unwrap();
        let mut command = hence();
        command.arg("demo").env("TMPDIR", place.path());
        let mut demo = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(demo.stdout.take().unwrap()).lines().map(Result::unwrap);
        assert!(lines.any(|line| line.contains(at)), "{name}: nothing says `{at}`");
        signal(&demo, name);
        let ended = demo.wait_with_output().unwrap();
        assert_eq!(ended.status.code(), Some(1), "{name}");
        assert!(text(&ended.stderr).contains("ended by a signal"), "{name}");
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0, "{name}: the directory");
        assert!(!is_named_by_a_process(place.path()), "{name}: a server runs on");
    }
}

/// Whether a process has this path among its arguments; no, where the system does not tell.
fn is_named_by_a_process(path: &Path) -> bool {
    let path = path.as_os_str().as_encoded_bytes();
    let processes = std::fs::read_dir("/proc").into_iter().flatten().map_while(Result::ok);
    let mut arguments = processes.filter_map(|one| std::fs::read(one.path().join("cmdline")).ok());
    arguments.any(|line| line.windows(path.len()).any(|part| part == path))
}
