//! Schedules, as an operator sees them.

use serde_json::json;

use super::{Api, NOW};

#[tokio::test]
async fn a_schedule_lives() {
    let api = Api::new().await;
    let body = r#"{"every":"1m","job":{"queue":"q","payload":{"n":1}}}"#;
    let put = api.call("PUT", "/v1/schedules/tick", body).await;
    assert_eq!((put.status, &put.json()["next_at_ms"]), (200, &json!(NOW + 60_000)));
    api.advance(30_000);
    let again = api.call("PUT", "/v1/schedules/tick", body).await.json();
    assert_eq!(again["next_at_ms"], NOW + 60_000, "putting it again does not shift it");
    let triggered = api.post("/v1/schedules/tick/trigger", "").await;
    assert_eq!((triggered.status, &triggered.json()["schedule"]), (201, &json!("tick")));
    let paused = api.post("/v1/schedules/tick/pause", "").await.json();
    assert_eq!((&paused["paused"], paused.get("next_at")), (&json!(true), None));
    let kept = api.call("PUT", "/v1/schedules/tick", body).await.json();
    assert_eq!(kept["paused"], true, "a deployment does not wake it");
    assert_eq!(api.post("/v1/schedules/tick/resume", "").await.json()["paused"], false);
    let occurrences = api.get("/v1/schedules/tick/occurrences").await.json();
    assert_eq!(occurrences["occurrences"][0]["fate"], "triggered");
    assert_eq!(api.call("DELETE", "/v1/schedules/tick", "").await.status, 204);
    for path in ["/v1/schedules/tick", "/v1/schedules/tick/occurrences"] {
        assert_eq!(api.get(path).await.problem().as_deref(), Some("no-such-schedule"), "{path}");
    }
    api.end().await;
}

#[tokio::test]
async fn pages_show_every_schedule_once() {
    let api = Api::new().await;
    for n in 0..3 {
        let path = format!("/v1/schedules/s{n}");
        assert_eq!(api.call("PUT", &path, r#"{"every":"1h"}"#).await.status, 200);
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
        ("{}", "every"),
        (r#"{"every":"1ms"}"#, "every"),
        (r#"{"every":"1m","job":{"id":"x"}}"#, "job.id"),
        (r#"{"every":"1m","job":{"at":1}}"#, "job.at"),
        (r#"{"every":"1m","job":{"on_conflict":"keep"}}"#, "job.on_conflict"),
        (r#"{"every":"1m","job":{"qeue":"x"}}"#, "job.qeue"),
        (r#"{"every":"1m","start":"at 9"}"#, "start"),
    ];
    for (body, field) in rows {
        let answer = api.call("PUT", "/v1/schedules/s", body).await;
        assert_eq!((answer.status, &answer.json()["field"]), (422, &json!(field)), "{body}");
    }
    api.end().await;
}
