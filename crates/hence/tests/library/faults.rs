//! A store that fails: what was acknowledged stays, what was not is never seen to happen twice.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use hence::core::effect::Submitted;
use hence::core::error::Rejection;
use hence::core::job::{AttemptEnd, JobState};
use hence::core::time::Millis;
use hence::observe::{Event, Observer};
use hence::store::faulty::{Faults, Faulty};
use hence::store::{ErrorKind, MemoryStore, Store};
use hence::testing::TestHence;
use hence::{Builder, Error, NewJob};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;

use crate::support::scripted::{Gate, Scripted, Step};
use crate::support::{
    DEADLINE, HOUR, MINUTE, Seen, call, ends, lease_one, name, names, note, queue, start_on, state,
    within,
};

fn scripted() -> Arc<Scripted> {
    Scripted::passing(Arc::new(MemoryStore::new(1)))
}

/// The same store, on another machine.
fn far(store: &Arc<Scripted>) -> Arc<Scripted> {
    store.move_away();
    Arc::clone(store)
}

/// Counts commits that failed and will be tried again.
#[derive(Default)]
struct Failures(AtomicUsize);

impl Observer for Failures {
    fn observe(&self, event: Event<'_>) {
        if let Event::CommitFailed { .. } = event {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
}

#[tokio::test]
async fn p1_p4_a_store_that_comes_and_goes_loses_nothing_and_doubles_nothing() {
    use ErrorKind::{Full, Unavailable};
    let rows = [
        ("away", Step::Fail(Unavailable)),
        ("made, but the answer was lost", Step::MakeAndFail(Unavailable)),
        ("no room for a moment", Step::Fail(Full)),
    ];
    for (row, fault) in rows {
        let (seen, failures) = (Seen::default(), Arc::new(Failures::default()));
        let store = scripted();
        // Every other commit fails at its first try.
        store.plan(move |number| if number % 3 == 1 { fault.clone() } else { Step::Make });
        let builder = Builder::new(store).observer(failures.clone());
        let hence = start_on(builder, &seen).await;
        let client = hence.client();
        let jobs = (0..50).map(|n| note(&n.to_string()).after(MINUTE)).collect();
        let names = names(within(client.add_many(jobs)).await.unwrap());
        within(hence.advance(MINUTE)).await.unwrap();
        let mut texts = seen.texts();
        texts.sort_by_key(|text| text.parse::<u32>().unwrap());
        assert_eq!(texts, (0..50).map(|n| n.to_string()).collect::<Vec<_>>(), "{row}");
        for name in names {
            assert_eq!(ends(&client, &name).await, [(1, AttemptEnd::Succeeded)], "{row}");
        }
        let counts = client.queue(queue("default")).await.unwrap().counts;
        assert_eq!((counts.submitted, counts.succeeded, counts.delivered), (50, 50, 50), "{row}");
        assert!(failures.0.load(Ordering::SeqCst) > 0, "{row}");
    }
}

#[tokio::test]
async fn p1_p4_a_store_that_fails_at_random_loses_nothing_and_doubles_nothing() {
    let faults = Faults {
        delayed: 0.5,
        delay_polls_max: 20,
        refused: 0.15,
        timed_out: 0.15,
        ..Faults::default()
    };
    for seed in 1..=8 {
        let (seen, near) = (Seen::default(), scripted());
        // Every other one is on another machine.
        let below = if seed % 2 == 0 { far(&near) } else { near };
        let store = Arc::new(Faulty::new(below, seed, faults));
        let hence = loop {
            // What cannot be reached at the start is for whoever starts to try again.
            let builder = Builder::new(store.clone()).handler("note", seen.note()).unwrap();
            match TestHence::start(builder).await {
                Ok(hence) => break hence,
                Err(error) => assert!(error.is_retryable(), "seed {seed}: {error}"),
            }
        };
        let client = hence.client();
        let given = |n: u64| {
            let text = n.to_string();
            note(&text).id(&text).unwrap().after(Millis::from_secs(1 + n % 5))
        };
        // Each twice: the second one replaces the first, by way of a look into the store.
        for _ in 0..2 {
            let added = within(client.add_many((0..30).map(given).collect())).await.unwrap();
            assert!(added.iter().all(Result::is_ok), "seed {seed}: {added:?}");
        }
        within(hence.advance(MINUTE)).await.unwrap();
        let counts = client.queue(queue("default")).await.unwrap().counts;
        assert_eq!((counts.pending, counts.running, counts.dead), (0, 0, 0), "seed {seed}");
        assert_eq!(counts.succeeded as usize, seen.calls().len(), "seed {seed}");
        let mut texts = seen.texts();
        texts.sort();
        texts.dedup();
        assert_eq!(texts.len(), 30, "seed {seed}");
        let fired = store.counts();
        assert!(fired.refused + fired.timed_out > 0 && fired.delayed > 0, "seed {seed}: {fired:?}");
    }
}

/// Starts on a store that is far away, with one commit that waits before the gate, and another
/// that was sent behind it.
async fn two_under_way(
    builder: Builder,
    store: &Scripted,
    seen: &Seen,
    gate: &Gate,
    mut steps: VecDeque<Step>,
) -> (TestHence, [JoinHandle<Result<(), Error>>; 2]) {
    let hence = start_on(builder, seen).await;
    let sent = Arc::new(Notify::new());
    let noticed = Arc::clone(&sent);
    store.plan(move |_| {
        let step = steps.pop_front();
        if steps.is_empty() {
            noticed.notify_one();
        }
        step.unwrap_or(Step::Make)
    });
    let client = hence.client();
    let first =
        tokio::spawn(async move { client.add(note("first").after(MINUTE)).await.map(drop) });
    within(gate.arrival()).await;
    let client = hence.client();
    let jobs = (0..600).map(|n| note(&n.to_string()).after(MINUTE)).collect();
    let second = tokio::spawn(async move { client.add_many(jobs).await.map(|it| drop(names(it))) });
    within(sent.notified()).await;
    (hence, [first, second])
}

/// On a store that is far away a large group does not wait for the one before it.
#[tokio::test]
async fn p1_p4_what_was_sent_behind_a_commit_that_fails_is_made_again_in_its_order() {
    use ErrorKind::{Full, Unavailable};
    type First = fn(Arc<Gate>) -> Step;
    let rows: [(&str, First, Step, usize); 7] = [
        ("both are made", Step::Wait, Step::Make, 2),
        ("away", |gate| Step::WaitAndFail(gate, Unavailable), Step::AtOnce, 4),
        ("full", |gate| Step::WaitAndFail(gate, Full), Step::AtOnce, 4),
        ("no answer to the first", |gate| Step::AtOnceAndFail(gate, Unavailable), Step::Make, 4),
        ("no answer to both", |gate| Step::AtOnceAndFail(gate, Unavailable), Step::AtOnce, 4),
        ("the second is away", Step::Wait, Step::Fail(Unavailable), 3),
        ("no answer to the second", Step::Wait, Step::MakeAndFail(Unavailable), 3),
    ];
    for (row, first, second, commits) in rows {
        let (seen, store, gate) = (Seen::default(), scripted(), Gate::new());
        let steps = VecDeque::from([first(Arc::clone(&gate)), second]);
        let builder = Builder::new(far(&store));
        let (hence, calls) = two_under_way(builder, &store, &seen, &gate, steps).await;
        assert!(calls.iter().all(|call| !call.is_finished()), "{row}");
        let before = store.commits();
        gate.open();
        for call in calls {
            within(call).await.unwrap().unwrap();
        }
        assert_eq!(store.commits() - before + 2, commits, "{row}");
        within(hence.advance(MINUTE)).await.unwrap();
        let counts = hence.client().queue(queue("default")).await.unwrap().counts;
        assert_eq!((counts.submitted, counts.succeeded), (601, 601), "{row}");
        assert_eq!(seen.calls().len(), 601, "{row}");
    }
}

#[tokio::test]
async fn p1_nothing_sent_behind_a_commit_that_is_fenced_is_acknowledged() {
    let (seen, store, gate) = (Seen::default(), scripted(), Gate::new());
    let fenced = Step::WaitAndFail(Arc::clone(&gate), ErrorKind::Fenced);
    let steps = VecDeque::from([fenced, Step::AtOnce]);
    let (builder, mut tells) = fatal_calls(Builder::new(far(&store)));
    let (_hence, calls) = two_under_way(builder, &store, &seen, &gate, steps).await;
    let before = store.commits();
    gate.open();
    for call in calls {
        let answer = within(call).await.unwrap();
        assert!(matches!(answer, Err(Error::Stopped)), "{answer:?}");
    }
    assert_eq!(within(tells.recv()).await, Some(ErrorKind::Fenced));
    assert_eq!(store.commits(), before, "nothing is tried again");
}

#[tokio::test]
async fn p1_nothing_is_acknowledged_or_delivered_before_it_is_durable() {
    let (seen, store) = (Seen::default(), scripted());
    let hence = start_on(Builder::new(store.clone()), &seen).await;
    let client = hence.client();
    let gate = store.hold();
    let mut adding = Box::pin(client.add(note("job").id("job").unwrap()));
    assert!(futures::poll!(&mut adding).is_pending());
    gate.arrival().await;
    assert!(futures::poll!(&mut adding).is_pending(), "not acknowledged");
    assert!(seen.calls().is_empty(), "not delivered");
    gate.open();
    assert_eq!(within(adding).await.unwrap().how, Submitted::Created);
    within(hence.settle()).await.unwrap();
    assert_eq!(seen.calls().len(), 1);
}

#[tokio::test]
async fn what_comes_while_a_commit_is_under_way_shares_the_next_one() {
    let store = scripted();
    let hence = start_on(Builder::new(store.clone()), &Seen::default()).await;
    let gate = store.hold();
    let add = |_| {
        let client = hence.client();
        tokio::spawn(async move { client.add(NewJob::worker().after(HOUR)).await })
    };
    let first = add(0);
    gate.arrival().await;
    let others: Vec<_> = (0..200).map(add).collect();
    // Answered behind the gate like all others, so all of them have been taken in by then.
    let last = hence.client();
    let last = tokio::spawn(async move { last.show(name("nobody")).await });
    tokio::task::yield_now().await;
    gate.open();
    for adding in others.into_iter().chain([first]) {
        within(adding).await.unwrap().unwrap();
    }
    assert!(within(last).await.unwrap().is_err());
    assert!(store.commits() < 50, "200 jobs took {} commits", store.commits());
}

#[tokio::test]
async fn a_delivery_that_was_taken_back_before_it_left_never_leaves() {
    let (seen, gate, store) = (Seen::default(), Gate::new(), scripted());
    let hence = start_on(Builder::new(store.clone()), &seen).await;
    let client = hence.client();
    let job = within(client.add(note("late").after(MINUTE))).await.unwrap();
    // While this one is being written, the first one becomes due and is taken back: both are
    // decided in one turn, and become durable together.
    let closed = gate.clone();
    store.plan(move |_| Step::Wait(closed.clone()));
    let mut other = Box::pin(client.add(note("other").after(HOUR)));
    assert!(futures::poll!(&mut other).is_pending());
    within(gate.arrival()).await;
    hence.clock().advance(MINUTE);
    let mut cancel = Box::pin(client.cancel(job.view.job.name.clone()));
    assert!(futures::poll!(&mut cancel).is_pending());
    gate.open();
    assert_eq!(within(cancel).await.unwrap().state, JobState::Cancelled);
    within(other).await.unwrap();
    within(hence.settle()).await.unwrap();
    within(hence.advance(HOUR)).await.unwrap();
    assert_eq!(seen.texts(), ["other"]);
}

#[tokio::test]
async fn p11_a_full_store_refuses_new_work_and_goes_on_with_the_old() {
    let (seen, store) = (Seen::default(), scripted());
    let hence = start_on(Builder::new(store.clone()), &seen).await;
    let client = hence.client();
    client.add(note("old").after(MINUTE)).await.unwrap();
    client.add(NewJob::worker()).await.unwrap();
    store.set_full(true);
    let error = client.add(note("new")).await.unwrap_err();
    assert_eq!(error.rejection(), Some(&Rejection::StoreFull));
    assert!(error.is_retryable());
    client.ack(lease_one(&client, "default").await.lease.token, None).await.unwrap();
    hence.jump(MINUTE).await.unwrap();
    assert_eq!(seen.texts(), ["old"]);
    store.set_full(false);
    client.add(note("new")).await.expect("without a restart");
    hence.settle().await.unwrap();
    assert_eq!(seen.texts(), ["old", "new"]);
}

#[tokio::test]
async fn p11_too_many_waiting_requests_are_refused_at_once() {
    let store = scripted();
    let hence = start_on(Builder::new(store.clone()), &Seen::default()).await;
    let client = hence.client();
    client.add(NewJob::worker()).await.unwrap();
    let token = lease_one(&client, "default").await.lease.token;
    client.ack(token, None).await.unwrap();
    let gate = store.hold();
    let first = client.clone();
    let first = tokio::spawn(async move { first.add(NewJob::worker()).await });
    gate.arrival().await;

    let batch = || vec![(token, None); 65_535];
    let mut waiting: Vec<_> = (0..3).map(|_| Box::pin(client.ack_many(batch()))).collect();
    for one in &mut waiting {
        assert!(futures::poll!(one).is_pending());
    }
    let refused = client.ack_many(batch()).await.unwrap_err();
    assert!(matches!(refused, Error::Busy) && refused.is_retryable(), "{refused}");
    let one_more = client.show(name("job"));
    gate.open();
    for one in waiting {
        let answers = within(one).await.unwrap();
        assert!(answers.len() == 65_535 && answers.iter().all(Result::is_ok));
    }
    within(first).await.unwrap().unwrap();
    assert!(within(one_more).await.is_err_and(|error| error.rejection().is_some()));
    within(client.ack_many(batch())).await.expect("there is room again");
}

/// Tells of each call of `on_fatal`.
fn fatal_calls(builder: Builder) -> (Builder, mpsc::UnboundedReceiver<ErrorKind>) {
    let (told, tells) = mpsc::unbounded_channel();
    (builder.on_fatal(move |error| told.send(error.kind()).unwrap()), tells)
}

#[tokio::test]
async fn p1_after_a_fatal_commit_nothing_is_acknowledged_or_delivered() {
    let (seen, store) = (Seen::default(), scripted());
    let (builder, mut tells) = fatal_calls(Builder::new(store.clone()));
    let hence = start_on(builder, &seen).await;
    let client = hence.client();
    client.add(note("later").after(MINUTE)).await.unwrap();
    store.plan(|_| Step::MakeAndFail(ErrorKind::Fatal));
    let unknown = within(client.add(note("at once"))).await.unwrap_err();
    assert!(matches!(unknown, Error::Stopped), "{unknown}");
    assert_eq!(within(tells.recv()).await, Some(ErrorKind::Fatal));
    store.plan(|_| Step::Make);
    assert!(matches!(client.add(note("after")).await, Err(Error::Stopped)));
    hence.clock().advance(HOUR);
    assert!(matches!(hence.settle().await, Err(Error::Stopped)));
    assert!(seen.calls().is_empty());
    within(hence.shutdown(std::time::Duration::ZERO)).await;
    assert_eq!(tells.recv().await, None, "told once");
}

#[tokio::test]
async fn p1_after_a_fatal_read_nothing_is_acknowledged_or_delivered() {
    let (seen, store) = (Seen::default(), scripted());
    let (builder, mut tells) = fatal_calls(Builder::new(store.clone()));
    let hence = start_on(builder, &seen).await;
    let client = hence.client();
    client.add(note("later").after(MINUTE)).await.unwrap();
    store.fail_reads(Some(ErrorKind::Corrupt));
    let unknown = within(client.show(name("anything"))).await.unwrap_err();
    assert!(matches!(unknown, Error::Stopped), "{unknown}");
    assert_eq!(within(tells.recv()).await, Some(ErrorKind::Corrupt));
    hence.clock().advance(HOUR);
    assert!(within(hence.settle()).await.is_err());
    assert!(seen.calls().is_empty());
}

#[tokio::test]
async fn p1_a_store_that_breaks_down_by_itself_ends_it_though_nobody_asks_for_anything() {
    let store = scripted();
    let (builder, mut tells) = fatal_calls(Builder::new(store.clone()));
    // The system's clock: it looks around by itself.
    let hence = builder.start().await.unwrap();
    store.break_down(ErrorKind::Fatal);
    let told = tokio::time::timeout(std::time::Duration::from_secs(1), tells.recv()).await;
    assert_eq!(told, Ok(Some(ErrorKind::Fatal)), "within a second");
    assert!(matches!(hence.client().add(note("after")).await, Err(Error::Stopped)));
}

#[tokio::test]
async fn a_read_is_tried_again_until_the_store_is_back() {
    let store = scripted();
    let hence = start_on(Builder::new(store.clone()), &Seen::default()).await;
    let client = hence.client();
    client.add(note("done").id("job").unwrap()).await.unwrap();
    hence.settle().await.unwrap();
    store.fail_reads(Some(ErrorKind::Unavailable));
    let error = client.list(hence::store::Filter::default(), None, 1).await.unwrap_err();
    assert!(error.is_retryable(), "a list is not waited for: {error}");
    let mut looking = Box::pin(client.show(name("job")));
    assert!(futures::poll!(&mut looking).is_pending());
    store.fail_reads(None);
    assert_eq!(within(looking).await.unwrap().state, JobState::Succeeded);
}

/// There is one thread for all tasks here: if the list had it, nobody could let it go on.
#[tokio::test]
async fn a_long_list_does_not_hold_up_other_tasks() {
    let store = scripted();
    let hence = start_on(Builder::new(store.clone()), &Seen::default()).await;
    let client = hence.client();
    client.add(note("later").after(HOUR)).await.unwrap();
    let go_on = store.hold_list();
    let listing = client.list(hence::store::Filter::default(), None, 10);
    let (page, told) = within(async { tokio::join!(listing, async { go_on.send(()) }) }).await;
    assert_eq!((page.unwrap().jobs.len(), told), (1, Ok(())));
}

#[tokio::test]
async fn jobs_beyond_the_window_wait_in_the_store_and_all_run() {
    let seen = Seen::default();
    let config = hence::builder::Config { window_jobs: Some(10), ..Default::default() };
    let hence = start_on(hence::testing::in_memory().config(config), &seen).await;
    let client = hence.client();
    let jobs = (0..500).map(|n| note(&format!("{n:03}")).after(Millis::from_secs(1 + n % 60)));
    let names = names(client.add_many(jobs.collect()).await.unwrap());
    let view = client.queue(queue("default")).await.unwrap();
    assert!(view.in_memory <= 20, "{} of 500 are in memory", view.in_memory);
    assert_eq!(state(&client, &names[499]).await, JobState::Scheduled, "found in the store");
    client.cancel(names[499].clone()).await.unwrap();
    hence.advance(HOUR).await.unwrap();
    let mut texts = seen.texts();
    texts.sort();
    texts.dedup();
    assert_eq!((texts.len(), seen.calls().len()), (499, 499), "each once, but the cancelled one");
}

/// Writes down the order in which things happened.
#[derive(Default)]
struct Order(Mutex<Vec<&'static str>>);

impl Observer for Order {
    fn observe(&self, event: Event<'_>) {
        self.0.lock().unwrap().push(match event {
            Event::Changed(_) => "changed",
            Event::Delivering { .. } => "delivering",
            Event::Committed { .. } => "committed",
            Event::CommitFailed { .. } => "failed",
            Event::Noticed(_) => "noticed",
            Event::StoreFull(_) => "full",
            Event::StandingBy(Some(_)) => "standing by",
            Event::StandingBy(None) => "taking over",
        });
    }
}

#[tokio::test]
async fn observers_see_facts_after_they_are_durable() {
    let (store, order) = (scripted(), Arc::new(Order::default()));
    store.plan(|number| if number == 1 { Step::Fail(ErrorKind::Unavailable) } else { Step::Make });
    let builder = Builder::new(store as Arc<dyn Store>).observer(order.clone());
    let builder = builder.handler("note", Seen::default().note()).unwrap();
    let hence = TestHence::start(builder).await.unwrap();
    hence.client().add(note("job").after(MINUTE)).await.unwrap();
    hence.advance(MINUTE).await.unwrap();
    let expected = [
        "failed",
        "changed",
        "committed", // put
        "changed",
        "committed",
        "delivering", // leased
        "changed",
        "committed", // finished
    ];
    assert_eq!(*order.0.lock().unwrap(), expected);
}

#[tokio::test]
async fn whoever_stands_by_waits_for_a_store_that_is_away() {
    use ErrorKind::{Fenced, Locked, Unavailable};
    let told = vec!["standing by", "taking over"];
    let rows = [
        (vec![], Ok(vec![])),
        (vec![Unavailable], Err(Unavailable)),
        (vec![Locked], Ok(told.clone())),
        (vec![Locked, Unavailable], Ok(told)),
        (vec![Locked, Fenced], Err(Fenced)),
    ];
    for (refusals, expected) in rows {
        let (store, order) = (scripted(), Arc::new(Order::default()));
        store.refuse_shard(refusals.clone());
        let builder = Builder::new(store as Arc<dyn Store>).observer(order.clone());
        let started = match within(builder.start()).await {
            Ok(hence) => {
                hence.shutdown(std::time::Duration::ZERO).await;
                Ok(order.0.lock().unwrap().clone())
            }
            Err(Error::Store(error)) => Err(error.kind()),
            Err(other) => panic!("{refusals:?}: {other}"),
        };
        assert_eq!(started, expected, "{refusals:?}");
    }
}

/// However many acks there are: a turn that is full before the jobs are asked for would make two.
#[tokio::test]
async fn acks_and_the_jobs_taken_after_them_are_one_commit() {
    let store = scripted();
    let hence = start_on(Builder::new(store.clone()), &Seen::default()).await;
    let client = hence.client();
    client.add_many(vec![NewJob::worker(); 1_000]).await.unwrap();
    let leased = client.lease(call(&["default"], 900)).await.unwrap();
    let acks: Vec<_> = leased.iter().map(|delivery| (delivery.lease.token, None)).collect();
    let before = store.commits();
    let next = within(client.ack_and_lease(acks, call(&["default"], 900))).await.unwrap();
    assert_eq!((next.acks.len(), next.jobs.len()), (900, 100));
    assert_eq!(store.commits() - before, 1);
}

#[tokio::test]
async fn p1_an_end_that_cannot_be_written_does_not_look_like_an_orderly_one() {
    for (kind, expected) in [
        (ErrorKind::Fatal, Some(ErrorKind::Fatal)),
        (ErrorKind::Unavailable, None),
        (ErrorKind::Fenced, None),
    ] {
        let store = scripted();
        let (builder, mut tells) = fatal_calls(Builder::new(store.clone()));
        let hence = start_on(builder, &Seen::default()).await;
        store.fail_release(kind);
        within(hence.shutdown(DEADLINE)).await;
        assert_eq!(within(tells.recv()).await, expected, "{kind:?}");
    }
}

/// A sweep that met a full store ended the process, and the next start met it again.
#[tokio::test]
async fn p11_a_sweep_without_room_waits_for_the_next_one() {
    let store = scripted();
    let (builder, mut tells) = fatal_calls(Builder::new(store.clone()));
    let hence = start_on(builder, &Seen::default()).await;
    let client = hence.client();
    store.fail_reads(Some(ErrorKind::Full));
    hence.jump(HOUR).await.expect("it swept, in vain");
    store.fail_reads(None);
    client.add(note("after").after(MINUTE)).await.expect("it goes on");
    within(hence.shutdown(DEADLINE)).await;
    assert_eq!(within(tells.recv()).await, None);
}

/// What was asked for at once was one commit, however large: more than a store can take.
#[tokio::test]
async fn many_large_jobs_are_several_commits() {
    let store = scripted();
    let hence = start_on(Builder::new(store.clone()), &Seen::default()).await;
    let large = || NewJob::worker().payload(vec![7; 1024 * 1024]);
    let before = store.commits();
    let added = hence.client().add_many((0..24).map(|_| large()).collect()).await.unwrap();
    assert!(added.iter().all(Result::is_ok) && added.len() == 24);
    let commits = store.commits() - before;
    assert!((2..=24).contains(&commits), "{commits} commits for 24 MiB");
}

/// Whoever gave up left his request behind and his place: memory grew with every try.
#[tokio::test]
async fn p11_requests_whose_callers_gave_up_keep_their_places() {
    let store = scripted();
    let hence = start_on(Builder::new(store.clone()), &Seen::default()).await;
    let client = hence.client();
    let gate = store.hold();
    let first = client.clone();
    let first = tokio::spawn(async move { first.add(NewJob::worker()).await });
    gate.arrival().await;
    let large = || NewJob::worker().payload(vec![7; 1024 * 1024]);
    for _ in 0..256 {
        let mut given_up = Box::pin(client.add(large()));
        assert!(futures::poll!(&mut given_up).is_pending());
    }
    let refused = within(client.add(large())).await.unwrap_err();
    assert!(matches!(refused, Error::Busy) && refused.is_retryable(), "{refused}");
    gate.open();
    within(first).await.unwrap().unwrap();
    hence.settle().await.unwrap();
    client.add(large()).await.expect("there is room again");
}
