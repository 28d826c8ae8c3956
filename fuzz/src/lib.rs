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

/// A target: its name, which is also that of its corpus, and what it does with bytes.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: [Target; 17] = [
    ("record", records::record),
    ("log", stores::log),
    ("table", stores::table),
    ("manifest", stores::manifest),
    ("http_job", hence_server::fuzzing::job),
    ("http_lease", hence_server::fuzzing::lease),
    ("http_settings", hence_server::fuzzing::settings),
    ("http_head", hence_server::fuzzing::head),
    ("url", url),
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
    // A token is not printed; any other will do.
    let printed = config.print().replace("***", "0123456789abcdef");
    let again = hence_server::Config::from_text(&printed);
    assert!(again.is_ok(), "refused what was printed: {:?}\n{printed}", again.err());
}
