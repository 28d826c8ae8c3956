//! Times in words: understood, said back, and refused with what could have been meant.

use serde_json::{Value, json};

use super::{Api, NOW};

#[tokio::test]
async fn a_time_in_words_is_said_back() {
    let api = Api::new().await;
    // Thursday 2026-09-10 00:26:40 UTC, 02:26:40 in Paris.
    let rows = [
        (
            r#"{"at":"7pm tomorrow","zone":"Europe/Paris"}"#,
            "2026-09-11T17:00:00.000Z",
            "Friday, 11 September 2026 at 19:00 Europe/Paris (+02:00)",
        ),
        (
            r#"{"at":"7pm tomorrow"}"#,
            "2026-09-11T19:00:00.000Z",
            "Friday, 11 September 2026 at 19:00 UTC (+00:00)",
        ),
        (
            r#"{"at":"3 days from now at 08:15 Asia/Tokyo","zone":"Europe/Paris"}"#,
            "2026-09-12T23:15:00.000Z",
            "Sunday, 13 September 2026 at 08:15 Asia/Tokyo (+09:00)",
        ),
        (
            r#"{"in":"half an hour"}"#,
            "2026-09-10T00:56:40.000Z",
            "Thursday, 10 September 2026 at 00:56:40 UTC (+00:00)",
        ),
        (
            // Two months of the calendar, across the end of summer time.
            r#"{"in":"2 months","zone":"Europe/Paris"}"#,
            "2026-11-10T01:26:40.000Z",
            "Tuesday, 10 November 2026 at 02:26:40 Europe/Paris (+01:00)",
        ),
        (
            r#"{"at":"2026-09-11T00:00:00Z","zone":"America/New_York"}"#,
            "2026-09-11T00:00:00.000Z",
            "Thursday, 10 September 2026 at 20:00 America/New_York (-04:00)",
        ),
    ];
    for (body, instant, words) in rows {
        let answer = api.submit(body).await;
        let understood = &answer["understood"];
        assert_eq!(answer["due_at"], instant, "{body}");
        assert_eq!(
            (&understood["instant"], &understood["words"]),
            (&json!(instant), &json!(words)),
            "{body}"
        );
    }
    api.end().await;
}

#[tokio::test]
async fn what_programs_write_is_not_said_back() {
    let api = Api::new().await;
    for body in [
        "{}".to_owned(),
        r#"{"at":1789000005}"#.to_owned(),
        r#"{"at":"1789000005000"}"#.to_owned(),
        r#"{"at":"2026-09-11T00:00:00Z"}"#.to_owned(),
        r#"{"in":"1h30m"}"#.to_owned(),
        r#"{"in":5}"#.to_owned(),
    ] {
        assert_eq!(api.submit(&body).await.get("understood"), None, "{body}");
    }
    let words = r#"{"id":"a","at":"tomorrow at noon","on_conflict":"keep"}"#;
    assert!(api.submit(words).await["understood"].is_object());
    api.advance(86_400_000);
    let kept = api.submit(words).await;
    assert_eq!((&kept["how"], kept.get("understood")), (&json!("kept"), None), "{kept}");
    assert_eq!(kept["due_at"], "2026-09-11T12:00:00.000Z", "as the kept job was understood");
    api.end().await;
}

#[tokio::test]
async fn each_job_of_many_and_a_changed_one_are_said_back() {
    let api = Api::new().await;
    let body = r#"{"jobs":[{"id":"a","in":"1h"},{"at":"at 9"},{"id":"b","at":"noon"}]}"#;
    let jobs = api.post("/v1/jobs", body).await.json()["jobs"].clone();
    assert_eq!(jobs[0].get("understood"), None);
    assert_eq!(jobs[1]["error"]["candidates"], json!(["at 9am", "at 9pm"]));
    assert_eq!(jobs[2]["understood"]["instant"], "2026-09-10T12:00:00.000Z");
    let change = r#"{"at":"noon","zone":"Asia/Kolkata"}"#;
    let changed = api.call("PATCH", "/v1/jobs/a", change).await.json();
    assert_eq!(changed["due_at"], "2026-09-10T06:30:00.000Z");
    assert_eq!(changed["understood"]["zone"], "Asia/Kolkata");
    assert_eq!(api.get("/v1/jobs/a").await.json().get("understood"), None);
    api.end().await;
}

#[tokio::test]
async fn the_end_of_the_calendar_is_out_of_range_as_a_due_time_and_good_as_a_bound() {
    let api = Api::new().await;
    let range = "must come to a time between 1970 and 2227-02-09T00:26:40.000Z";
    let bodies = [
        (r#"{"at":"9999-12-31T23:59:59Z"}"#, "at", range),
        (r#"{"time":"9999-12-31T23:59:59Z"}"#, "time", range),
        (r#"{"in":"9999999999s"}"#, "in", range),
        (
            r#"{"at":"9999-12-31T23:59:59Z","zone":"UTC"}"#,
            "at",
            "is out of range: that is not between 1970 and 2227-02-09T00:26:40.000Z",
        ),
    ];
    for (body, field, problem) in bodies {
        let json = api.post("/v1/jobs", body).await.json();
        assert_eq!(json["detail"], format!("{field} {problem}"), "{body}");
        assert_ne!(json["fix"], "correct the field named", "{body}");
    }
    for query in ["until=9999-12-31T23:59:59Z", "from=2020-01-01T00:00:00+01:00"] {
        assert_eq!(api.get(&format!("/v1/jobs?{query}")).await.status, 200, "{query}");
    }
    let body = r#"{"when":"@daily","from":"9999-12-31T23:59:59Z"}"#;
    let preview = api.post("/v1/schedules/preview", body).await;
    assert_eq!((preview.status, &preview.json()["ticks"]), (200, &json!([])));
    api.end().await;
}

#[tokio::test]
async fn what_is_not_understood_is_shown_where_it_is() {
    let api = Api::new().await;
    let rows = [
        (r#"{"at":"friday at 3"}"#, "at", 10, 11, json!(["friday at 3am", "friday at 3pm"])),
        (r#"{"at":"7pm tomorow"}"#, "at", 4, 11, json!(["7pm tomorrow"])),
        (r#"{"at":"03/04/2027"}"#, "at", 0, 10, json!(["2027-04-03", "2027-03-04"])),
        (r#"{"at":"é"}"#, "at", 0, 1, Value::Null),
        (r#"{"at":17890000000}"#, "at", 0, 11, json!(["1970-07-27T01:26:40+00:00[UTC]"])),
        (r#"{"in":"2 hors"}"#, "in", 2, 6, json!(["2 hours"])),
        (r#"{"in":"tomorrow"}"#, "in", 0, 8, Value::Null),
        (r#"{"at":"noon","zone":"Europe/Pariss"}"#, "zone", 0, 13, json!(["Europe/Paris"])),
        (r#"{"at":"noon","expires_at":"at 3"}"#, "expires_at", 3, 4, json!(["at 3am", "at 3pm"])),
    ];
    for (body, field, start, end, candidates) in rows {
        let answer = api.post("/v1/jobs", body).await;
        assert_eq!(answer.problem().as_deref(), Some("invalid-value"), "{body}");
        let json = answer.json();
        assert_eq!((&json["field"], &json["candidates"]), (&json!(field), &candidates), "{json}");
        assert_eq!((&json["start"], &json["end"]), (&json!(start), &json!(end)), "{json}");
        assert!(json["text"].is_string() && json["fix"].is_string(), "{json}");
    }
    for body in [r#"{"zone":"UTC"}"#, r#"{"zone":"UTC","queue":"x"}"#] {
        let answer = api.post("/v1/jobs", body).await;
        assert_eq!((answer.status, &answer.json()["field"]), (422, &json!("zone")), "{body}");
    }
    let fix = api.post("/v1/jobs", r#"{"at":"friday at 3"}"#).await.json()["fix"].clone();
    assert_eq!(fix, "say one of `friday at 3am`, `friday at 3pm`");
    api.end().await;
}

#[tokio::test]
async fn filters_take_words_too() {
    let api = Api::new().await;
    for hours in [1, 30, 60] {
        api.submit(&format!(r#"{{"in":"{hours}h"}}"#)).await;
    }
    let count = async |query: &str| {
        api.get(&format!("/v1/jobs?{query}")).await.json()["jobs"].as_array().unwrap().len()
    };
    assert_eq!(count("from=tomorrow").await, 2);
    assert_eq!(count("from=tomorrow&until=the+day+after+tomorrow").await, 1);
    let doubtful = api.get("/v1/jobs?until=at+9").await;
    assert_eq!((doubtful.status, &doubtful.json()["field"]), (422, &json!("until")));
    for (query, found) in [
        ("from=1+hour+ago", 3),
        ("until=1+hour+ago", 0),
        ("from=yesterday", 3),
        ("from=yesterday+7pm", 3),
        ("until=yesterday", 0),
        ("from=2026-09-09", 3),
        ("from=last+friday", 3),
    ] {
        assert_eq!(count(query).await, found, "{query}");
    }
    let unknown = api.get("/v1/jobs?from=yesteryear").await.json();
    assert!(unknown["fix"].as_str().unwrap().contains("`1 hour ago`"), "{unknown}");
    let preview = r#"{"when":"every day at 9am","from":"yesterday"}"#;
    let ticks = api.post("/v1/schedules/preview", preview).await.json();
    assert_eq!(ticks["ticks"][0]["at"], "2026-09-09T09:00:00.000Z", "{ticks}");
    let bulk = r#"{"filter":{"from":"yesterday","until":"5 minutes ago"},"action":"cancel"}"#;
    assert_eq!(api.post("/v1/jobs/bulk", bulk).await.json()["matched"], 0);
    for job in [r#"{"at":"1 hour ago"}"#, r#"{"at":"yesterday"}"#, r#"{"expires_at":"yesterday"}"#]
    {
        assert_eq!(
            api.post("/v1/jobs", job).await.status,
            422,
            "a job is not due in the past: {job}"
        );
    }
    let bulk = r#"{"filter":{"from":"tomorrow"},"action":"cancel"}"#;
    assert_eq!(api.post("/v1/jobs/bulk", bulk).await.json()["done"], 2);
    api.end().await;
}

#[tokio::test]
async fn a_preview_shows_what_was_understood_and_what_comes() {
    let api = Api::new().await;
    let body = json!({
        "when": ["every weekday at 9am", "0 2 * * SUN"], "zone": "Europe/Paris",
        "excluded": ["2027-03-26"], "holidays": ["2027-03-29 Easter Monday"],
        "start": "2027-03-25", "end": "2027-12-31", "ticks": 3,
    });
    let answer = api.post("/v1/schedules/preview", body.to_string()).await;
    let shown = answer.json();
    assert_eq!(answer.status, 200, "{shown}");
    assert_eq!(shown["whens"][0]["canonical"], json!(["0 9 * * MON-FRI"]));
    assert_eq!(shown["whens"][1]["dialect"], "unix");
    assert_eq!((&shown["zone"], &shown["gap"]), (&json!("Europe/Paris"), &json!("after_gap")));
    let ticks: Vec<_> = shown["ticks"].as_array().unwrap().iter().map(|t| &t["wall"]).collect();
    assert_eq!(ticks, ["2027-03-25T09:00:00", "2027-03-28T03:00:00", "2027-03-30T09:00:00"]);
    assert_eq!(shown["ticks"][1]["note"], "after the gap: 02:00 does not exist");
    assert_eq!(shown["ticks"][0]["offset"], "+01:00");
    assert_eq!(shown["ticks"][2]["offset"], "+02:00");
    assert_eq!(shown["skipped"][1]["reason"], "skipped: 2027-03-29 is excluded (Easter Monday)");
    assert_eq!(shown["ends"], false);
    let twice = json!({"when": "@daily", "count": 2, "from": NOW + 1}).to_string();
    let shown = api.post("/v1/schedules/preview", twice).await.json();
    assert_eq!((shown["ticks"].as_array().map(Vec::len), &shown["ends"]), (Some(2), &json!(true)));
    let spread = async |id: &str| {
        let body = json!({"when": "H H * * *", "id": id}).to_string();
        api.post("/v1/schedules/preview", body).await.json()["ticks"][0]["at"].clone()
    };
    assert_ne!(spread("a").await, spread("b").await);
    api.end().await;
}

#[tokio::test]
async fn a_preview_refuses_by_name() {
    let api = Api::new().await;
    let rows = [
        ("{}", "when"),
        (r#"{"when":[]}"#, "when"),
        (r#"{"when":7}"#, "when"),
        (r#"{"when":"evry day"}"#, "when"),
        (r#"{"when":["@daily","nonsense"]}"#, "when[1]"),
        (r#"{"when":["@daily","TZ=Asia/Tokyo @daily"]}"#, "when"),
        (r#"{"when":"@daily","dialect":"klingon"}"#, "dialect"),
        (r#"{"when":"@daily","gap":"jump"}"#, "gap"),
        (r#"{"when":"@daily","zone":"Paris"}"#, "zone"),
        (r#"{"when":"@daily","excluded":["2026-02-30"]}"#, "excluded[0]"),
        (r#"{"when":"@daily","holidays":"2026-12-25 a\nsoon\n"}"#, "holidays"),
        (r#"{"when":"@daily","start":"at 9"}"#, "start"),
        (r#"{"when":"@daily","end":-1}"#, "end"),
        (r#"{"when":"@daily","start":"2027-01-02","end":"2027-01-01"}"#, "end"),
        (r#"{"when":"@daily","count":0}"#, "count"),
        (r#"{"when":"@daily","ticks":0}"#, "ticks"),
        (r#"{"when":"@daily","ticks":1001}"#, "ticks"),
        (r#"{"when":"@daily","from":"soon"}"#, "from"),
        (r#"{"when":"@daily","id":"a b"}"#, "schedule"),
        (r#"{"when":"@daily","every":"1h"}"#, "every"),
    ];
    for (body, field) in rows {
        let answer = api.post("/v1/schedules/preview", body).await;
        let named = answer.json()["field"].clone();
        assert_eq!((answer.status, named), (422, json!(field)), "{body}: {}", answer.json());
    }
    let most = api.post("/v1/schedules/preview", r#"{"when":"@daily","ticks":1000}"#).await;
    assert_eq!(most.json()["ticks"].as_array().map(Vec::len), Some(1_000));
    api.end().await;
}

#[tokio::test]
async fn a_schedule_may_be_called_preview() {
    let api = Api::new().await;
    let path = "/v1/schedules/preview";
    assert_eq!(api.call("PUT", path, r#"{"when":"@hourly"}"#).await.status, 200);
    assert_eq!(api.get(path).await.json()["id"], "preview");
    assert_eq!(api.call("DELETE", path, "").await.status, 204);
    api.end().await;
}
