//! Pulling work, as a worker sees it.

use serde_json::json;

use super::{Api, NOW, token};

#[tokio::test]
async fn queues_are_emptied_from_left_to_right() {
    let api = Api::new().await;
    for (queue, id) in [("low", "l"), ("high", "h1"), ("high", "h2")] {
        let body = json!({
            "queue": queue, "id": id, "payload": {"id": id}, "retry": {"max_attempts": 3},
        });
        api.submit(&body.to_string()).await;
    }
    let body = r#"{"worker":"w1","queues":["high","low"],"max":10,"lease":"1m"}"#;
    let jobs = api.post("/v1/leases", body).await.json()["jobs"].clone();
    let ids: Vec<_> = jobs.as_array().unwrap().iter().map(|job| job["id"].clone()).collect();
    assert_eq!(ids, ["h1", "h2", "l"]);
    assert_eq!(jobs[0]["payload"], json!({"id": "h1"}));
    assert_eq!((&jobs[0]["attempt"], &jobs[0]["until_ms"]), (&json!(1), &json!(NOW + 60_000)));
    assert_eq!(jobs[0]["max_attempts"], 3, "a worker can tell its last attempt");
    let held = api.get("/v1/leases").await.json();
    assert_eq!(held["leases"].as_array().unwrap().len(), 3);
    assert_eq!(held["leases"][0]["holder"], "w1");
    let running = api.get("/v1/jobs/l?queue=low").await.json();
    assert_eq!((&running["state"], &running["lease"]["holder"]), (&json!("running"), &json!("w1")));
    api.end().await;
}

#[tokio::test]
async fn a_worker_waits_for_work() {
    let api = Api::new().await;
    let waiting = api.post("/v1/leases", r#"{"queue":"q","wait":"1m"}"#);
    let submitting = async {
        tokio::task::yield_now().await;
        api.submit(r#"{"queue":"q","id":"late"}"#).await
    };
    let (leased, _) = tokio::join!(waiting, submitting);
    assert_eq!(leased.json()["jobs"][0]["id"], "late");
    let nothing = api.post("/v1/leases", r#"{"queue":"q"}"#).await;
    assert_eq!((nothing.status, nothing.json()), (200, json!({"jobs": []})));
    api.end().await;
}

#[tokio::test]
async fn a_lease_is_extended_released_and_outlived() {
    let api = Api::new().await;
    api.submit(r#"{"queue":"q","id":"j"}"#).await;
    let first = token(&api.lease("q").await);
    let extended = api.post(&format!("/v1/leases/{first}/extend"), r#"{"lease":"5m"}"#).await;
    assert_eq!(extended.json()["until_ms"], NOW + 300_000);
    let release = r#"{"how":"release","delay":"10s"}"#;
    assert_eq!(api.post(&format!("/v1/leases/{first}/nack"), release).await.status, 204);
    let stale = api.post(&format!("/v1/leases/{first}/extend"), r#"{"lease":"5m"}"#).await;
    assert_eq!(stale.problem().as_deref(), Some("stale-token"));
    let job = api.get("/v1/jobs/j?queue=q").await.json();
    assert_eq!((&job["attempts"], &job["due_at_ms"]), (&json!(0), &json!(NOW + 10_000)));
    api.advance(10_000);
    let second = token(&api.lease("q").await);
    let dead = r#"{"how":"dead","reason":"no use"}"#;
    assert_eq!(api.post(&format!("/v1/leases/{second}/nack"), dead).await.status, 204);
    assert_eq!(api.get("/v1/jobs/j?queue=q").await.json()["state"], "dead");
    api.end().await;
}

#[tokio::test]
async fn many_acks_are_answered_each() {
    let api = Api::new().await;
    api.submit(r#"{"jobs":[{"queue":"q"},{"queue":"q"}]}"#).await;
    let good = token(&api.lease("q").await);
    let body = json!({"acks": [
        {"token": good, "result": 7}, {"token": "0.1.999999"}, {"token": "nonsense"},
    ]});
    let answer = api.post("/v1/leases/ack", body.to_string()).await;
    let json = answer.json();
    assert_eq!((answer.status, &json["done"], &json["refused"]), (207, &json!(1), &json!(2)));
    let statuses: Vec<_> = json["acks"].as_array().unwrap().iter().map(|a| &a["status"]).collect();
    assert_eq!(statuses, [204, 409, 422]);
    assert_eq!(json["acks"][0]["token"], good);
    let again = api.post(&format!("/v1/leases/{good}/ack"), "").await;
    assert_eq!(again.status, 204, "a repeated ack is answered as the first was");
    api.end().await;
}

#[tokio::test]
async fn nonsense_is_refused_by_name() {
    let api = Api::new().await;
    let rows = [
        ("/v1/leases", r#"{"queue":"a","queues":["b"]}"#, 422, "queue"),
        ("/v1/leases", r#"{"queues":[]}"#, 422, "queues"),
        ("/v1/leases", r#"{"max":0}"#, 422, "max"),
        ("/v1/leases", r#"{"lease":"1ms"}"#, 422, "lease"),
        ("/v1/leases", r#"{"wait":"6m"}"#, 422, "wait"),
        ("/v1/leases", r#"{"worker":""}"#, 422, "worker"),
        ("/v1/leases/nonsense/ack", "", 422, "token"),
        ("/v1/leases/0.1/nack", "", 422, "token"),
        ("/v1/leases/0.1.x/extend", r#"{"lease":"1m"}"#, 422, "token"),
        ("/v1/leases/0.1.5/nack", "", 409, "token"),
        ("/v1/leases/0.1.5/extend", r#"{"lease":"1m"}"#, 409, "token"),
        ("/v1/leases/0.1.5/ack", r#"{"result":1,"result_text":"x"}"#, 422, "result"),
        ("/v1/leases/0.1.5/ack", "", 409, "token"),
        ("/v1/leases/0.1.5/nack", r#"{"how":"dead","delay":1}"#, 422, "delay"),
        ("/v1/leases/0.1.5/extend", "{}", 422, "lease"),
        ("/v1/leases/ack", r#"{"acks":[]}"#, 422, "acks"),
    ];
    for (path, body, status, field) in rows {
        let answer = api.post(path, body).await;
        assert_eq!(
            (answer.status, &answer.json()["field"]),
            (status, &json!(field)),
            "{path} {body}"
        );
    }
    api.end().await;
}

#[tokio::test]
async fn acks_go_ahead_of_a_lease() {
    let api = Api::new().await;
    api.submit(r#"{"jobs":[{"queue":"q","id":"a"},{"queue":"q","id":"b"}]}"#).await;
    let first = token(&api.lease("q").await);
    let body = json!({"queue": "q", "acks": [{"token": first, "result": 7}, {"token": "0.1.999"}]});
    let answer = api.post("/v1/leases", body.to_string()).await.json();
    assert_eq!(answer["jobs"][0]["id"], "b");
    let refused = &answer["acks"]["refused"];
    assert_eq!((&answer["acks"]["done"], refused.as_array().unwrap().len()), (&json!(1), 1));
    assert_eq!((&refused[0]["token"], &refused[0]["status"]), (&json!("0.1.999"), &json!(409)));
    assert_eq!(api.get("/v1/jobs/a?queue=q").await.json()["state"], "succeeded");

    // A request that is no good as a whole changes nothing.
    let second = token(&answer["jobs"][0]);
    let acks = json!([{"token": second}]);
    for wrong in [json!({"max": 0, "acks": acks}), json!({"lease": "1ms", "acks": acks})] {
        assert_eq!(api.post("/v1/leases", wrong.to_string()).await.status, 422, "{wrong}");
    }
    assert_eq!(api.get("/v1/jobs/b?queue=q").await.json()["state"], "running");

    // While the server ends, what is done is recorded and nothing is handed out.
    api.submit(r#"{"queue":"q","id":"c"}"#).await;
    api.switch.begin();
    let wrong = json!({"max": 0, "acks": acks});
    assert_eq!(api.post("/v1/leases", wrong.to_string()).await.status, 422);
    assert_eq!(api.get("/v1/jobs/b?queue=q").await.json()["state"], "running");
    let body = json!({"queue": "q", "wait": "5m", "acks": acks});
    let answer = api.post("/v1/leases", body.to_string()).await.json();
    assert_eq!(answer, json!({"jobs": [], "acks": {"done": 1, "refused": []}}));
    api.end().await;
}
