//! Why a job that is due is not handed out.

use hence_core::effect::Answer;
use hence_core::error::Rejection;
use hence_core::input::{Input, Request};
use hence_core::queue::{QueueSettings, Rate};
use hence_core::shard::Config;

use crate::support::draft::{handled, ms, name, pull, push};
use crate::support::{World, config};
use crate::world;

type Prepare = fn(&mut World);

/// What there is to be said about job `a` of key `k`, which each of these leaves, on a node that
/// sends one, runs one and has two in memory.
const ROWS: [(&str, &str, Prepare); 15] = [
    ("not due", "nothing", |world| world.put(pull("k/a").due(1))),
    ("running", "nothing", |world| {
        world.put(pull("k/a"));
        world.take_one();
    }),
    ("ended", "nothing", |world| {
        world.put(pull("k/a"));
        world.cancel("k/a").expect("it waits");
    }),
    ("nobody pulls", "worker: a worker that pulls from its queue", |world| {
        world.put(pull("k/a"));
    }),
    ("no such handler", "handler: a handler called h to be registered", |world| {
        world.put(handled("k/a"));
    }),
    ("its key runs", "key: job b, which comes before it in its key", |world| {
        world.put(pull("k/b"));
        world.take_one();
        world.put(pull("k/a"));
    }),
    ("its key waits for a retry", "key: job b, which comes before it in its key", |world| {
        world.put(push("k/b"));
        let token = world.delivery().lease.token;
        world.put(push("k/a"));
        world.fail(token);
    }),
    ("paused", "resume: its queue to be resumed", |world| {
        limit(world, QueueSettings { paused_out: true, ..QueueSettings::default() });
        world.put(push("k/a"));
    }),
    (
        "as many run as may",
        "concurrency: another job to end, as its queue runs 1 at once",
        |world| {
            limit(world, QueueSettings { concurrency: Some(1), ..QueueSettings::default() });
            world.put(push("b"));
            world.put(pull("k/a"));
        },
    ),
    (
        "as many were started as may",
        "rate: 1970-01-01T00:00:01.001Z, as its queue starts no more before",
        |world| {
            let rate = Some(Rate { count: 1, per: ms(1_000) });
            limit(world, QueueSettings { rate, ..QueueSettings::default() });
            world.put(push("b"));
            let token = world.delivery().lease.token;
            world.put(push("k/a"));
            world.succeed(token);
        },
    ),
    ("a rate was lifted", "worker: a worker that pulls from its queue", |world| {
        let rate = Some(Rate { count: 1, per: ms(1_000) });
        limit(world, QueueSettings { rate, ..QueueSettings::default() });
        world.put(pull("b"));
        world.put(pull("k/a"));
        assert_eq!(world.take().len(), 1);
        limit(world, QueueSettings::default());
    }),
    ("one is sent", "room: another delivery of this node to end", |world| {
        world.put(push("b"));
        world.put(push("k/a"));
    }),
    ("one is run", "room: another delivery of this node to end", |world| {
        world.handlers(&["h"]);
        world.put(handled("b"));
        world.put(handled("k/a"));
    }),
    ("beyond the window", "turn: the jobs of its queue that are due before it", |world| {
        for id in ["l/b", "m/c", "k/a"] {
            world.put(pull(id).due(1));
        }
        world.at(1);
    }),
    ("shutting down", "restart: another process, as this one is shutting down", |world| {
        world.put(pull("k/a"));
        world.feed(Input::Drain);
    }),
];

fn limit(world: &mut World, settings: QueueSettings) {
    world.settings("default", settings);
}

#[test]
fn a_due_job_says_what_it_waits_for() {
    for (row, expected, prepare) in ROWS {
        let tight = Config { pushes_max: 1, handlers_max: 1, window_jobs: 2, ..config() };
        let mut world = World::new(tight);
        prepare(&mut world);
        let why = match world.call(Request::Explain(name("k/a"))) {
            Ok(Answer::WaitingFor(None)) => "nothing".to_owned(),
            Ok(Answer::WaitingFor(Some(why))) => format!("{}: {why}", why.as_str()),
            other => panic!("{row}: {other:?}"),
        };
        assert_eq!(why, expected, "{row}");
    }
}

#[test]
fn a_job_that_is_not_there_waits_for_nothing() {
    assert_eq!(world().call(Request::Explain(name("a"))), Err(Rejection::NoSuchJob));
}
