//! S10: what was given comes back, byte by byte.

use std::sync::Arc;

use bytes::Bytes;
use hence_core::id::{HandlerName, JobName};
use hence_core::job::{
    Finish, HttpTarget, Job, KeyOnFailure, Occurrence, OnUnknown, Outcome, Payload, Target,
};
use hence_core::limits;
use hence_core::retry::{Backoff, RetryPolicy};
use hence_core::time::Millis;

use super::build::{at, finish, finished, job, later, main_queue, name, named, put, schedule_id};
use super::fixture::Fixture;
use super::table;
use crate::{Place, StoredJob};

table! { "bytes":
    S10 nothing every_byte_value_comes_back;
    S10 nothing an_empty_payload_stays_empty;
    S10 nothing zeroes_at_the_ends_are_kept;
    S10 nothing the_largest_payload_comes_back;
    S10 nothing results_and_reasons_come_back;
    S10 nothing content_types_come_back;
    S10 nothing names_of_any_script_come_back;
    S10 nothing the_longest_names_come_back;
    S10 nothing every_field_of_a_job_comes_back;
    S10 nothing every_target_and_backoff_comes_back;
}

async fn every_byte_value_comes_back(mut fixture: Fixture) {
    let bytes: Vec<u8> = (0..=255).chain((0..=255).rev()).collect();
    check_payload(&mut fixture, bytes).await;
}

async fn an_empty_payload_stays_empty(mut fixture: Fixture) {
    check_payload(&mut fixture, Vec::new()).await;
}

async fn zeroes_at_the_ends_are_kept(mut fixture: Fixture) {
    check_payload(&mut fixture, b"\0\0a\0b\n\r\0\0".to_vec()).await;
}

async fn the_largest_payload_comes_back(mut fixture: Fixture) {
    let byte = |n: usize| (n.wrapping_mul(2_654_435_761) >> 13) as u8;
    check_payload(&mut fixture, (0..limits::PAYLOAD_BYTES_MAX).map(byte).collect()).await;
}

/// Puts a job with this payload and reads it in every way there is, live and finished.
async fn check_payload(fixture: &mut Fixture, bytes: Vec<u8>) {
    let payload = Payload { bytes: Bytes::from(bytes), content_type: None };
    check_job(fixture, &Job { payload, ..job(1) }).await;
}

async fn check_job(fixture: &mut Fixture, job: &Job) {
    fixture.commit(vec![put(job)]).await;
    // Not assert_eq: a megabyte of difference helps nobody.
    assert!(*fixture.live(job).await.job == *job, "get gives something else");
    let waiting = fixture.due_after(&job.name.queue, Place::FIRST, 1).await;
    assert!(*waiting[0].job == *job, "due gives something else");
    let rows = fixture.rows(&crate::Filter::default(), 10, later()).await;
    assert!(rows.iter().any(|row| **row.job() == *job), "list gives something else");
    fixture.commit(vec![finished(job, finish(Outcome::Dead, at(5)))]).await;
    let found = fixture.get(&job.name, later()).await.expect("it is kept");
    assert!(**found.job() == *job, "get gives something else once it is finished");
}

async fn results_and_reasons_come_back(mut fixture: Fixture) {
    let bytes: Vec<u8> = (0..limits::RESULT_BYTES_MAX).map(|n| (n % 251) as u8).collect();
    let end = Finish {
        reason: Some(Arc::from("größer als 🙂\n\"quoted\"\0")),
        result: Some(Payload { bytes: Bytes::from(bytes), content_type: Some(Arc::from("a/b")) }),
        ..finish(Outcome::Succeeded, at(5))
    };
    fixture.commit(vec![put(&job(1)), finished(&job(1), end.clone())]).await;
    let Some(StoredJob::Finished(done)) = fixture.get(&job(1).name, later()).await else {
        panic!("the finished job is not there");
    };
    assert!(done.finish == end, "another end than was given");
}

async fn content_types_come_back(mut fixture: Fixture) {
    let types = [None, Some(""), Some("text/plain; charset=utf-8")];
    for (number, content_type) in (1..).zip(types) {
        let bytes = Bytes::from_static(b"x");
        let payload = Payload { bytes, content_type: content_type.map(Arc::from) };
        check_job(&mut fixture, &Job { payload, ..job(number) }).await;
    }
}

async fn names_of_any_script_come_back(mut fixture: Fixture) {
    let texts =
        ["Zoë", "日本語", "🙂🙃", "a b", "%2F\\'\"", "ﬀ", "e\u{301}", "é", "ـ", "\u{10ffff}"];
    for (number, text) in (1..).zip(texts) {
        check_job(&mut fixture, &named(number, name("main", Some(text), text))).await;
    }
}

async fn the_longest_names_come_back(mut fixture: Fixture) {
    let name: JobName = name(
        &"q".repeat(limits::QUEUE_NAME_BYTES_MAX),
        Some(&"é".repeat(limits::KEY_BYTES_MAX / 2)),
        &"i".repeat(limits::JOB_ID_BYTES_MAX),
    );
    check_job(&mut fixture, &named(1, name)).await;
}

async fn every_field_of_a_job_comes_back(mut fixture: Fixture) {
    let full = Job {
        submitted_at: at(-77),
        scheduled_for: at(5),
        timeout: Millis::new(12_345),
        expires_at: Some(at(99_999)),
        retention: Millis::new(1),
        keep_result: true,
        key_on_failure: KeyOnFailure::StepAside,
        on_unknown: OnUnknown::Park,
        occurrence: Some(Occurrence { schedule: schedule_id("s"), at: at(4) }),
        fingerprint: Some(u64::MAX),
        ..named(1, name("main", Some("k"), "full"))
    };
    check_job(&mut fixture, &full).await;
    let zero = Job { fingerprint: Some(0), retention: Millis::ZERO, ..job(2) };
    check_job(&mut fixture, &zero).await;
    assert_eq!(fixture.due(&main_queue()).await, [0_u64; 0]);
}

async fn every_target_and_backoff_comes_back(mut fixture: Fixture) {
    let headers = vec![("X-A".to_string(), "1".to_string()), ("X-A".to_string(), String::new())];
    let http = HttpTarget { headers, ..HttpTarget::post("https://example.org/a?b=c") };
    let handler = HandlerName::new("mail.send").expect("a handler's name");
    let targets = [Target::Http(Arc::new(http)), Target::Worker, Target::Handler(handler)];
    let backoffs = [
        Backoff::Fixed(Millis::new(3)),
        Backoff::Exponential { first: Millis::new(1), factor_percent: 150 },
        Backoff::List(vec![Millis::ZERO, Millis::new(9)]),
    ];
    for (number, (target, backoff)) in (1..).zip(targets.into_iter().zip(backoffs)) {
        let max_age = (number == 2).then(|| Millis::new(5));
        let retry = RetryPolicy { backoff, max_age, ..RetryPolicy::default() };
        check_job(&mut fixture, &Job { target, retry, ..job(number) }).await;
    }
}
