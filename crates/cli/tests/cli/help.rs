//! Every help text, compared with the document that shows them all. After a change:
//! `UPDATE_GOLDEN=1 cargo test -p hence-cli help`.

use std::path::Path;

use crate::support::{hence, text};

#[test]
fn the_documented_help_is_the_real_one() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/cli.md");
    let output = hence().args(["docs", "cli"]).output().unwrap();
    assert!(output.status.success());
    let printed = text(&output.stdout);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&golden, &printed).unwrap();
    }
    let kept = std::fs::read_to_string(&golden).unwrap_or_default();
    assert_eq!(printed, kept, "docs/reference/cli.md is stale: run with UPDATE_GOLDEN=1");
}

#[test]
fn every_command_shows_an_example() {
    let output = hence().args(["docs", "cli"]).output().unwrap();
    let printed = text(&output.stdout);
    for section in printed.split("\n## ").skip(1) {
        let name = section.lines().next().unwrap_or_default();
        if name.split(' ').count() == 2 {
            assert!(section.contains("Examples:"), "{name} has no examples");
        }
    }
}

#[test]
fn completions_are_made_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = hence().args(["completions", shell]).output().unwrap();
        assert!(output.status.success() && !output.stdout.is_empty(), "{shell}");
    }
}
