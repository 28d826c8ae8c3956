//! Faults of the disk: full, failing, damaged.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use hence_e2e::suite::{Ended, has_program};
use hence_e2e::{Receiver, Server, Setup, clock, server};
use serde_json::json;

const SOON: Duration = Duration::from_secs(20);

/// Room for the log's reserve of 64 MiB and a little more.
const DISK_MIB: u64 = 144;

/// Segments of the log when its reserve is whole: the one that is written to, and four.
const SEGMENTS: usize = 5;

/// A small file system in memory; gone with its value.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount() -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let size = format!("size={DISK_MIB}m");
        let args = ["-t", "tmpfs", "-o", &size, "tmpfs"];
        let output = Command::new("mount").args(args).arg(dir.path()).output()?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.success(), "mount says: {}", said.trim());
        Ok(SmallDisk(dir))
    }

    /// How many segments of the log there are.
    fn segments(&self) -> usize {
        let Ok(entries) = fs::read_dir(self.0.path().join("data")) else { return 0 };
        let is_segment = |path: &Path| path.extension().is_some_and(|ending| ending == "log");
        entries.flatten().filter(|entry| is_segment(&entry.path())).count()
    }

    /// Takes all space that is left.
    fn fill(&self) -> Result<PathBuf> {
        let path = self.0.path().join("filler");
        let mut file = fs::File::create(&path)?;
        let chunk = vec![1; 64 * 1024];
        while file.write_all(&chunk).is_ok() {}
        Ok(path)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: a process that is just ending may still have it open.
        drop(Command::new("umount").arg("--lazy").arg(self.0.path()).status());
    }
}

/// The disk is full: new work is refused with 507, accepted work is delivered and finished, and
/// when there is room again new work is taken, all by the same process.
pub(crate) fn a_full_disk_refuses_work_and_goes_on() -> Result<Ended> {
    let disk = match SmallDisk::mount() {
        Ok(disk) => disk,
        Err(error) => return Ok(Ended::Skipped(format!("no small disk: {error}"))),
    };
    let setup = Setup { data: Some(disk.0.path().join("data")), ..Setup::default() };
    let mut server = Server::start_with(setup)?;
    let result = live_on_a_full_disk(&server, &disk);
    server.explain(result)?;
    server.kill()?;
    server.restart()?;
    ensure!(server.api().state("afterwards?queue=q")? == "ready");
    Ok(Ended::Passed)
}

fn live_on_a_full_disk(server: &Server, disk: &SmallDisk) -> Result<()> {
    let receiver = Receiver::start()?;
    let mut api = server.api();
    // Filled any earlier, the disk would have no reserve from which work could be finished.
    let reserved = clock::until(SOON, || (disk.segments() >= SEGMENTS).then_some(()));
    reserved.context("the log's reserve was never made")?;
    let filler = disk.fill()?;
    let pid = server.pid();
    // Jobs of half a megabyte until there is no room for more.
    let payload = "x".repeat(512 * 1024);
    let mut accepted = 0;
    let refused = loop {
        let job = json!({"id": format!("j{accepted}"), "queue": "q", "payload_text": payload});
        let answer = api.post("/v1/jobs", &job)?;
        match answer.status {
            201 => accepted += 1,
            507 => break answer,
            other => bail!("answered {other}: {:?}", answer.value()),
        }
        ensure!(accepted < 400, "never refused on a disk of {DISK_MIB} MiB");
    };
    ensure!(refused.header("retry-after").is_some(), "it says when to try again: {refused:?}");
    ensure!(accepted > 10, "some were accepted: {accepted}");
    ensure!(api.get("/live")?.status == 200, "it lives");
    // What was accepted goes on.
    let first = api.lease(&json!({"queue": "q", "max": 5, "lease": "60s"}))?;
    ensure!(first.len() == 5, "handed out on a full disk: {}", first.len());
    for job in &first {
        let token = job["token"].as_str().unwrap_or_default();
        let answer = api.post(&format!("/v1/leases/{token}/ack"), &json!({}))?;
        ensure!(matches!(answer.status, 200 | 204), "finished on a full disk: {answer:?}");
    }
    for n in 0..5 {
        ensure!(api.state(&format!("j{n}?queue=q"))? == "succeeded", "j{n}");
    }
    // Room again.
    fs::remove_file(filler)?;
    let taken = clock::until(SOON, || {
        let job = json!({"id": "afterwards", "queue": "q"});
        api.post("/v1/jobs", &job).ok().filter(|answer| answer.status == 201)
    });
    taken.context("new work is not taken although there is room again")?;
    ensure!(server.pid() == pid, "the same process");
    api.submit(&json!({"id": "fires", "url": receiver.url("/")}))?;
    receiver.wait_for("fires", 1, SOON)?;
    Ok(())
}

/// The disk reports an error when asked to make things durable: the process ends within a second
/// and says so with 74; nothing that it had acknowledged is missing afterwards.
pub(crate) fn a_failed_sync_ends_the_process() -> Result<Ended> {
    if !has_program("strace") {
        return Ok(Ended::Skipped("strace is not installed".to_owned()));
    }
    let mut server = Server::start()?;
    let receiver = Receiver::start()?;
    let mut accepted = Vec::new();
    for n in 0..50 {
        let id = format!("before-{n}");
        server.api().submit(&json!({"id": id, "in": "5s", "url": receiver.url("/")}))?;
        accepted.push(id);
    }
    let mut strace = match inject_sync_errors(server.pid()) {
        Ok(strace) => strace,
        Err(error) => return Ok(Ended::Skipped(format!("strace cannot attach: {error}"))),
    };
    let asked = Instant::now();
    let answer =
        server.api().submit(&json!({"id": "doubtful", "in": "5s", "url": receiver.url("/")}));
    let ended = server.wait_end(Duration::from_secs(10));
    let took = asked.elapsed();
    drop(strace.kill());
    strace.wait()?;
    let ended = ended?;
    ensure!(answer.is_err(), "nothing may be acknowledged: {answer:?}");
    ensure!(ended.code() == Some(74), "ended with {ended}:\n{}", server.log_tail());
    ensure!(took < Duration::from_secs(2), "it took {took:?}");
    server.restart()?;
    for id in accepted {
        let arrival = receiver.wait_for(&id, 1, SOON)?;
        ensure!(arrival.len() == 1, "once: {arrival:?}");
    }
    Ok(Ended::Passed)
}

/// Makes every sync of a running process fail from now on.
fn inject_sync_errors(pid: u32) -> Result<Child> {
    let mut strace = Command::new("strace")
        .args(["-f", "-qq", "-e", "trace=fsync,fdatasync"])
        .args(["-e", "inject=fsync,fdatasync:error=EIO", "-o", "/dev/null", "-p"])
        .arg(pid.to_string())
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let attached = clock::until(Duration::from_secs(5), || all_traced(pid).then_some(()));
    if attached.is_none() {
        drop(strace.kill());
        strace.wait()?;
        bail!("not attached within 5 s");
    }
    Ok(strace)
}

fn all_traced(pid: u32) -> bool {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let mut states = tasks.map(|task| {
        let status = fs::read_to_string(task.path().join("status")).unwrap_or_default();
        !status.contains("TracerPid:\t0\n")
    });
    states.all(|traced| traced)
}

/// Bytes behind the last whole record, as a power cut leaves them: dropped, and nothing else with
/// them.
pub(crate) fn a_torn_tail_is_dropped() -> Result<Ended> {
    let mut server = Server::start()?;
    for n in 0..20 {
        server
            .api()
            .submit(&json!({"id": format!("j{n}"), "queue": "q", "payload_text": "hello"}))?;
    }
    server.kill()?;
    let (log, end) = last_log(server.data())?;
    let torn: Vec<u8> = (1..=200).collect();
    OpenOptions::new()
        .write(true)
        .open(&log)?
        .write_all_at(&torn, end.next_multiple_of(8) + 512)?;
    server.restart()?;
    for n in 0..20 {
        ensure!(server.api().state(&format!("j{n}?queue=q"))? == "ready", "j{n} is there");
    }
    server.api().submit(&json!({"id": "next", "queue": "q"}))?;
    server.kill()?;
    server.restart()?;
    ensure!(server.api().state("next?queue=q")? == "ready", "written behind the torn bytes");
    Ok(Ended::Passed)
}

/// A byte is flipped among older records: the check names file and offset, the server refuses to
/// start, and repair says what it gave up.
pub(crate) fn damage_in_the_middle_is_named_and_refused() -> Result<Ended> {
    let mut server = Server::start()?;
    for n in 0..50 {
        server
            .api()
            .submit(&json!({"id": format!("j{n}"), "queue": "q", "payload_text": "hello"}))?;
    }
    server.kill()?;
    let (log, end) = last_log(server.data())?;
    flip(&log, end / 2)?;
    let data = server.data().to_str().context("a plain path")?.to_owned();
    let name = log.file_name().and_then(|name| name.to_str()).context("a plain name")?;
    let check = server::hence(&["store", "check", &data])?;
    let said = said(&check);
    ensure!(!check.status.success(), "damage is not fine: {said}");
    ensure!(said.contains(name), "it names the file {name}: {said}");
    ensure!(said.chars().any(|c| c.is_ascii_digit()), "and the offset: {said}");
    let serve = server::hence(&["serve", "--listen", "127.0.0.1:0", "--data", &data])?;
    let refused = self::said(&serve);
    ensure!(!serve.status.success() && refused.contains(name), "the server refuses: {refused}");
    let repair = server::hence(&["store", "repair", &data, "--yes"])?;
    ensure!(repair.status.success(), "repair: {}", self::said(&repair));
    server.restart()?;
    let listed = server.api().get("/v1/jobs?queue=q&limit=100")?.expect(200)?;
    let left = listed["jobs"].as_array().map_or(0, Vec::len);
    ensure!(left > 0, "what was whole is still there: {left}");
    Ok(Ended::Passed)
}

fn said(output: &std::process::Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    format!("{}{}", String::from_utf8_lossy(out), String::from_utf8_lossy(err))
}

/// The segment of the log that was written last, and where its bytes end.
fn last_log(data: &Path) -> Result<(PathBuf, u64)> {
    let mut found = None;
    for entry in fs::read_dir(data)? {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "log") {
            continue;
        }
        let bytes = fs::read(&path)?;
        let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |at| at as u64 + 1);
        // A spare has a head of 64 bytes and nothing behind it.
        if end > 64 && found.as_ref().is_none_or(|(other, _)| *other < path) {
            found = Some((path, end));
        }
    }
    found.context("no segment of the log has anything in it")
}

fn flip(path: &Path, at: u64) -> Result<()> {
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    let mut byte = [0];
    file.read_exact_at(&mut byte, at)?;
    byte[0] ^= 0xff;
    file.write_all_at(&byte, at)?;
    Ok(())
}
