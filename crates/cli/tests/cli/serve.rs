//! `hence serve` and what a data directory goes through.

use std::io::Write as _;
use std::net::TcpListener;
use std::process::Stdio;

use serde_json::Value;

use crate::support::{DEADLINE, Server, first_line, hence, receiver, serve, signal, text};

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
fn whoever_watches_a_job_waits_for_a_restart() {
    let server = Server::start();
    let (url, _requests) = receiver(&[200]);
    server.ok(&["add", &url, "--id", "later", "--in", "1500ms"]);
    let mut watch = server.command(&["watch", "later"]);
    let mut watch = watch.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let seen = first_line(watch.stdout.take().unwrap()).unwrap();
    assert!(seen.contains("scheduled"), "{seen}");
    let address = server.base.trim_start_matches("http://").to_owned();
    let directory = server.kill();
    let said = first_line(watch.stderr.take().unwrap()).unwrap();
    assert!(said.contains("waiting for it to come back"), "{said}");
    let mut again = hence();
    again.args(["serve", "--listen", &address, "--data"]).arg(directory.path().join("data"));
    again.stdin(Stdio::null()).stderr(Stdio::null());
    let _server = Server::from(again, directory);
    assert_eq!(watch.wait().unwrap().code(), Some(0));
}

#[test]
fn a_signal_ends_it_with_zero() {
    let mut directory = tempfile::tempdir().unwrap();
    for signal in ["TERM", "INT", "HUP", "QUIT"] {
        let server = Server::start_in(directory);
        server.ok(&["add", "--worker", "--id", signal, "--in", "1h"]);
        let code;
        (code, directory) = server.stop_by(signal);
        assert_eq!(code, Some(0), "{signal}");
    }
    let server = Server::start_in(directory);
    assert_eq!(server.json(&["show", "HUP"])["state"], "scheduled");
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
    assert_eq!(server.json(&["schedules", "show", "tick"])["when"][0], "every 1h");
}

/// The first job's record also makes its queue known: with it gone, the others must still be
/// found.
#[test]
fn damage_is_named_and_repaired() {
    for damaged in 0..2 {
        damage_and_repair(damaged);
    }
}

fn damage_and_repair(damaged: usize) {
    let server = Server::start();
    for id in ["a", "b", "c"] {
        server.ok(&["add", "--worker", "--id", id, "--in", "1h", "--payload", "sixteen letters!"]);
    }
    let directory = server.kill();
    let data = directory.path().join("data");
    let log = std::fs::read_dir(&data).unwrap().map(|entry| entry.unwrap().path());
    let log = log.filter(|path| path.extension().is_some_and(|end| end == "log")).min().unwrap();
    let mut bytes = std::fs::read(&log).unwrap();
    let mut places = (0..bytes.len()).filter(|at| bytes[*at..].starts_with(b"sixteen"));
    let place = places.nth(damaged).unwrap();
    bytes[place] ^= 1;
    std::fs::write(&log, bytes).unwrap();
    let name = log.file_name().unwrap().to_str().unwrap().to_owned();
    let run = |arguments: &[&str]| {
        let output = hence().args(arguments).arg(&data).output().unwrap();
        (output.status.code(), text(&output.stdout) + &text(&output.stderr))
    };
    let (code, said) = run(&["serve", "--listen", "127.0.0.1:0", "--log", "off", "--data"]);
    assert_eq!(code, Some(74), "{said}");
    assert!(said.contains(&name) && said.contains("at byte"), "{said}");
    assert!(said.contains("hence store check"), "{said}");
    let (code, said) = run(&["store", "check"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains(&name) && said.contains("hence store repair"), "{said}");
    let (code, said) = run(&["store", "repair", "--yes"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("given up") && said.contains("set aside"), "{said}");
    assert_eq!(run(&["store", "check"]).0, Some(0));
    let server = Server::start_in(directory);
    assert_eq!(server.ok(&["jobs", "--json"]).lines().count(), 2, "what can be read is kept");
    assert_eq!(server.json(&["queues", "show", "default"])["counts"]["pending"], 2);
    assert_eq!(server.json(&["show", "c"])["state"], "scheduled");
}

#[test]
fn settings_are_shown_with_where_they_were_said() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("hence.toml");
    std::fs::write(&file, "node = 'from-file'\npushes = 3\n").unwrap();
    let print = |file: &std::path::Path| {
        let mut command = hence();
        command.args(["serve", "--print-config", "--listen", "127.0.0.1:1", "--config"]).arg(file);
        command.env("HENCE_PUSHES", "9").env("HENCE_TOKEN", "a-secret-of-sixteen").output().unwrap()
    };
    let output = print(&file);
    let shown = text(&output.stdout);
    for line in [
        "listen = \"127.0.0.1:1\" # from a flag",
        "pushes = \"9\" # from the environment",
        "node = \"from-file\" # from the file",
        "# token = \"***\" # from the environment, not shown",
        "move_resume = false\n",
    ] {
        assert!(shown.contains(line), "{shown}");
    }
    let mut command = hence();
    command.args(["serve", "--print-config", "--json", "--node", "n1"]).env("HENCE_PUSHS", "3");
    let output = command.output().unwrap();
    let shown: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(shown["node"]["value"], "n1");
    let said = text(&output.stderr);
    assert!(said.contains("did you mean HENCE_PUSHES?"), "{said}");
    std::fs::write(&file, "lsten = 'x'").unwrap();
    let output = print(&file);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("did you mean `listen`?"));
}

#[test]
fn a_token_is_asked_for_and_shown() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("token");
    std::fs::write(&file, "a-secret-of-sixteen\n").unwrap();
    let file = file.to_str().unwrap();
    let server = Server::start_with(directory, &["--token-file", file]);
    let refused = server.hence(&["jobs"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("HENCE_TOKEN"), "{}", text(&refused.stderr));
    assert_eq!(server.ok(&["jobs", "--token-file", file, "--json"]), "");
    assert_eq!(server.ok(&["jobs", "--token", "a-secret-of-sixteen", "--json"]), "");
    let done =
        server.command(&["jobs"]).env("HENCE_TOKEN", "a-secret-of-sixteen").status().unwrap();
    assert!(done.success());
    let refused = server.hence(&["doctor", "--token", "another-secret-of-ours"]);
    assert_eq!(refused.status.code(), Some(1), "it answers: {}", text(&refused.stdout));
    assert!(text(&refused.stdout).contains("--token-file"), "{}", text(&refused.stdout));
}

#[test]
fn a_data_directory_that_is_a_file_is_called_one() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("data"), "").unwrap();
    let refused = serve(directory.path()).stderr(Stdio::piped()).output().unwrap();
    let said = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(74), "{said}");
    assert!(said.contains("data is not a directory") && said.contains("fix: "), "{said}");
}

#[test]
fn a_log_begins_with_what_was_started() {
    let server = Server::start();
    server.ok(&["add", "--worker", "--in", "1h"]);
    let (_, directory) = server.stop();
    let mut command = serve(directory.path());
    let command = command.args(["--node", "n1"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let base = first_line(child.stdout.take().unwrap()).unwrap();
    let line = first_line(child.stderr.take().unwrap()).unwrap();
    signal(&child, "TERM");
    child.wait().unwrap();
    let event: Value = serde_json::from_str(&line).unwrap();
    for (field, expected) in [
        ("message", Value::from("started")),
        ("level", Value::from("INFO")),
        ("version", Value::from(env!("CARGO_PKG_VERSION"))),
        ("store", Value::from(directory.path().join("data").to_str().unwrap())),
        ("engine", Value::from("embedded")),
        ("tier", Value::from("durable")),
        ("address", Value::from(base.trim_start_matches("listening on http://"))),
        ("node", Value::from("n1")),
        ("pending", Value::from(1)),
    ] {
        assert_eq!(event[field], expected, "{field} in {line}");
    }
    assert!(event["recovery_ms"].is_u64(), "{line}");
}

/// A supervisor that signals the process and its group at once means one end, not two.
#[test]
fn two_signals_within_a_moment_are_one() {
    let receiver = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", receiver.local_addr().unwrap());
    let directory = tempfile::tempdir().unwrap();
    let mut server = Server::start_with(directory, &["--shutdown-grace", "10m"]);
    server.ok(&["add", &url]);
    let (mut push, _) = receiver.accept().unwrap();
    server.signal_twice();
    // The push has all the grace, since nobody insisted.
    assert_eq!(server.hence(&["jobs"]).status.code(), Some(0));
    push.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap();
    assert_eq!(server.wait(), Some(0));
}

#[test]
fn an_open_door_needs_a_token() {
    let directory = tempfile::tempdir().unwrap();
    let open = hence()
        .args(["serve", "--listen", "0.0.0.0:0", "--data"])
        .arg(directory.path().join("data"))
        .output()
        .unwrap();
    assert_eq!(open.status.code(), Some(1));
    assert!(text(&open.stderr).contains("token"), "{}", text(&open.stderr));
    assert!(!directory.path().join("data").exists(), "a store was made for nobody");
}

/// `HENCE_TOKEN` once won over `--token-file`, on both sides.
#[test]
fn a_token_file_that_was_typed_wins_over_the_environment() {
    const TYPED: &str = "the-token-that-was-typed";
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("token");
    std::fs::write(&file, TYPED).unwrap();
    let file = file.to_str().unwrap();
    let elsewhere = ("HENCE_TOKEN", "the-token-of-the-environment");
    let mut command = serve(directory.path());
    command.args(["--token-file", file]).env(elsewhere.0, elsewhere.1);
    let server = Server::from(command, directory);
    let ask = |flags: &[&str]| {
        let mut command = server.command(&[&["jobs"], flags].concat());
        let asked = command.env(elsewhere.0, elsewhere.1).output().unwrap();
        (asked.status.code(), text(&asked.stderr))
    };
    for (flags, code) in [
        (&["--token", TYPED][..], 0),
        (&["--token-file", file], 0),
        (&[], 1),
        (&["--token", TYPED, "--token-file", file], 2),
    ] {
        let (got, said) = ask(flags);
        assert_eq!(got, Some(code), "{flags:?}: {said}");
    }
    let version = server.hence(&["version"]);
    assert_eq!(version.status.code(), Some(0), "{}", text(&version.stderr));
    assert!(text(&version.stdout).starts_with("hence "), "{}", text(&version.stdout));
    assert!(text(&version.stderr).contains("--token"), "{}", text(&version.stderr));
}

/// The line that says why was lost now and then: the process ended before it was written.
#[test]
fn a_server_that_has_to_end_says_why_in_the_last_line_of_its_log() {
    let directory = tempfile::tempdir().unwrap();
    let (log, jobs) = (directory.path().join("log"), directory.path().join("jobs.jsonl"));
    let job = format!("{{\"in\": \"1h\", \"payload_text\": \"{}\"}}\n", "x".repeat(900_000));
    std::fs::write(&jobs, job.repeat(8)).unwrap();
    let mut command = serve(directory.path());
    command.stderr(std::fs::File::create(&log).unwrap());
    let mut server = Server::from(command, directory);
    // What is open can be written, but when that is full no new file can be made. Moved in one
    // step: a file that it made meanwhile would keep a directory from being removed.
    let data = server.directory.path().join("data");
    std::fs::rename(&data, data.with_extension("gone")).unwrap();
    let add = || server.hence(&["add", "--many", jobs.to_str().unwrap()]).status.success();
    assert!((0..100).any(|_| !add()), "the server goes on without its directory");
    assert_eq!(server.wait(), Some(74));
    let log = std::fs::read_to_string(log).unwrap();
    let last = log.lines().last().unwrap_or_default();
    assert!(last.contains("the store failed for good: ending the process"), "{last}");
}
