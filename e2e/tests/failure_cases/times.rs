//! Cases about time: small, large, missed, and wrong.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hence_e2e::suite::Ended;
use hence_e2e::{FakeClock, Receiver, Server, Setup, clock};
use serde_json::{Value, json};

const SOON: Duration = Duration::from_secs(20);

/// Delays of milliseconds are kept to the millisecond, and never rounded down to "now".
pub(crate) fn case_11_delays_below_a_second() -> Result<Ended> {
    let server = Server::start()?;
    let receiver = Receiver::start()?;
    let mut api = server.api();
    let base_ms = clock::now_ms() + 200;
    let offsets = [0, 1, 2, 17, 99, 250, 499, 501, 999, 1_001];
    for offset in offsets {
        let (id, at) = (format!("at-{offset}"), base_ms + offset);
        let answer = api.submit(&json!({"id": id, "at": at, "url": receiver.url("/")}))?;
        ensure!(answer["due_at_ms"] == at, "as asked: {answer}");
    }
    for offset in offsets {
        let arrival = receiver.wait_for(&format!("at-{offset}"), 1, SOON)?.remove(0);
        let due_us = (base_ms + offset) * 1_000;
        ensure!(arrival.due_us == due_us, "the header says when: {arrival:?}");
        let late_us = arrival.at_us - due_us;
        ensure!((0..1_000_000).contains(&late_us), "{offset} ms was late by {late_us} us");
    }
    Ok(Ended::Passed)
}

/// Far ahead is accepted, exact, kept over a restart, and does not fire.
pub(crate) fn case_12_far_ahead_is_exact_and_kept() -> Result<Ended> {
    let mut server = Server::start()?;
    let receiver = Receiver::start()?;
    let now_ms = clock::now_ms();
    let day = 24 * 3_600 * 1_000;
    // A day and a bit; 45 days; 2038 and what overflows there; a hundred years.
    let dues = [
        now_ms + day + 1,
        now_ms + 45 * day + 7,
        (i64::from(i32::MAX) + 2) * 1_000 + 123,
        now_ms + 100 * 365 * day,
    ];
    for (n, due) in dues.iter().enumerate() {
        let job = json!({"id": format!("far-{n}"), "at": due, "url": receiver.url("/")});
        let answer = server.api().submit(&job)?;
        ensure!(answer["due_at_ms"] == *due, "as asked: {answer}");
    }
    server.kill()?;
    server.restart()?;
    for (n, due) in dues.iter().enumerate() {
        let job = server.api().get(&format!("/v1/jobs/far-{n}"))?.expect(200)?;
        ensure!(job["due_at_ms"] == *due && job["state"] == "scheduled", "as before: {job}");
    }
    clock::sleep_ms(1_000);
    ensure!(receiver.count() == 0, "none has fired");
    let refused = server.api().post("/v1/jobs", &json!({"at": i64::MAX}))?;
    ensure!(refused.status == 422, "a mistaken unit is refused: {refused:?}");
    Ok(Ended::Passed)
}

/// Ticks missed in an outage are stood for by one, and counted; a backlog after it is worked off
/// with bounded pushes at once.
pub(crate) fn case_14_long_outage_makes_no_storm() -> Result<Ended> {
    let mut server = Server::start()?;
    let receiver = Receiver::start()?;
    let schedule = json!({"when": "@every 100ms", "job": {"url": receiver.url("/tick")}});
    let answer = server.api().json("PUT", "/v1/schedules/tick", &schedule)?;
    ensure!(matches!(answer.status, 200 | 201), "{answer:?}");
    let due_ms = clock::now_ms() + 1_000;
    let job =
        |n| json!({"id": format!("j{n}"), "at": due_ms, "url": receiver.url("/late?slow=20")});
    let jobs: Vec<Value> = (0..1_000).map(job).collect();
    server.api().post("/v1/jobs", &json!({ "jobs": jobs }))?.expect(207)?;
    receiver.wait_count(3, SOON)?;
    server.kill()?;
    let ticks = |r: &Receiver| r.arrivals().iter().filter(|a| a.path == "/tick").count();
    let before = ticks(&receiver);
    clock::sleep_ms(3_000);
    let down_until_us = clock::now_us();
    server.restart()?;
    receiver.wait_count(before + 1_000, Duration::from_secs(40))?;
    let after = receiver.arrivals();
    let made_up = after.iter().filter(|a| a.path == "/tick" && a.at_us >= down_until_us);
    let made_up = made_up.filter(|a| a.due_us < down_until_us).count();
    ensure!(made_up <= 2, "{made_up} ticks of the outage were made up for, not one");
    let most = most_at_once(&after.iter().filter(|a| a.path == "/late").collect::<Vec<_>>());
    ensure!(most <= 256, "{most} pushes at once");
    let path = "/v1/schedules/tick/occurrences?limit=100";
    let occurrences = server.api().get(path)?.expect(200)?;
    ensure!(occurrences.to_string().contains("coalesced"), "accounted for: {occurrences}");
    Ok(Ended::Passed)
}

fn most_at_once(arrivals: &[&hence_e2e::Arrival]) -> usize {
    let starts = arrivals.iter().map(|arrival| arrival.at_us);
    let open_at = |at| {
        arrivals.iter().filter(|a| a.at_us <= at && a.ended_us.is_none_or(|end| end > at)).count()
    };
    starts.map(open_at).max().unwrap_or_default()
}

/// The first tick comes at the time that was promised, not an interval later, and not at once.
pub(crate) fn case_15_first_tick_of_a_schedule() -> Result<Ended> {
    let server = Server::start()?;
    let receiver = Receiver::start()?;
    let mut api = server.api();
    let start_ms = clock::now_ms() + 700;
    let schedule = json!({
        "when": "@every 1h", "start": start_ms, "job": {"url": receiver.url("/tick")},
    });
    let put = api.json("PUT", "/v1/schedules/first", &schedule)?.value()?;
    ensure!(put["next_at_ms"] == start_ms, "the first tick is the start: {put}");
    receiver.wait_count(1, SOON)?;
    let tick = receiver.arrivals().remove(0);
    let late_us = tick.at_us - start_ms * 1_000;
    ensure!((0..2_000_000).contains(&late_us), "late by {late_us} us");
    let state = api.get("/v1/schedules/first")?.expect(200)?;
    let next = start_ms + 3_600_000;
    ensure!(state["fired"] == 1 && state["next_at_ms"] == next, "on to the next: {state}");
    let occurrences = api.get("/v1/schedules/first/occurrences")?.expect(200)?;
    let list = occurrences["occurrences"].as_array().cloned().unwrap_or_default();
    ensure!(list.len() == 1, "one tick is accounted for: {occurrences}");
    Ok(Ended::Passed)
}

/// The wall clock is set back and ahead under a running server. Back: nothing runs twice or
/// before its time. A little ahead: what is due by then runs. Far ahead: held until the clock
/// stays there.
pub(crate) fn case_23_the_clock_jumps() -> Result<Ended> {
    let Some(fake) = FakeClock::new()? else {
        return Ok(Ended::Skipped("libfaketime is not installed".to_owned()));
    };
    let mut setup = Setup::default();
    setup.env.extend(fake.env());
    let server = Server::start_with(setup)?;
    let result = jump(&server, &fake);
    server.explain(result)?;
    Ok(Ended::Passed)
}

fn jump(server: &Server, fake: &FakeClock) -> Result<()> {
    let receiver = Receiver::start()?;
    let mut api = server.api();
    let mut submit =
        |id: &str, span: &str| api.submit(&json!({"id": id, "in": span, "url": receiver.url("/")}));
    submit("in-an-hour", "50m")?;
    submit("in-a-month", "30d")?;
    submit("soon", "1s")?;
    receiver.wait_for("soon", 1, SOON)?;
    fake.set(-1_800)?;
    submit("after-back", "300ms")?;
    receiver.wait_for("after-back", 1, SOON)?;
    clock::sleep_ms(500);
    ensure!(receiver.count() == 2, "nothing ran twice, nothing early: {:?}", receiver.arrivals());
    fake.set(3_000)?;
    receiver.wait_for("in-an-hour", 1, Duration::from_secs(10)).context("50 minutes ahead")?;
    fake.set(2_678_400)?;
    clock::sleep_ms(2_500);
    ensure!(receiver.of("in-a-month").is_empty(), "a jump of a month is not believed at once");
    fake.set(3_000)?;
    clock::sleep_ms(1_000);
    submit("after-all", "300ms")?;
    receiver.wait_for("after-all", 1, SOON)?;
    ensure!(receiver.of("in-a-month").is_empty(), "taken back: it never happened");
    fake.set(2_678_400)?;
    receiver.wait_for("in-a-month", 1, SOON).context("a jump that stays is believed")?;
    let doubled = receiver.arrivals().len();
    ensure!(doubled == 5, "five jobs, five deliveries, not {doubled}");
    Ok(())
}
