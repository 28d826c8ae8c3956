//! What becomes of deliveries, step by step. Time stands still: ticks come when a test rests.

use std::sync::mpsc::Receiver;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use hence_core::job::{Job, Lease};
use hence_core::time::Millis;
use tokio::time::Instant;

use super::*;
use crate::clock::SystemClock;
use crate::lane::tests::{delivery, token};

/// Room for more than any of these tests delivers.
const WIDE: Room = Room { pushes: 10_000, handlers: 10_000 };

fn dispatch(mailbox: Mailbox, http: Arc<dyn Target>, room: Room) -> Arc<Dispatch> {
    let outside: (Arc<dyn Clock>, _) = (Arc::new(SystemClock::new()), Observers::default());
    Dispatch::new(Handle::current(), mailbox, http, Handlers::new(), room, outside)
}

/// Notes whatever arrives, and how long it may take.
#[derive(Default)]
struct Notes(Mutex<Vec<(u64, Duration)>>);

impl Notes {
    fn counters(&self) -> Vec<u64> {
        self.0.lock().unwrap().iter().map(|(counter, _)| *counter).collect()
    }
}

impl Target for Notes {
    fn deliver(&self, delivery: Delivery, deadline: Instant) -> BoxFuture<'_, Report> {
        let time = deadline - monotonic();
        self.0.lock().unwrap().push((delivery.lease.token.counter, time));
        async { Report::Succeeded { result: None } }.boxed()
    }
}

/// What was told and not heard yet.
fn told(inbox: &Receiver<Message>) -> Reports {
    let reports = inbox.try_iter().map(|message| match message {
        Message::Delivered(reports) => reports,
        _ => panic!("not a report"),
    });
    reports.flatten().collect()
}

/// The next so many reports; each says whether the job was given back.
async fn reports(inbox: &Receiver<Message>, count: usize) -> Vec<(u64, bool)> {
    let mut seen = Vec::new();
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
        let told = told(inbox).into_iter();
        seen.extend(told.map(|(token, report)| (token.counter, report == Report::Released)));
    }
    assert_eq!(seen.len(), count, "{seen:?}");
    seen.sort_unstable();
    seen
}

#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn what_is_taken_out_before_it_begins_does_not_leave() {
    let (mailbox, inbox) = Mailbox::new(None);
    let notes = Arc::new(Notes::default());
    let http: Arc<dyn Target> = notes.clone();
    let dispatch = dispatch(mailbox, http, WIDE);
    dispatch.deliver(vec![delivery(1), delivery(2), delivery(3)]);
    dispatch.abandon(token(2));
    assert_eq!(reports(&inbox, 2).await, [(1, false), (3, false)]);
    dispatch.deliver(vec![delivery(4)]);
    dispatch.give_all_back();
    dispatch.deliver(vec![delivery(5)]);
    assert_eq!(reports(&inbox, 2).await, [(4, true), (5, true)]);
    assert_eq!(notes.counters(), [1, 3]);
    assert!(lock(&dispatch.running).by_token.is_empty(), "nothing is left behind");
}

/// Succeeds when it is told to.
struct Waits(Arc<Notify>);

impl Target for Waits {
    fn deliver(&self, _delivery: Delivery, _deadline: Instant) -> BoxFuture<'_, Report> {
        let told = Arc::clone(&self.0);
        async move {
            told.notified().await;
            Report::Succeeded { result: None }
        }
        .boxed()
    }
}

/// A job that must not run twice was sent again after a shutdown, as if it had not left.
#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn what_has_begun_is_cut_short_and_not_released() {
    let (mailbox, inbox) = Mailbox::new(None);
    let http: Arc<dyn Target> = Arc::new(Waits(Arc::default()));
    let dispatch = dispatch(mailbox, http, WIDE);
    dispatch.deliver(vec![delivery(1)]);
    tokio::task::yield_now().await;
    dispatch.deliver(vec![delivery(2)]);
    dispatch.give_all_back();
    let released_and_cut_short = [(token(2), Report::Released), (token(1), Report::CutShort)];
    assert_eq!(told(&inbox), released_and_cut_short);
}

/// A success that was about to be told was given back at a shutdown, and came again.
#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn a_success_is_told_before_it_can_be_given_back() {
    let (mailbox, inbox) = Mailbox::new(None);
    let waits = Arc::new(Notify::new());
    let http: Arc<dyn Target> = Arc::new(Waits(Arc::clone(&waits)));
    let dispatch = dispatch(mailbox, http, Room { pushes: 1, handlers: 0 });
    dispatch.deliver((1..=4).map(delivery).collect());
    assert_eq!(reports(&inbox, 0).await, []);
    waits.notify_one();
    // Its report is held back, as others wait; it is not a delivery under way any more.
    assert_eq!(reports(&inbox, 0).await, []);
    assert_eq!(lock(&dispatch.running).by_token.len(), 3);
    dispatch.give_all_back();
    let all = [
        (token(1), Report::Succeeded { result: None }),
        (token(3), Report::Released),
        (token(4), Report::Released),
        (token(2), Report::CutShort),
    ];
    assert_eq!(told(&inbox), all);
    waits.notify_one();
    assert_eq!(reports(&inbox, 0).await, []);
}

/// Tasks of this test's runtime, itself not counted.
fn tasks() -> usize {
    Handle::current().metrics().num_alive_tasks()
}

#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn whoever_is_back_takes_the_next_delivery_until_all_are_sent_home() {
    let (mailbox, inbox) = Mailbox::new(None);
    let http: Arc<dyn Target> = Arc::new(Notes::default());
    let dispatch = dispatch(mailbox, http, WIDE);
    for counter in 1..=3 {
        dispatch.deliver(vec![delivery(counter)]);
        assert_eq!(reports(&inbox, 1).await, [(counter, false)]);
        assert_eq!((tasks(), lock(&dispatch.running).idle.len()), (1, 1));
    }
    dispatch.give_all_back();
    assert_eq!(reports(&inbox, 0).await, []);
    assert_eq!(tasks(), 0);
}

#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn no_more_wait_for_work_than_are_worth_it() {
    let (mailbox, inbox) = Mailbox::new(None);
    let http: Arc<dyn Target> = Arc::new(Notes::default());
    let dispatch = dispatch(mailbox, http, WIDE);
    let crowd = IDLE_MAX + 10;
    dispatch.deliver((1..=crowd as u64).map(delivery).collect());
    assert_eq!(reports(&inbox, crowd).await.len(), crowd);
    assert_eq!((tasks(), lock(&dispatch.running).idle.len()), (IDLE_MAX, IDLE_MAX));
}

/// Its task is being stopped, and the next delivery would be stopped with it.
#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn whoever_was_stopped_takes_no_other_delivery() {
    let (mailbox, inbox) = Mailbox::new(None);
    let told = Arc::new(Notify::new());
    let http: Arc<dyn Target> = Arc::new(Waits(Arc::clone(&told)));
    let dispatch = dispatch(mailbox, http, WIDE);
    dispatch.deliver(vec![delivery(1)]);
    assert_eq!(reports(&inbox, 0).await, []);
    dispatch.abandon(token(1));
    dispatch.deliver(vec![delivery(2)]);
    told.notify_one();
    assert_eq!(reports(&inbox, 1).await, [(2, false)]);
    assert_eq!((tasks(), lock(&dispatch.running).idle.len()), (1, 1));
}

/// So many at once, whatever is handed out; the next one needs no other task.
#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn whoever_finds_no_room_takes_the_place_of_one_that_ends() {
    let (mailbox, inbox) = Mailbox::new(None);
    let waits = Arc::new(Notify::new());
    let http: Arc<dyn Target> = Arc::new(Waits(Arc::clone(&waits)));
    let dispatch = dispatch(mailbox, http, Room { pushes: 2, handlers: 0 });
    dispatch.deliver((1..=6).map(delivery).collect());
    let begun = |dispatch: &Dispatch| {
        let running = lock(&dispatch.running);
        let is_begun = |(token, stage): (&Token, &Stage)| {
            matches!(stage, Stage::Begun(_)).then_some(token.counter)
        };
        running.by_token.iter().filter_map(is_begun).collect::<Vec<u64>>()
    };
    assert_eq!(reports(&inbox, 0).await, []);
    assert_eq!(begun(&dispatch), [1, 2]);
    // One is given up, one is not wanted any more, one ends.
    dispatch.abandon(token(1));
    dispatch.abandon(token(4));
    waits.notify_one();
    tokio::task::yield_now().await;
    assert_eq!(begun(&dispatch), [3, 5]);
    dispatch.deliver(vec![delivery(7)]);
    waits.notify_waiters();
    assert_eq!(reports(&inbox, 3).await, [(2, false), (3, false), (5, false)]);
    assert_eq!(begun(&dispatch), [6, 7]);
    dispatch.give_all_back();
}

/// It was sent after its job had expired, or so late that its lease ended before its deadline.
#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn what_may_not_begin_any_more_is_given_back_and_not_sent() {
    let (mailbox, inbox) = Mailbox::new(None);
    let notes = Arc::new(Notes::default());
    let dispatch = dispatch(mailbox, notes.clone(), Room { pushes: 1, handlers: 0 });
    let now = SystemClock::new().now();
    let hour = Millis::from_secs(3_600);
    let expiring = |counter, at| {
        let delivery = delivery(counter);
        let job = Job { expires_at: Some(at), ..(*delivery.job).clone() };
        Delivery { job: Arc::new(job), ..delivery }
    };
    let leased_for = |counter, span| {
        let delivery = delivery(counter);
        let until = now.plus(Millis::from_secs(span));
        Delivery { lease: Lease { until, ..delivery.lease }, ..delivery }
    };
    assert_eq!(delivery(3).job.timeout, Millis::from_secs(30));
    let all = vec![
        expiring(1, now),
        expiring(2, now.plus(hour)),
        leased_for(3, 15),
        leased_for(4, 20),
        delivery(5),
    ];
    // Time stands still, but not that of the lease.
    while SystemClock::new().now() == now {}
    dispatch.deliver(all);
    let reported = [(1, true), (2, false), (3, true), (4, false), (5, false)];
    assert_eq!(reports(&inbox, 5).await, reported);
    assert_eq!(notes.counters(), [2, 4, 5]);
    let times = notes.0.lock().unwrap().clone();
    assert_eq!((times[0].1, times[2].1), (Duration::from_secs(30), Duration::from_secs(30)));
    assert!(times[1].1 < Duration::from_secs(20), "{times:?}");
}

/// A shutdown lets those finish that have begun, and does not wait for others.
#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn when_it_is_closed_what_has_begun_goes_on_and_nothing_else_begins() {
    let (mailbox, inbox) = Mailbox::new(None);
    let waits = Arc::new(Notify::new());
    let http: Arc<dyn Target> = Arc::new(Waits(Arc::clone(&waits)));
    let dispatch = dispatch(mailbox, http, Room { pushes: 1, handlers: 0 });
    dispatch.deliver(vec![delivery(1), delivery(2)]);
    assert_eq!(reports(&inbox, 0).await, []);
    dispatch.deliver(vec![delivery(3)]);
    dispatch.close();
    dispatch.deliver(vec![delivery(4)]);
    assert_eq!(reports(&inbox, 3).await, [(2, true), (3, true), (4, true)]);
    waits.notify_one();
    assert_eq!(reports(&inbox, 1).await, [(1, false)]);
    assert!(lock(&dispatch.running).by_token.is_empty());
}

/// Fewer ended than waited, and then nothing ended for long: nobody was told.
#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn what_is_held_back_is_told_soon_and_who_waits_too_long_is_given_back() {
    let (mailbox, inbox) = Mailbox::new(None);
    let waits = Arc::new(Notify::new());
    let http: Arc<dyn Target> = Arc::new(Waits(Arc::clone(&waits)));
    let dispatch = dispatch(mailbox, http, Room { pushes: 1, handlers: 0 });
    dispatch.deliver((1..=5).map(delivery).collect());
    assert_eq!(reports(&inbox, 0).await, []);
    waits.notify_one();
    assert_eq!(reports(&inbox, 0).await, []);
    rest(Lane::TICK * 4).await;
    assert_eq!(told(&inbox), [(token(1), Report::Succeeded { result: None })]);
    dispatch.abandon(token(5));
    rest(Lane::TICK * 100).await;
    assert_eq!(reports(&inbox, 2).await, [(3, true), (4, true)]);
    assert!(!lock(&dispatch.running).ticks, "nobody waits any more");
    assert_eq!(lock(&dispatch.running).by_token.len(), 1, "nothing is left behind");
    waits.notify_one();
    assert_eq!(reports(&inbox, 1).await, [(2, false)]);
    assert_eq!(tasks(), 1);
}
