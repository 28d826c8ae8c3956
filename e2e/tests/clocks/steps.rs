//! The wall clock is set, ahead and back.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use hence_e2e::suite::Ended;
use hence_e2e::{Receiver, clock};
use serde_json::json;

use crate::faketime::{Faked, with_clock};

const SOON: Duration = Duration::from_secs(10);
const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;

/// A large step is believed when it has lasted five seconds; the file is read a moment later.
const BELIEVED_AFTER: Duration = Duration::from_millis(4_700);

/// A job that is due in ten minutes fires when the clock says that they have passed.
pub(crate) fn a_small_step_ahead_is_believed_at_once() -> Result<Ended> {
    with_clock(|faked| {
        let receiver = Receiver::start()?;
        submit(faked, &receiver, "soon", "10m")?;
        submit(faked, &receiver, "later", "30m")?;
        ensure!(nothing_for(&receiver, "soon", Duration::from_millis(700)), "it is not due");
        faked.set(11 * MINUTE)?;
        receiver.wait_for("soon", 1, Duration::from_secs(3))?;
        goes_on(faked, &receiver)?;
        once_each(&receiver, &["soon"])?;
        ensure!(receiver.of("later").is_empty(), "it is not due by any clock");
        Ok(())
    })
}

/// The clock jumps by a month and is set right again: nothing of what is due in that month comes
/// early, and what is due by the true clock comes meanwhile.
pub(crate) fn a_large_step_ahead_that_is_taken_back_fires_nothing() -> Result<Ended> {
    with_clock(|faked| {
        let receiver = Receiver::start()?;
        submit(faked, &receiver, "in-two-hours", "2h")?;
        submit(faked, &receiver, "soon", "2s")?;
        let submitted = Instant::now();
        faked.set(30 * 24 * HOUR)?;
        let soon = receiver.wait_for("soon", 1, SOON)?;
        let took = submitted.elapsed();
        ensure!(took >= Duration::from_millis(1_900), "early by the true clock: {soon:?} {took:?}");
        faked.set(0)?;
        // Longer than a step must last to be believed: this one has not lasted.
        ensure!(nothing_for(&receiver, "in-two-hours", Duration::from_secs(7)), "it came early");
        goes_on(faked, &receiver)?;
        once_each(&receiver, &["soon"])
    })
}

/// The clock was wrong before and is right now: what is due by it comes, after the wait.
pub(crate) fn a_large_step_ahead_that_stays_is_believed() -> Result<Ended> {
    with_clock(|faked| {
        let receiver = Receiver::start()?;
        submit(faked, &receiver, "in-two-hours", "2h")?;
        let stepped = Instant::now();
        faked.set(3 * HOUR)?;
        receiver.wait_for("in-two-hours", 1, SOON)?;
        let took = stepped.elapsed();
        ensure!(took >= BELIEVED_AFTER, "believed after {took:?}");
        goes_on(faked, &receiver)?;
        once_each(&receiver, &["in-two-hours"])
    })
}

/// What is due is later by the step; what has been delivered is not delivered again.
pub(crate) fn a_step_back_delays_and_doubles_nothing() -> Result<Ended> {
    with_clock(|faked| {
        let receiver = Receiver::start()?;
        submit(faked, &receiver, "before", "0s")?;
        receiver.wait_for("before", 1, SOON)?;
        submit(faked, &receiver, "waits", "1s")?;
        faked.set(-30 * MINUTE)?;
        ensure!(nothing_for(&receiver, "waits", Duration::from_millis(1_500)), "not due again");
        goes_on(faked, &receiver)?;
        faked.set(0)?;
        receiver.wait_for("waits", 1, SOON)?;
        once_each(&receiver, &["before", "waits"])
    })
}

/// A lease lasts as long as the clock says; then the job is another's, and the first one's success
/// is refused.
pub(crate) fn leases_run_out_after_a_step() -> Result<Ended> {
    with_clock(|faked| {
        let mut api = faked.server.api();
        api.submit(&json!({"id": "pulled", "queue": "q", "retry": {"delay": "0s"}}))?;
        let first = api.lease(&json!({"queue": "q", "lease": "10m"}))?;
        ensure!(first.len() == 1, "{first:?}");
        faked.set(-5 * MINUTE)?;
        let none = api.lease(&json!({"queue": "q", "wait": "500ms"}))?;
        ensure!(none.is_empty(), "two at once: {none:?}");
        faked.set(11 * MINUTE)?;
        let second = api.lease(&json!({"queue": "q", "lease": "10m", "wait": "10s"}))?;
        ensure!(second.len() == 1, "the lease did not run out");
        let ack = |lease: &serde_json::Value| {
            format!("/v1/leases/{}/ack", lease["token"].as_str().unwrap_or_default())
        };
        ensure!(api.post(&ack(&first[0]), &json!({}))?.status == 409, "the first is too late");
        ensure!(api.post(&ack(&second[0]), &json!({}))?.status == 204, "the second counts");
        Ok(())
    })
}

/// Back and forth under load, by up to half an hour: each job comes once, but for one that was
/// under way when the clock leapt past the end of its lease, and says so.
pub(crate) fn a_clock_that_jumps_about_doubles_nothing() -> Result<Ended> {
    with_clock(|faked| {
        let receiver = Receiver::start()?;
        let mut names = Vec::new();
        for step in 0..40 {
            faked.set([0, 1, -1, 20, -20, 25 * MINUTE, -25 * MINUTE, 3][step % 8])?;
            for n in 0..5 {
                let name = format!("j{step}-{n}");
                submit(faked, &receiver, &name, ["0s", "50ms", "2s"][n % 3])?;
                names.push(name);
            }
            clock::sleep_ms(40);
        }
        // Beyond everything that was promised under any of the clocks.
        faked.set(26 * MINUTE)?;
        for name in &names {
            receiver.wait_for(name, 1, SOON)?;
        }
        goes_on(faked, &receiver)?;
        let cut_off = |id: &str| -> Result<bool> {
            let path = format!("/v1/jobs/{id}/attempts?queue=default");
            let attempts = faked.server.api().get(&path)?.value()?;
            Ok(attempts["attempts"][0]["end"] == "timed_out")
        };
        let mut names: Vec<&str> = names.iter().map(String::as_str).collect();
        for name in std::mem::take(&mut names) {
            if !cut_off(name)? {
                names.push(name);
            }
        }
        ensure!(names.len() > 150, "only {} were not cut off", names.len());
        once_each(&receiver, &names)
    })
}

/// Every tick of a schedule makes at most one job, whichever way the clock goes over it.
pub(crate) fn schedules_tick_once_however_the_clock_jumps() -> Result<Ended> {
    with_clock(|faked| {
        let receiver = Receiver::start()?;
        let mut api = faked.server.api();
        let schedule = json!({"when": "every second", "job": {"url": receiver.url("/tick")}});
        let made = api.json("PUT", "/v1/schedules/beat", &schedule)?;
        ensure!(matches!(made.status, 200 | 201), "{made:?}");
        receiver.wait_count(2, SOON)?;
        for offset in [3, -3, 2, 0, -2, 4] {
            faked.set(offset)?;
            clock::sleep_ms(300);
        }
        let before = receiver.count();
        receiver.wait_count(before + 2, Duration::from_secs(20))?;
        let mut dues: HashMap<i64, usize> = HashMap::new();
        for tick in receiver.arrivals() {
            *dues.entry(tick.due_us).or_default() += 1;
        }
        let doubled: Vec<_> = dues.iter().filter(|(_, count)| **count > 1).collect();
        ensure!(doubled.is_empty(), "ticks that came twice: {doubled:?}");
        Ok(())
    })
}

fn submit(faked: &Faked, receiver: &Receiver, id: &str, after: &str) -> Result<()> {
    let job = json!({"id": id, "in": after, "url": receiver.url("/")});
    faked.server.api().submit(&job).map(drop)
}

/// Whether nothing of this job arrives for so long.
fn nothing_for(receiver: &Receiver, id: &str, span: Duration) -> bool {
    clock::until(span, || (!receiver.of(id).is_empty()).then_some(())).is_none()
}

/// A new job is taken and delivered.
fn goes_on(faked: &Faked, receiver: &Receiver) -> Result<()> {
    submit(faked, receiver, "goes-on", "100ms")?;
    receiver.wait_for("goes-on", 1, SOON).map(drop)
}

/// Each was answered once. A delivery during which the clock leaps over its deadline is cut off
/// and made again: it has no answer.
fn once_each(receiver: &Receiver, ids: &[&str]) -> Result<()> {
    clock::sleep_ms(300);
    for id in ids {
        let mut arrivals = receiver.of(id);
        arrivals.retain(|arrival| arrival.status.is_some());
        ensure!(arrivals.len() == 1, "{id} came {} times: {arrivals:?}", arrivals.len());
    }
    Ok(())
}
