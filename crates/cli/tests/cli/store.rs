//! `hence store`: what is no store is said to be none, and what is one stays what it was.

use std::path::Path;
use std::process::Stdio;

use crate::support::{Server, hence, text};

/// What `hence store …` ended with and said.
fn store(arguments: &[&str]) -> (Option<i32>, String) {
    let output = hence().arg("store").args(arguments).output().unwrap();
    (output.status.code(), text(&output.stdout) + &text(&output.stderr))
}

fn names(dir: &Path) -> Vec<String> {
    let names = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
    names.map(|name| name.into_string().unwrap()).collect()
}

/// A mistyped path once got a store made in it, and an export of nothing that looked like a backup.
#[test]
fn what_holds_no_store_is_refused_and_left_as_it_is() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name).to_str().unwrap().to_owned();
    std::fs::create_dir(at("other")).unwrap();
    std::fs::write(at("other/app.log"), "not a segment").unwrap();
    std::fs::create_dir(at("empty")).unwrap();
    let new = at("new");
    for dir in ["other", "empty", "missing"].map(at) {
        let rows: [&[&str]; 4] = [
            &["check", &dir],
            &["repair", "--yes", &dir],
            &["export", &dir],
            &["move", "--from", &dir, "--to", &new],
        ];
        for row in rows {
            let (code, said) = store(row);
            assert_eq!(code, Some(3), "{row:?}: {said}");
            assert!(said.contains("there is no store in"), "{row:?}: {said}");
            assert!(!Path::new(&new).exists(), "{row:?} made the new store");
        }
    }
    assert_eq!(names(&place.path().join("other")), ["app.log"]);
    assert!(names(&place.path().join("empty")).is_empty());
}

#[test]
fn a_store_without_its_manifest_is_damaged_not_absent() {
    let server = Server::start();
    server.ok(&["add", "--worker", "--in", "1h"]);
    let directory = server.kill();
    let data = directory.path().join("data");
    std::fs::remove_file(data.join("MANIFEST")).unwrap();
    let (code, said) = store(&["check", data.to_str().unwrap()]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("hence store repair"), "{said}");
}

#[test]
fn a_move_into_a_store_that_is_not_empty_is_refused() {
    let [old, new] = [(); 2].map(|()| {
        let server = Server::start();
        server.ok(&["add", "--worker", "--in", "1h"]);
        server.stop().1
    });
    let [from, to] = [&old, &new].map(|dir| dir.path().join("data").to_str().unwrap().to_owned());
    let (code, said) = store(&["move", "--from", &from, "--to", &to]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("not empty") && said.contains("--resume"), "{said}");
    assert!(!said.contains("stop the server"), "{said}");
}

/// `hence store export DIR | head -1` once ended with 74.
#[test]
fn an_export_of_which_a_part_is_read_is_no_failure() {
    let server = Server::start();
    let file = server.directory.path().join("jobs.jsonl");
    let payload = "x".repeat(4_096);
    let line =
        |n| format!("{{\"id\": \"j{n}\", \"in\": \"1h\", \"payload_text\": \"{payload}\"}}\n");
    std::fs::write(&file, (0..100).map(line).collect::<String>()).unwrap();
    server.ok(&["add", "--many", file.to_str().unwrap()]);
    let (_, directory) = server.stop();
    let mut command = hence();
    command.args(["store", "export"]).arg(directory.path().join("data"));
    let mut export = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(export.stdout.take());
    let ended = export.wait_with_output().unwrap();
    assert_eq!((ended.status.code(), text(&ended.stderr).as_str()), (Some(0), ""));
}
