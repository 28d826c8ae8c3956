//! `hence serve` and what a data directory goes through.

use std::process::Stdio;

use crate::support::{DEADLINE, Server, hence, receiver, serve, text};

#[test]
fn what_was_acknowledged_survives_a_kill() {
    let server = Server::start();
    let (url, requests) = receiver(&[200]);
    server.ok(&["add", &url, "--id", "later", "--in", "1500ms"]);
    let directory = server.kill();
    let server = Server::start_in(directory);
    assert!(requests.recv_timeout(DEADLINE).unwrap().starts_with("POST /hook"));
    server.ok(&["watch", "later"]);
}

#[test]
fn a_signal_ends_it_with_zero() {
    let server = Server::start();
    server.ok(&["add", "--worker", "--id", "kept", "--in", "1h"]);
    let (code, directory) = server.stop();
    assert_eq!(code, Some(0));
    let server = Server::start_in(directory);
    assert_eq!(server.json(&["show", "kept"])["state"], "scheduled");
}

#[test]
fn a_second_process_on_the_directory_is_refused() {
    let server = Server::start();
    let second = serve(server.directory.path()).stderr(Stdio::piped()).output().unwrap();
    assert_eq!(second.status.code(), Some(69), "{}", text(&second.stderr));
    assert!(text(&second.stderr).contains("fix: "), "{}", text(&second.stderr));
    let data = server.directory.path().join("data");
    let export = hence().args(["store", "export"]).arg(&data).output().unwrap();
    assert_eq!(export.status.code(), Some(69), "{}", text(&export.stderr));
}

#[test]
fn a_store_is_checked_exported_and_imported() {
    let server = Server::start();
    server.ok(&[
        "add",
        "--worker",
        "--queue",
        "mail",
        "--id",
        "waits",
        "--in",
        "1h",
        "--payload",
        "hi",
    ]);
    server.ok(&["add", "--worker", "--queue", "mail", "--id", "gone", "--in", "1h"]);
    server.ok(&["cancel", "gone", "--queue", "mail"]);
    server.ok(&["queues", "set", "mail", "--concurrency", "3"]);
    server.ok(&["schedules", "put", "tick", "--every", "1h", "--worker"]);
    let (_, directory) = server.stop();
    let data = directory.path().join("data");
    let store = |arguments: &[&str], dir: &std::path::Path| {
        let output =
            hence().arg("store").arg(arguments[0]).arg(dir).args(&arguments[1..]).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stdout)
    };
    store(&["check"], &data);
    let exported = store(&["export"], &data);
    assert_eq!(exported.lines().count(), 1 + 1 + 1 + 2 + 1, "{exported}");
    let file = directory.path().join("dump.jsonl");
    std::fs::write(&file, &exported).unwrap();
    let copy = tempfile::tempdir().unwrap();
    store(&["import", "--from", file.to_str().unwrap()], &copy.path().join("data"));
    let server = Server::start_in(copy);
    assert_eq!(server.ok(&["show", "waits", "--queue", "mail", "--payload"]), "hi");
    assert_eq!(server.json(&["show", "gone", "--queue", "mail"])["state"], "cancelled");
    assert_eq!(server.json(&["queues", "show", "mail"])["concurrency"], 3);
    assert_eq!(server.json(&["schedules", "show", "tick"])["every"], "1h");
}

#[test]
fn an_open_door_needs_a_token() {
    let directory = tempfile::tempdir().unwrap();
    let open = hence()
        .args(["serve", "--listen", "0.0.0.0:0", "--data"])
        .arg(directory.path())
        .output()
        .unwrap();
    assert!(!open.status.success());
    assert!(text(&open.stderr).contains("token"), "{}", text(&open.stderr));
}
