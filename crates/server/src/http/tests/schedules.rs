//! Schedules, as an operator sees them.

use serde_json::{Value, json};

use super::{Api, NOW};

async fn occurrences(api: &Api, query: &str) -> Value {
    api.get(&format!("/v1/schedules/tick/occurrences?{query}")).await.json()
}

fn fates(page: &Value) -> Vec<String> {
    let rows = page["occurrences"].as_array().expect("a list");
    rows.iter().map(|row| row["fate"].as_str().unwrap_or_default().to_owned()).collect()
}

#[tokio::test]
async fn a_schedule_lives() {
    let api = Api::new().await;
    let body = r#"{"when":"@every 1m","job":{"queue":"q","payload":{"n":1}}}"#;
    let put = api.call("PUT", "/v1/schedules/tick", body).await;
    assert_eq!((put.status, &put.json()["next_at_ms"]), (200, &json!(NOW + 60_000)));
    api.advance(30_000);
    let again = api.call("PUT", "/v1/schedules/tick", body).await.json();
    assert_eq!(again["next_at_ms"], NOW + 60_000, "putting it again does not shift it");
    let triggered = api.post("/v1/schedules/tick/trigger", "").await;
    assert_eq!((triggered.status, &triggered.json()["schedule"]), (201, &json!("tick")));
    let paused = api.post("/v1/schedules/tick/pause", r#"{"note":"too loud"}"#).await.json();
    assert_eq!((&paused["paused"], paused.get("next_at")), (&json!(true), None));
    assert_eq!((&paused["pause"]["note"], &paused["idle"]), (&json!("too loud"), &json!("paused")));
    let kept = api.call("PUT", "/v1/schedules/tick", body).await.json();
    assert_eq!(kept["pause"]["note"], "too loud", "a deployment does not wake it");
    let woken = body.replacen('{', r#"{"paused":false,"#, 1);
    assert_eq!(api.call("PUT", "/v1/schedules/tick", woken).await.json()["paused"], false);
    let note = body.replacen('{', r#"{"note":"again","#, 1);
    let noted = api.call("PUT", "/v1/schedules/tick", note).await.json();
    assert_eq!(noted["pause"]["note"], "again", "a note is a pause");
    assert_eq!(api.post("/v1/schedules/tick/resume", "").await.json()["paused"], false);
    assert_eq!(fates(&occurrences(&api, "").await), ["triggered"]);
    assert_eq!(api.call("DELETE", "/v1/schedules/tick", "").await.status, 204);
    for path in ["/v1/schedules/tick", "/v1/schedules/tick/occurrences"] {
        assert_eq!(api.get(path).await.problem().as_deref(), Some("no-such-schedule"), "{path}");
    }
    api.end().await;
}

#[tokio::test]
async fn all_that_is_said_is_shown() {
    let api = Api::new().await;
    let body = json!({
        "when": ["every weekday at 9am", "every weekday at 5pm"], "zone": "Europe/Paris",
        "gap": "skip", "fold": "both", "excluded": ["2026-12-25"],
        "holidays": ["2027-01-01 New Year"], "end": "2030-01-01", "count": 100,
        "misfire": "all 10s apart", "grace": "5m", "overlap": "queue_one", "spread": "30s",
        "ledger_retention": "30d", "job": {"key": "k"},
    });
    let put = api.call("PUT", "/v1/schedules/all", body.to_string()).await;
    let shown = api.get("/v1/schedules/all").await.json();
    assert_eq!(put.json(), shown);
    for field in ["when", "zone", "gap", "fold", "excluded", "misfire", "grace", "overlap"] {
        assert_eq!(shown[field], body[field], "{field}");
    }
    for (field, expected) in [
        ("spread", json!("30s")),
        ("ledger_retention", json!("30d")),
        ("holidays", json!(1)),
        ("count", json!(100)),
        ("canonical", json!(["0 9 * * MON-FRI", "0 17 * * MON-FRI"])),
        ("end", json!("2029-12-31T23:00:00.000Z")),
    ] {
        assert_eq!(shown[field], expected, "{field}");
    }
    assert!(shown["words"].as_str().is_some_and(|words| words.contains("Monday to Friday")));
    assert_eq!(shown["next"].as_array().map(Vec::len), Some(5));
    assert_eq!(shown["next"][0], shown["next_at"]);
    assert!(shown["next_due_at"].as_str() >= shown["next_at"].as_str());
    // Putting is replacing: what is not said is the default again.
    let short = r#"{"when":"every weekday at 9am"}"#;
    let short = api.call("PUT", "/v1/schedules/all", short).await.json();
    assert_eq!((&short["misfire"], short.get("spread")), (&json!("once"), None));
    let listed = api.get("/v1/schedules").await.json();
    assert_eq!(listed["schedules"][0].get("next"), None, "lists are short");
    api.end().await;
}

#[tokio::test]
async fn pages_show_every_schedule_once() {
    let api = Api::new().await;
    for n in 0..3 {
        let path = format!("/v1/schedules/s{n}");
        assert_eq!(api.call("PUT", &path, r#"{"when":"@hourly"}"#).await.status, 200);
    }
    let first = api.get("/v1/schedules?limit=2").await.json();
    let next = first["next"].as_str().unwrap();
    let second = api.get(&format!("/v1/schedules?limit=2&cursor={next}")).await.json();
    let ids =
        [&first["schedules"][0]["id"], &first["schedules"][1]["id"], &second["schedules"][0]["id"]];
    assert_eq!(ids, ["s0", "s1", "s2"]);
    assert!(second.get("next").is_none());
    api.end().await;
}

#[tokio::test]
async fn nonsense_is_refused_by_name() {
    let api = Api::new().await;
    let rows = [
        ("{}", "when"),
        (r#"{"when":"evry day"}"#, "when"),
        (r#"{"when":["@daily","1 2 3"]}"#, "when[1]"),
        (r#"{"when":[]}"#, "when"),
        (r#"{"when":"@every 1ms"}"#, "when"),
        (r#"{"when":"@daily","zone":"Paris"}"#, "zone"),
        (r#"{"when":"@daily","start":"at 9"}"#, "start"),
        (r#"{"when":"@daily","count":0}"#, "count"),
        (r#"{"when":"@daily","misfire":"never"}"#, "misfire"),
        (r#"{"when":"@daily","misfire":"last 1001"}"#, "misfire.last"),
        (r#"{"when":"@daily","misfire":"all 2 days apart"}"#, "misfire.pace"),
        (r#"{"when":"@every 5s","misfire":"all 10s apart"}"#, "misfire.pace"),
        (r#"{"when":"@daily","overlap":"both"}"#, "overlap"),
        (r#"{"when":"@daily","grace":"2 days"}"#, "grace"),
        (r#"{"when":"@daily","spread":-1}"#, "spread"),
        (r#"{"when":"@daily","ledger_retention":"1s"}"#, "ledger_retention"),
        (r#"{"when":"@daily","note":"a\u0000b"}"#, "note"),
        (r#"{"when":"@daily","job":{"id":"x"}}"#, "job.id"),
        (r#"{"when":"@daily","job":{"at":1}}"#, "job.at"),
        (r#"{"when":"@daily","job":{"on_conflict":"keep"}}"#, "job.on_conflict"),
        (r#"{"when":"@daily","job":{"qeue":"x"}}"#, "job.qeue"),
        (r#"{"when":"@daily","every":"5m"}"#, "every"),
    ];
    for (body, field) in rows {
        let answer = api.call("PUT", "/v1/schedules/s", body).await;
        assert_eq!((answer.status, &answer.json()["field"]), (422, &json!(field)), "{body}");
    }
    let wrong = api.call("PUT", "/v1/schedules/s", r#"{"when":"@daily","misfire":"last x"}"#).await;
    assert_eq!(wrong.json()["candidates"], json!(["last 1", "last 3"]), "{wrong:?}");
    assert_eq!(api.call("PUT", "/v1/schedules/s", r#"{"when":"@daily"}"#).await.status, 200);
    for (query, field) in [
        ("order=up", "order"),
        ("fate=lost", "fate"),
        ("cursor=x", "cursor"),
        ("from=at+9", "from"),
        ("befor=1", "befor"),
    ] {
        let answer = api.get(&format!("/v1/schedules/s/occurrences?{query}")).await;
        assert_eq!(answer.json()["field"], field, "{query}");
    }
    for query in ["minutes=0", "minutes=10081", "minutes=x"] {
        let answer = api.get(&format!("/v1/forecast?{query}")).await;
        assert_eq!(answer.json()["field"], "minutes", "{query}");
    }
    let none = api.get("/v1/forecast?schedule=nothing").await;
    assert_eq!(none.problem().as_deref(), Some("no-such-schedule"));
    api.end().await;
}

#[tokio::test]
async fn the_ledger_is_read_in_pages_that_lose_nothing() {
    let api = Api::new().await;
    api.call("PUT", "/v1/schedules/tick", r#"{"when":"@every 1h"}"#).await;
    // Three records of one tick's instant: the edge of a page falls between them.
    for _ in 0..3 {
        api.post("/v1/schedules/tick/trigger", "").await;
    }
    for order in ["newest", "oldest"] {
        let mut numbers = Vec::new();
        let mut cursor = String::new();
        for _ in 0..3 {
            let page = occurrences(&api, &format!("order={order}&limit=1{cursor}")).await;
            numbers.push(page["occurrences"][0]["job_number"].as_u64().expect("a record"));
            cursor = format!("&cursor={}", page["next"].as_str().unwrap_or_default());
        }
        let last = occurrences(&api, &format!("order={order}&limit=1{cursor}")).await;
        assert_eq!(last["occurrences"], json!([]), "{order}");
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), 3, "{order}");
    }
    let row = &occurrences(&api, "limit=1").await["occurrences"][0];
    let job = row["job"].as_str().expect("its job");
    assert_eq!(api.get(&format!("/v1/jobs/{job}")).await.status, 200, "{job}");
    for (query, count) in [
        ("fate=triggered", 3),
        ("fate=ran,late", 0),
        ("to=1970-01-01", 0),
        ("from=2100-01-01", 0),
        ("from=1970-01-01&to=2100-01-01", 3),
    ] {
        assert_eq!(fates(&occurrences(&api, query).await).len(), count, "{query}");
    }
    api.end().await;
}

#[tokio::test]
async fn a_backfill_is_started_shown_and_cancelled() {
    let api = Api::new().await;
    api.call("PUT", "/v1/schedules/tick", r#"{"when":"@every 1m","misfire":"skip"}"#).await;
    let path = "/v1/schedules/tick/backfill";
    for (body, field) in [
        (r#"{"from":"at 9"}"#, "from"),
        (r#"{"from":"1971-01-01"}"#, "from"),
        (r#"{"from":"now","to":"in 5 minutes"}"#, "to"),
        (r#"{"from":"now","pace":"2 days"}"#, "pace"),
        ("{}", "from"),
    ] {
        let answer = api.post(path, body).await;
        assert_eq!((answer.status, &answer.json()["field"]), (422, &json!(field)), "{body}");
    }
    assert_eq!(api.call("DELETE", path, "").await.json()["field"], "backfill");
    api.advance(600_000);
    let body = json!({"from": NOW, "pace": "1h"}).to_string();
    let begun = api.post(path, body.clone()).await;
    assert_eq!(begun.status, 202, "{begun:?}");
    assert_eq!(begun.json()["backfill"]["state"], "running");
    assert_eq!(api.post(path, body.clone()).await.json()["field"], "backfill", "one at a time");
    let cancelled = api.call("DELETE", path, "").await.json();
    assert_eq!(cancelled["backfill"]["state"], "cancelled", "{cancelled}");
    api.end().await;
}

#[tokio::test]
async fn a_herd_is_seen_before_it_runs() {
    let api = Api::new().await;
    for n in 0..20 {
        let path = format!("/v1/schedules/s{n}");
        assert_eq!(api.call("PUT", &path, r#"{"when":"0 * * * *"}"#).await.status, 200);
    }
    api.call("PUT", "/v1/schedules/spread", r#"{"when":"0 * * * *","spread":"50m"}"#).await;
    api.call("PUT", "/v1/schedules/asleep", r#"{"when":"* * * * *","paused":true}"#).await;
    let forecast = api.get("/v1/forecast?minutes=120").await.json();
    assert_eq!((&forecast["minutes"], &forecast["total"]), (&json!(120), &json!(42)));
    assert_eq!(forecast["busiest"][0]["jobs"], 20);
    let at = forecast["busiest"][0]["at"].as_str().expect("an instant");
    assert!(at.ends_with(":00:00.000Z"), "{at}");
    assert_eq!(forecast["per_minute"].as_array().map(Vec::len), Some(120));
    let one = api.get("/v1/forecast?schedule=s3").await.json();
    assert_eq!((&one["minutes"], &one["total"]), (&json!(1440), &json!(24)));
    api.end().await;
}

#[tokio::test]
async fn the_self_check_is_shown() {
    let api = Api::new().await;
    api.call("PUT", "/v1/schedules/a", r#"{"when":"@hourly"}"#).await;
    api.call("PUT", "/v1/schedules/b", r#"{"when":"@hourly","paused":true}"#).await;
    api.call("PUT", "/v1/schedules/c", r#"{"when":"@hourly","end":"2020-01-01"}"#).await;
    assert_eq!(api.get("/ready").await.json()["schedules"], "ok");
    let schedules = &api.get("/v1/stats").await.json()["schedules"];
    assert_eq!(schedules, &json!({"ticking": 1, "paused": 1, "ended": 1, "failing": []}));
    let metrics = String::from_utf8(api.get("/metrics").await.bytes).unwrap();
    for line in ["hence_schedules{state=\"ended\"} 1", "hence_schedules_failing 0"] {
        assert!(metrics.contains(line), "{line} in {metrics}");
    }
    api.end().await;
}
