//! The demo is a test of the whole: it ends with 0 only if every job arrived and none was early.

use crate::support::{hence, text};

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
