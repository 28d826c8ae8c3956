//! A job's life through the command line.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::{DEADLINE, Server, hence, receiver, text};

#[test]
fn a_job_added_is_a_job_delivered() {
    let server = Server::start();
    let (url, requests) = receiver(&[200]);
    let payload = r#"{"user":  7, "n": 1.0}"#;
    let id = server.ok(&["add", &url, "--in", "50ms", "--payload", payload, "-H", "X-Trace: abc"]);
    let request = requests.recv_timeout(DEADLINE).unwrap();
    assert!(request.starts_with("POST /hook "), "{request}");
    assert!(request.ends_with(payload), "byte by byte: {request}");
    assert!(request.to_lowercase().contains("x-trace: abc"), "{request}");
    assert!(request.to_lowercase().contains("content-type: application/json"), "{request}");
    let watched = server.ok(&["watch", id.trim()]);
    assert!(watched.contains("succeeded attempt 1") && watched.contains("late)"), "{watched}");
    let shown = server.ok(&["show", id.trim()]);
    assert!(shown.contains("succeeded") && shown.contains("1 of 10"), "{shown}");
}

#[test]
fn a_failing_job_is_retried_dies_and_is_replayed() {
    let server = Server::start();
    let (url, requests) = receiver(&[503, 500, 200]);
    let retry = ["--retry-attempts", "2", "--retry-fixed", "10ms", "--retry-jitter", "0"];
    let id = server.ok(&[&["add", url.as_str(), "--id", "flaky"], &retry[..]].concat());
    assert_eq!(id.trim(), "flaky");
    let watched = server.hence(&["watch", "flaky"]);
    assert_eq!(
        watched.status.code(),
        Some(1),
        "a dead job is a failure: {}",
        text(&watched.stderr)
    );
    assert!(text(&watched.stdout).contains("failed attempt 2"), "{}", text(&watched.stdout));
    let dead = server.json(&["jobs", "--state", "dead"]);
    assert_eq!(dead["id"], "flaky");
    assert_eq!(server.ok(&["replay", "--state", "dead", "--yes"]).trim(), "1 job brought back");
    server.ok(&["watch", "flaky"]);
    assert_eq!(requests.iter().take(3).count(), 3);
}

/// A job that was dead could not be removed, and to cancel it was said to come too late.
#[test]
fn what_has_ended_is_forgotten_and_not_cancelled() {
    let server = Server::start();
    let (url, _requests) = receiver(&[500, 500, 500]);
    for id in ["a", "b", "c"] {
        server.ok(&["add", url.as_str(), "--id", id, "--retry-attempts", "1"]);
        server.hence(&["watch", id]);
    }
    for (verb, hint) in [("cancel", "hence forget"), ("run", "hence replay")] {
        let refused = server.hence(&[verb, "--state", "dead", "--yes"]);
        assert_eq!(refused.status.code(), Some(1), "{verb}");
        let said = text(&refused.stderr);
        assert!(said.contains("3 jobs could not be") && said.contains(hint), "{said}");
    }
    assert_eq!(server.ok(&["forget", "a"]).trim(), "a");
    assert_eq!(server.ok(&["forget", "--state", "dead", "--yes"]).trim(), "2 jobs forgotten");
    assert_eq!(server.ok(&["jobs", "--state", "dead", "--json"]), "");
    server.ok(&["add", "--worker", "--in", "1h", "--id", "d"]);
    assert_eq!(server.hence(&["forget", "d"]).status.code(), Some(1), "it has not ended");
}

#[test]
fn jobs_are_listed_shown_rescheduled_and_cancelled() {
    let server = Server::start();
    for id in ["a", "b", "c"] {
        let place = ["--queue", "mail", "--key", "user/7", "--id", id];
        server.ok(&[&["add", "--worker", "--in", "1h", "--payload", "hi"], &place[..]].concat());
    }
    let listed = server.ok(&["jobs", "--queue", "mail"]);
    assert_eq!(listed.lines().count(), 4, "a heading and three jobs: {listed}");
    assert!(listed.contains("in 1 h") && listed.contains("user/7"), "{listed}");
    let lines = server.ok(&["jobs", "--all", "--json"]);
    assert_eq!(lines.lines().count(), 3);
    let one = ["--queue", "mail", "--key", "user/7"];
    assert_eq!(server.json(&[&["show", "a"], &one[..]].concat())["state"], "scheduled");
    assert_eq!(server.ok(&[&["show", "a", "--payload"], &one[..]].concat()), "hi");
    server.ok(&[&["run", "a"], &one[..]].concat());
    assert_eq!(server.json(&[&["show", "a"], &one[..]].concat())["state"], "ready");
    server.ok(&[&["cancel", "a"], &one[..]].concat());
    assert_eq!(server.json(&[&["show", "a"], &one[..]].concat())["state"], "cancelled");
    let refused = server.hence(&["cancel", "--queue", "mail"]);
    assert_eq!(refused.status.code(), Some(1), "nobody to ask");
    assert!(text(&refused.stderr).contains("--yes"));
    assert_eq!(server.ok(&["cancel", "--queue", "mail", "--yes"]).trim(), "2 jobs cancelled");
}

/// The list said that no jobs match, and nothing of the dead one that was looked for.
#[test]
fn an_empty_list_says_where_the_ended_are() {
    let server = Server::start();
    for (arguments, said) in [
        (&["jobs"][..], "--state succeeded,dead,cancelled,expired"),
        (&["jobs", "--state", "dead"], "no jobs match"),
    ] {
        let output = server.hence(arguments);
        let talk = text(&output.stderr);
        assert!(output.status.success() && talk.contains(said), "{arguments:?}: {talk}");
    }
}

#[test]
fn many_jobs_come_from_a_file_and_bad_lines_are_named() {
    let server = Server::start();
    let file = server.directory.path().join("jobs.jsonl");
    let mut lines: Vec<String> =
        (0..1_201).map(|n| format!("{{\"id\": \"j{n}\", \"in\": \"1h\"}}")).collect();
    std::fs::write(&file, lines.join("\n")).unwrap();
    let file = file.to_str().unwrap();
    assert_eq!(server.ok(&["add", "--many", file]).lines().count(), 1_201);
    assert_eq!(server.ok(&["jobs", "--all", "--json"]).lines().count(), 1_201);
    lines.truncate(2);
    lines.push(r#"{"id": "bad", "in": "soon"}"#.to_owned());
    std::fs::write(file, lines.join("\n")).unwrap();
    let output = server.hence(&["add", "--many", file]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(
        said.contains("line 3: in is not understood")
            && said.contains("2 jobs accepted, 1 refused"),
        "{said}"
    );
}

/// A line that was no JSON once ended it half way, without a word about what was accepted.
#[test]
fn a_broken_line_does_not_keep_the_others_from_being_scheduled() {
    let server = Server::start();
    let file = server.directory.path().join("jobs.jsonl");
    let lines: [&[u8]; 5] =
        [b"{\"id\": \"a\"}", b"{\"id\": ", b"\xff\xfe", b"{\"in\": \"soon\"}", b"{\"id\": \"b\"}"];
    std::fs::write(&file, lines.join(&b"\n"[..])).unwrap();
    let file = file.to_str().unwrap();
    let plain = server.hence(&["add", "--many", file]);
    let said = text(&plain.stderr);
    assert_eq!((plain.status.code(), text(&plain.stdout).as_str()), (Some(1), "a\nb\n"), "{said}");
    for words in ["line 2: not JSON: EOF", "line 3: not JSON", "line 4: in is not understood"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert!(said.contains("2 jobs accepted, 3 refused"), "{said}");
    let json = server.hence(&["add", "--many", file, "--json"]);
    let documents = text(&json.stderr);
    let documents = documents.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let lines: Vec<Value> = documents.map(|document| document["line"].clone()).collect();
    assert_eq!(lines, [json!(2), json!(3), json!(4), Value::Null], "the last one is the failure");
    let unreached = hence().args(["add", "--many", file, "--server", "127.0.0.1:1"]).output();
    let unreached = unreached.unwrap();
    assert_eq!(unreached.status.code(), Some(4));
    assert!(text(&unreached.stderr).contains("0 jobs accepted until then"));
}

/// The server closes on a body that it will not read, and its 413 is lost to whoever still writes:
/// that was once "the server does not answer: Broken pipe", with 4.
#[test]
fn a_body_that_is_too_large_is_called_that() {
    let server = Server::start();
    let file = server.directory.path().join("payload");
    let file = file.to_str().unwrap();
    for mebibytes in [2, 9, 15] {
        std::fs::write(file, "x".repeat(mebibytes << 20)).unwrap();
        let refused = server.hence(&["add", "--worker", "--payload-file", file]);
        let said = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(1), "{mebibytes} MiB: {said}");
        let known = ["too large", "bytes are allowed"].iter().any(|words| said.contains(words));
        assert!(known, "{mebibytes} MiB: {said}");
    }
    let closing = stranger(|head| (!head.starts_with("POST")).then_some("HTTP/1.1 200 OK"));
    let add = ["add", "--worker", "--payload-file", file, "--server"];
    let refused = hence().args(add).arg(closing).output().unwrap();
    let said = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("probably too large") && said.contains("--max-body-bytes"), "{said}");
    let gone = stranger(|_| None);
    let gone = hence().args(add).arg(gone).output();
    assert_eq!(gone.unwrap().status.code(), Some(4), "who closes on everything is not there");
}

/// A page that was not found was once a job that was not found.
#[test]
fn another_server_is_not_taken_for_one_without_the_job() {
    let other = stranger(|_| Some("HTTP/1.1 404 Not Found"));
    for command in [&["jobs"][..], &["show", "x"], &["queues"], &["doctor"]] {
        let output = hence().args(command).args(["--server", &other]).output().unwrap();
        let said = text(&output.stdout) + &text(&output.stderr);
        assert_eq!(output.status.code(), Some(4), "{command:?}: {said}");
        assert!(said.contains("does not look like a Hence server"), "{command:?}: {said}");
        assert!(said.contains("fix: correct the address"), "{command:?}: {said}");
    }
    let other = stranger(|_| Some("HTTP/1.1 502 Bad Gateway"));
    let output = hence().args(["doctor", "--server", &other]).output().unwrap();
    assert!(text(&output.stdout).contains("fix: look whether"), "{}", text(&output.stdout));
}

/// A server that reads the head of a request only, and answers with what is made of it or closes.
fn stranger(answer: fn(&str) -> Option<&'static str>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let lines = BufReader::new(&stream).lines().map_while(Result::ok);
            let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
            if let Some(status) = answer(&head.join("\n")) {
                let text =
                    format!("{status}\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{{}}");
                let _ = (&stream).write_all(text.as_bytes());
            }
        }
    });
    base
}

/// `hence add --many FILE | head -1` once scheduled the first batch only, and ended with 0.
#[test]
fn many_jobs_are_scheduled_though_nobody_reads_their_ids() {
    let server = Server::start();
    let file = server.directory.path().join("jobs.jsonl");
    let mut lines: Vec<String> = (0..1_201).map(|n| format!("{{\"id\": \"j{n}\"}}")).collect();
    lines.push(r#"{"id": "bad", "in": "soon"}"#.to_owned());
    for (count, code) in [(1_201, 0), (1_202, 1)] {
        std::fs::write(&file, lines[..count].join("\n")).unwrap();
        let mut command = server.command(&["add", "--many", file.to_str().unwrap()]);
        let mut adding = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(adding.stdout.take());
        let ended = adding.wait_with_output().unwrap();
        let said = text(&ended.stderr);
        assert_eq!(ended.status.code(), Some(code), "{said}");
        assert!(said.contains("1201 jobs accepted"), "{said}");
    }
    assert_eq!(server.ok(&["jobs", "--all", "--json"]).lines().count(), 1_201);
}

#[test]
fn refusals_and_absences_have_their_exit_codes() {
    let server = Server::start();
    let check = |arguments: &[&str], code: i32, words: &str| {
        let output = server.hence(arguments);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
        assert!(said.contains(words), "{arguments:?} does not say {words}: {said}");
        assert!(output.stdout.is_empty(), "{arguments:?} printed data");
    };
    check(&["add", "ftp://nowhere"], 1, "(field target.http.url)");
    check(&["add", "http://a/", "--in", "soon"], 1, "in is not understood\n  soon\n  ^^^^ ");
    check(&["add", "http://a/", "--in", "soon", "--json"], 1, "\"field\":\"in\"");
    check(&["show", "nothing"], 3, "fix: ");
    check(&["schedules", "show", "nothing"], 3, "no such schedule");
    check(&["schedules", "show", "nothing"], 3, "`hence schedules` lists them");
    check(&["queues", "remove", "nothing"], 3, "`hence queues` lists those");
    check(&["jobs", "--state", "asleep"], 2, "possible values");
    check(&["jobs", "--limit", "0"], 2, "--limit");
    for port in ["99999", "-1", "x", ""] {
        check(&["jobs", "--server", &format!("http://127.0.0.1:{port}")], 2, "write it like");
    }
    check(&["add", "http://a/", "--payload-file", "/nonexistent"], 74, "/nonexistent");
    let nobody = hence().args(["jobs", "--server", "http://127.0.0.1:1"]).output().unwrap();
    assert_eq!(nobody.status.code(), Some(4));
    assert!(text(&nobody.stderr).contains("hence serve"));
}

#[test]
fn queues_and_schedules_are_managed() {
    let server = Server::start();
    server.ok(&["add", "--worker", "--queue", "mail"]);
    server.ok(&["queues", "set", "mail", "--concurrency", "5", "--rate", "10/s"]);
    let listed = server.ok(&["queues", "pause", "mail"]);
    assert!(listed.contains("paused out, 5 at once, 10 per 1s"), "{listed}");
    server.ok(&["queues", "resume", "mail"]);
    assert_eq!(server.json(&["queues", "show", "mail"])["paused_out"], false);
    let tick = ["schedules", "put", "tick", "--when", "@every 1h", "--worker", "--queue", "mail"];
    server.ok(&tick);
    let triggered = server.json(&["schedules", "trigger", "tick"]);
    assert_eq!(triggered["queue"], "mail");
    let occurrence = server.json(&["schedules", "occurrences", "tick"]);
    assert_eq!(occurrence["fate"], "triggered");
    let paused = server.ok(&["schedules", "pause", "tick", "--note", "too loud"]);
    assert!(paused.contains("too loud"), "{paused}");
    assert!(server.ok(&["schedules"]).contains("paused: too loud"));
    assert!(server.ok(&["schedules", "resume", "tick"]).contains("in 1 h"));
    server.ok(&["schedules", "remove", "tick"]);
    assert_eq!(server.ok(&["schedules", "list", "--json"]), "");
    let overview = server.ok(&["watch", "--times", "1"]);
    assert!(overview.contains("mail"), "{overview}");
}

#[test]
fn the_doctor_finds_nothing_and_then_something() {
    let server = Server::start();
    assert!(server.ok(&["doctor"]).lines().all(|line| line.starts_with("ok")));
    let (url, _requests) = receiver(&[410]);
    server.ok(&["add", &url, "--id", "gone"]);
    server.hence(&["watch", "gone"]);
    let found = server.ok(&["doctor"]);
    assert!(
        found.contains("warn  dead: 1 job failed for good") && found.contains("fix: "),
        "{found}"
    );
    server.ok(&["add", "--handler", "nope", "--id", "lost"]);
    let found = server.ok(&["doctor"]);
    let lost = "warn  handlers: 1 job cannot start, no such handler is registered: nope";
    assert!(found.contains(lost), "{found}");
    let shown = server.ok(&["show", "lost"]);
    assert!(shown.contains("a handler called nope to be registered"), "{shown}");
    let nobody = hence().args(["doctor", "--server", "http://127.0.0.1:1"]).output().unwrap();
    assert_eq!(nobody.status.code(), Some(4));
    assert!(text(&nobody.stdout).starts_with("fail  server:"));
    let version = server.json(&["version"]);
    assert_eq!(version["client"], version["server"]);
}

#[test]
fn schedules_are_put_in_words_and_accounted_for() {
    let server = Server::start();
    let put = ["schedules", "put", "report", "--worker", "--tz", "Europe/Paris"];
    let with = |more: &[&'static str]| [&put[..], more].concat();
    let shown = server.ok(&with(&[
        "--when",
        "every weekday at 9am",
        "--misfire",
        "all 10s apart",
        "--overlap",
        "queue-one",
        "--spread",
        "5m",
    ]));
    for part in ["0 9 * * MON-FRI", "all 10s apart", "queue_one", "Europe/Paris", "5m"] {
        assert!(shown.contains(part), "{part} in {shown}");
    }
    for (more, expected) in [
        (["--when", "evry day"], "  evry day\n  ^^^^ "),
        (["--every", "day at 25:00"], "when is not understood"),
    ] {
        let refused = server.hence(&with(&more));
        assert_eq!(refused.status.code(), Some(1), "{more:?}");
        assert!(text(&refused.stderr).contains(expected), "{}", text(&refused.stderr));
    }
    server.ok(&["schedules", "trigger", "report"]);
    server.ok(&["schedules", "trigger", "report"]);
    let history = server.ok(&["schedules", "history", "report", "--oldest", "--fate", "triggered"]);
    assert_eq!(history.lines().count(), 3, "{history}");
    let none = server.ok(&["schedules", "history", "report", "--fate", "late", "--json"]);
    assert_eq!(none, "");
    let filled = server.json(&["schedules", "backfill", "report", "--from", "now"]);
    assert_eq!(filled["backfill"]["ticks"], 0);
    let forecast = server.json(&["forecast", "report", "--minutes", "10080"]);
    // The edge of the week may fall between a tick and its job.
    assert!(matches!(forecast["total"].as_u64(), Some(4 | 5)), "{forecast}");
    assert!(server.ok(&["forecast", "--minutes", "10080"]).contains('█'));
    assert!(server.ok(&["doctor"]).contains("ok    schedules: 1 with a next tick"));
}
