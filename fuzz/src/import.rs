//! Lines of an export, as `hence store import` reads them.
//!
//! The command line is a binary and cannot be linked against, so its two files are compiled here
//! once more.

#[expect(dead_code, reason = "the part that writes is not fuzzed")]
#[path = "../../crates/cli/src/commands/store/job_record.rs"]
mod job_record;
#[expect(dead_code, reason = "the part that writes is not fuzzed")]
#[path = "../../crates/cli/src/commands/store/record.rs"]
mod record;

use record::Record;

/// One line: what is understood is written as a line that says the same.
pub(crate) fn line(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(record) = serde_json::from_str::<Record>(text) else { return };
    let written = serde_json::to_string(&record).expect("a record can be written");
    let again = serde_json::from_str::<Record>(&written);
    assert_eq!(again.as_ref().ok(), Some(&record), "{text} -> {written}");
    match record {
        Record::Job(job) => drop(job.into_job()),
        Record::Schedule(schedule) => drop(schedule.into_state()),
        Record::Queue(queue) => drop(queue.settings()),
        Record::Occurrence(occurrence) => drop(occurrence.into_record()),
        Record::Header(_) | Record::End(_) => {}
    }
}
