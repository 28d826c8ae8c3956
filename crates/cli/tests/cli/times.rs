//! Times in words, from what is typed to what is said back.

use crate::support::{Server, hence, text};

#[test]
fn a_time_in_words_is_said_back_and_can_be_changed() {
    let server = Server::start_with(tempfile::tempdir().unwrap(), &["--zone", "Europe/Paris"]);
    let add = ["add", "--worker", "--id", "a", "--at", "2030-12-24 18:00"];
    let said = text(&server.hence(&add).stderr);
    let words = "understood as Tuesday, 24 December 2030 at 18:00 Europe/Paris (+01:00)";
    assert!(said.contains("2030-12-24T17:00:00.000Z") && said.contains(words), "{said}");
    let moved = server.hence(&["reschedule", "a", "--at", "2031-07-01 9am", "--tz", "Asia/Tokyo"]);
    let said = text(&moved.stderr);
    assert!(said.contains("Tuesday, 1 July 2031 at 09:00 Asia/Tokyo (+09:00)"), "{said}");
    assert_eq!(server.json(&["show", "a"])["due_at"], "2031-07-01T00:00:00.000Z");
}

#[test]
fn the_time_until_which_a_job_may_start_is_read_as_the_due_time_is() {
    let server = Server::start();
    let due = ["add", "--worker", "--id", "a", "--at", "2030-01-01T00:00:00Z"];
    server.hence(&[&due[..], &["--expires-at", "2030-12-24 18:00", "--tz", "Asia/Tokyo"]].concat());
    assert_eq!(server.json(&["show", "a"])["expires_at"], "2030-12-24T09:00:00.000Z");
    let zone = ["add", "--worker", "--id", "b", "--expires-at", "2030-12-24", "--tz", "UTC"];
    assert_eq!(server.hence(&zone).status.code(), Some(0), "a zone is for either time");
    let both = server.hence(&["add", "--worker", "--expires-at", "noon", "--expires-in", "1h"]);
    assert_eq!(both.status.code(), Some(2), "{}", text(&both.stderr));
}

#[test]
fn what_is_not_understood_is_shown_with_a_caret() {
    let server = Server::start();
    let rows: [(&[&str], &str); 4] = [
        (
            &["--at", "7pm tomorow"],
            "error: at is not understood\n  7pm tomorow\n      ^^^^^^^ \"tomorow\" is not \
             understood here\n  try: 7pm tomorrow\n",
        ),
        (
            &["--at", "friday at 3"],
            "error: at is not understood\n  friday at 3\n            ^ 3 in the morning or in the \
             evening?\n  try: friday at 3am | friday at 3pm\n",
        ),
        (
            &["--at", "noon", "--tz", "Paris"],
            "error: zone is not understood\n  Paris\n  ^^^^^ Paris is not a zone; name a place, \
             UTC, or an offset\n  try: Europe/Paris\n",
        ),
        (
            &["--at", "whenever"],
            "error: at is not understood\n  whenever\n  ^^^^^^^^ \"whenever\" is not understood \
             here\nfix: say it like `7pm tomorrow`, `in 2 hours`, `2026-12-24 18:00` or RFC 3339\n",
        ),
    ];
    for (flags, expected) in rows {
        let refused = server.hence(&[&["add", "--worker"], flags].concat());
        let said = text(&refused.stderr);
        assert_eq!((refused.status.code(), said.as_str()), (Some(1), expected), "{flags:?}");
    }
}

#[test]
fn next_shows_what_comes_without_a_server() {
    let next = |arguments: &[&str]| hence().arg("next").args(arguments).output().unwrap();
    let paris = ["--tz", "Europe/Paris", "--from", "2027-03-27", "--count", "2"];
    let shown = text(&next(&[&["0 2 * * *"], &paris[..]].concat()).stdout);
    for part in [
        "again  every day at 02:00 (Europe/Paris)\nexact  0 2 * * *\ncron   unix\n",
        "Sat 2027-03-27 02:00:00 +01:00  2027-03-27T01:00:00.000Z",
        "Sun 2027-03-28 03:00:00 +02:00  2027-03-28T01:00:00.000Z",
        "after the gap: 02:00 does not exist",
    ] {
        assert!(shown.contains(part), "{part} in\n{shown}");
    }
    let skipped = ["--gap", "skip", "--exclude", "2027-03-29", "--json"];
    let json = text(&next(&[&["0 2 * * *"], &paris[..], &skipped[..]].concat()).stdout);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["skipped"].as_array().map(Vec::len), Some(2), "{json}");
    assert_eq!(json["ticks"][1]["wall"], "2027-03-30T02:00:00", "{json}");
    let once = text(&next(&["2030-12-24 18:00", "--tz", "Europe/Paris"]).stdout);
    assert!(once.contains("once   Tuesday, 24 December 2030 at 18:00 Europe/Paris"), "{once}");
    let ended = text(&next(&["0 0 0 1 1 * 2020"]).stdout);
    assert!(ended.ends_with("no tick comes\n"), "{ended}");
}

#[test]
fn next_refuses_what_it_does_not_understand() {
    let rows: [(&[&str], &str); 6] = [
        (&["every", "day", "at", "9am"], "fix: quote them: 'every day at 9am'"),
        (&["evry weekday"], "the time is not understood\n  evry weekday\n  ^^^^ "),
        (&["last day of the month"], "once, or again and again?"),
        (&["@daily", "--tz", "EST"], "--tz is not understood\n  EST\n"),
        (&["@daily", "--exclude", "xmas"], "--exclude is not understood\n  xmas\n"),
        (&["@daily", "--holidays", "/nonexistent"], "reading /nonexistent"),
    ];
    for (arguments, expected) in rows {
        let refused = hence().arg("next").args(arguments).output().unwrap();
        let said = text(&refused.stderr);
        assert!(said.contains(expected) && !refused.status.success(), "{arguments:?}: {said}");
        assert!(refused.stdout.is_empty(), "{arguments:?}");
    }
}
