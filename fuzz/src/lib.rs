//! Whatever reads bytes of strangers, as functions to be fuzzed.
//!
//! A target takes any bytes and returns; a panic, a hang or a flood of memory is a bug. Where two
//! ways of reading must agree, or what was read must be written the same again, the target says so
//! with an assertion. `cargo xtask fuzz` runs them under libFuzzer (`runner/`), and
//! `tests/corpus.rs` replays the corpus, which any machine can do.

mod import;
mod records;
mod stores;
mod times;

use hence_server::config::StoreChoice;

/// A target: its name, which is also that of its corpus, and what it does with bytes.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: [Target; 19] = [
    ("record", records::record),
    ("log", stores::log),
    ("table", stores::table),
    ("manifest", stores::manifest),
    ("http_job", hence_server::fuzzing::job),
    ("http_lease", hence_server::fuzzing::lease),
    ("http_settings", hence_server::fuzzing::settings),
    ("http_head", hence_server::fuzzing::head),
    ("letter", hence_server::fuzzing::letter),
    ("url", url),
    ("store_url", store_url),
    ("config", config),
    ("import_line", import::line),
    ("instant", times::instant),
    ("span", times::span),
    ("recurrence", times::recurrence),
    ("cron", times::cron),
    ("holidays", times::holidays),
    ("date", times::date),
];

/// The target of a job, given as the API takes it.
fn url(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let job = serde_json::json!({ "url": text });
    hence_server::fuzzing::job(job.to_string().as_bytes());
}

/// A configuration file: what is accepted can be printed, and the print is accepted.
fn config(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let Ok(config) = hence_server::Config::from_text(&text) else { return };
    let printed = config.print();
    let again = hence_server::Config::from_text(&printed);
    assert!(again.is_ok(), "refused what was printed: {:?}\n{printed}", again.err());
}

/// The address of a store, and a password that somebody forgot to escape: it is never shown.
fn store_url(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    drop(StoreChoice::parse_or_directory(&text).map(|choice| choice.to_string()));
    let (before, after) = text.split_at(text.char_indices().nth(3).map_or(0, |(at, _)| at));
    for (login, host) in [(":", "@db/jobs"), (":", "@db/jobs?schema=x"), ("@db/jobs?password=", "")]
    {
        let url = format!("postgres://me{login}{before}{SECRET}{after}{host}");
        let shown = match StoreChoice::parse(&url) {
            Ok(choice) => format!("{choice} {choice:?}"),
            Err(problem) => problem,
        };
        assert!(!shown.contains(SECRET), "{url} is shown as {shown}");
    }
}

/// Part of a password, and of nothing else.
const SECRET: &str = "s3cr3t";
