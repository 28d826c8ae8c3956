//! `hence work`: a command for each job, and what its exit code means.

use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};

use crate::support::{Server, first_line, signal, text};

fn add(server: &Server, id: &str, more: &[&str]) {
    server.ok(&[&["add", "--worker", "--queue", "q", "--id", id], more].concat());
}

fn state(server: &Server, id: &str) -> String {
    let job = server.json(&["show", id, "--queue", "q"]);
    job["state"].as_str().unwrap().to_owned()
}

fn work(server: &Server, options: &[&str], script: &str) -> std::process::Output {
    server.hence(&[&["work", "q"], options, &["--", "sh", "-c", script]].concat())
}

#[test]
fn the_command_gets_the_payload_and_the_facts() {
    let server = Server::start();
    add(
        &server,
        "one",
        &["--payload", "{\"a\":  1.0}", "--keep-result", "--key", "k", "--retry-attempts", "7"],
    );
    let script = "cat; echo \" $HENCE_JOB_ID $HENCE_QUEUE $HENCE_KEY\" \
                  \"$HENCE_ATTEMPT/$HENCE_MAX_ATTEMPTS\"; \
                  test -n \"$HENCE_LEASE_TOKEN\" && test -n \"$HENCE_DUE_AT\"";
    let done = work(&server, &["--once", "--keep-output"], script);
    assert!(done.status.success(), "{}", text(&done.stderr));
    assert!(text(&done.stderr).contains("q/one attempt 1 done"), "{}", text(&done.stderr));
    let result = server.ok(&["show", "one", "--queue", "q", "--key", "k", "--result"]);
    assert_eq!(result, "{\"a\":  1.0} one q k 1/7\n");
    let shown = server.ok(&["show", "one", "--queue", "q", "--key", "k"]);
    assert!(shown.contains("\nresult, 24 B, "), "{shown}");
    assert!(shown.trim_end().ends_with("{\"a\":  1.0} one q k 1/7"), "{shown}");
}

#[test]
fn the_exit_code_decides() {
    let server = Server::start();
    add(&server, "fails", &["--retry-attempts", "1"]);
    let failed = work(&server, &["--once"], "echo first >&2; echo boom >&2; exit 3");
    assert_eq!(failed.status.code(), Some(1));
    let shown = server.json(&["show", "fails", "--queue", "q"]);
    assert_eq!(
        (shown["state"].as_str(), shown["finish"]["reason"].as_str()),
        (Some("dead"), Some("boom"))
    );
    let listed = server.ok(&["jobs", "--state", "dead"]);
    assert!(listed.contains("REASON") && listed.contains("boom"), "{listed}");
    add(&server, "not-now", &["--max-attempts", "1"]);
    assert!(!server.ok(&["jobs"]).contains("REASON"), "what waits has no reason");
    let given_back = work(&server, &["--once", "--retry-delay", "1h"], "exit 75");
    assert_eq!(given_back.status.code(), Some(1), "it is not done");
    assert!(text(&given_back.stderr).contains("1 job given back"), "{}", text(&given_back.stderr));
    let shown = server.json(&["show", "not-now", "--queue", "q"]);
    assert_eq!(shown["state"], "scheduled", "given back, though it had one attempt only");
    assert_eq!(shown["attempts"], 0);
}

#[test]
fn a_queue_is_drained_by_several_at_once() {
    let server = Server::start();
    for n in 0..20 {
        add(&server, &format!("j{n}"), &[]);
    }
    let done = work(&server, &["--drain", "--concurrency", "4"], "cat >/dev/null; echo done");
    assert!(done.status.success(), "{}", text(&done.stderr));
    assert_eq!(text(&done.stdout).lines().count(), 20);
    assert_eq!(server.ok(&["jobs", "--queue", "q", "--json"]), "");
}

#[test]
fn a_drained_queue_with_a_failed_attempt_is_told_to_the_shell() {
    let rows =
        [("exit 0", 0, ""), ("exit 75", 0, "1 job given back"), ("exit 3", 1, "1 attempt failed")];
    let server = Server::start();
    for (script, code, said) in rows {
        add(&server, "job", &["--retry-attempts", "1", "--on-conflict", "replace"]);
        let ended = work(&server, &["--drain", "--retry-delay", "1h"], script);
        let stderr = text(&ended.stderr);
        assert_eq!(ended.status.code(), Some(code), "{script}: {stderr}");
        assert!(stderr.contains(said), "{script}: {stderr}");
        assert_eq!(stderr.contains("failed"), code == 1, "{script}: {stderr}");
    }
}

/// A wrong path once cost every job of the queue all its attempts.
#[test]
fn a_command_that_cannot_be_started_costs_no_attempt() {
    let server = Server::start();
    let script = server.directory.path().join("no-interpreter");
    std::fs::write(&script, "#!/nonexistent/interpreter\n").unwrap();
    std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
    let rows = [
        ("/nonexistent/command", 2, "there is no such file"),
        (script.to_str().unwrap(), 74, "no-interpreter"),
    ];
    let manners = [&["--once"][..], &["--drain"], &[], &["--concurrency", "2"]];
    for (command, code, said) in rows {
        for (at, options) in manners.iter().enumerate() {
            let queue = format!("q{at}-{code}");
            let job = ["--worker", "--queue", &queue, "--id", "job", "--retry-attempts", "1"];
            server.ok(&[&["add"], &job[..]].concat());
            let ended = server.hence(&[&["work", &queue], *options, &["--", command]].concat());
            let stderr = text(&ended.stderr);
            assert_eq!(ended.status.code(), Some(code), "{command} {options:?}: {stderr}");
            assert!(stderr.contains(said), "{command} {options:?}: {stderr}");
            let shown = server.json(&["show", "job", "--queue", &queue]);
            assert_eq!(shown["attempts"], 0, "{command} {options:?}");
            let state = shown["state"].as_str().unwrap_or_default();
            assert!(["ready", "scheduled"].contains(&state), "{command} {options:?}: {state}");
        }
    }
}

#[test]
fn a_long_command_keeps_its_lease() {
    let server = Server::start();
    add(&server, "long", &["--retry-attempts", "1"]);
    // The lease would end three times over while the command runs.
    let done = work(&server, &["--once", "--lease", "400ms"], "sleep 1.5");
    assert!(done.status.success(), "{}", text(&done.stderr));
    assert_eq!(state(&server, "long"), "succeeded");
}

/// The worker once waited for the end of the output, which a child in the background holds open.
#[test]
fn a_command_is_done_when_it_ends_whatever_it_leaves_running() {
    let server = Server::start();
    for (id, options) in [("plain", &[][..]), ("kept", &["--keep-output"])] {
        add(&server, id, &["--keep-result"]);
        let (late, left) = (server.directory.path().join(id), server.directory.path().join("left"));
        let script = format!(
            "(sleep 20; touch {}) & echo $! > {}; echo said",
            late.display(),
            left.display()
        );
        let arguments = [&["work", "q", "--once"], options, &["--", "sh", "-c", &script]].concat();
        let mut command = server.command(&arguments);
        let done = command.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
        assert_eq!(done.code(), Some(0), "{id}");
        assert!(!late.exists(), "{id}: what it left behind was waited for");
        let left = std::fs::read_to_string(left).unwrap();
        let alive = Command::new("kill").arg(left.trim()).status().unwrap();
        assert!(alive.success(), "{id}: what it left behind was killed");
        assert_eq!(state(&server, id), "succeeded");
    }
    assert_eq!(server.ok(&["show", "kept", "--queue", "q", "--result"]), "said\n");
}

#[test]
fn a_cancelled_job_ends_its_command() {
    let server = Server::start();
    add(&server, "long", &[]);
    let mut worker = server
        .command(&[
            "work",
            "q",
            "--once",
            "--lease",
            "300ms",
            "--",
            "sh",
            "-c",
            "echo started; sleep 60",
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    assert_eq!(first_line(worker.stdout.take().unwrap()).as_deref(), Some("started"));
    server.ok(&["cancel", "long", "--queue", "q"]);
    assert_eq!(worker.wait().unwrap().code(), Some(1), "the command was killed, the worker ended");
    assert_eq!(state(&server, "long"), "cancelled");
}

#[test]
fn a_stopped_worker_finishes_or_gives_back() {
    let server = Server::start();
    for (id, grace, expected) in [("finished", "30s", "succeeded"), ("given-back", "0s", "ready")] {
        add(&server, id, &[]);
        let mut worker = started(server.command(&worker_of("echo started; sleep 1", grace)));
        signal(&worker, "TERM");
        assert_eq!(worker.wait().unwrap().code(), Some(0));
        assert_eq!(state(&server, id), expected);
    }
}

/// A closed terminal once ended the worker and left its command running, and the job ran twice.
#[test]
fn a_worker_whose_terminal_is_closed_leaves_no_command_behind() {
    let server = Server::start();
    for name in ["HUP", "QUIT", "INT", "TERM"] {
        add(&server, name, &[]);
        let file = server.directory.path().join(name);
        let script = format!("echo $$ > {}; echo started; sleep 60", file.display());
        let mut worker = started(server.command(&worker_of(&script, "0s")));
        let command = std::fs::read_to_string(&file).unwrap();
        signal(&worker, name);
        assert_eq!(worker.wait().unwrap().code(), Some(0), "{name}");
        let probe = Command::new("kill").args(["-0", command.trim()]).output().unwrap();
        assert!(!probe.status.success(), "{name}: the command runs on");
        assert_eq!(state(&server, name), "ready");
        server.ok(&["cancel", name, "--queue", "q"]);
    }
}

#[test]
fn a_worker_under_nohup_outlives_its_terminal() {
    let server = Server::start();
    add(&server, "job", &[]);
    let worker = worker_of("echo started; sleep 1", "0s");
    let mut nohup = Command::new("nohup");
    nohup.env("HENCE_SERVER", &server.base).arg(env!("CARGO_BIN_EXE_hence")).args(worker);
    let mut worker = started(nohup);
    signal(&worker, "HUP");
    server.ok(&["watch", "job", "--queue", "q"]);
    assert_eq!(state(&server, "job"), "succeeded");
    signal(&worker, "TERM");
    assert_eq!(worker.wait().unwrap().code(), Some(0));
}

fn worker_of<'a>(script: &'a str, grace: &'a str) -> [&'a str; 8] {
    ["work", "q", "--grace", grace, "--", "sh", "-c", script]
}

/// A worker whose command has said that it runs.
fn started(mut worker: Command) -> Child {
    let worker = worker.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut worker = worker.spawn().unwrap();
    assert_eq!(first_line(worker.stdout.take().unwrap()).as_deref(), Some("started"));
    worker
}
