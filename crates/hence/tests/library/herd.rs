//! Ten thousand schedules at the same minute: the ledger shows each tick exactly once, across a
//! restart in the middle of it and across an outage of eight days, whatever the misfire policy.

use std::collections::BTreeMap;

use hence::core::id::ScheduleId;
use hence::core::job::{JobSpec, Target};
use hence::core::schedule::{Fate, Misfire, Schedule};
use hence::core::time::{Millis, Timestamp};
use hence::store::LedgerRequest;
use hence::testing::{TEST_EPOCH, TestHence};
use hence::{Builder, Client};

use crate::support::disk::Disk;
use crate::support::{DEADLINE, HOUR, MINUTE};

const SCHEDULES: usize = 10_000;
/// Eight days; ticks are hourly.
const OUTAGE: Millis = Millis::from_secs(8 * 24 * 3_600);
const MISSED: u64 = 8 * 24;

fn id(number: usize) -> ScheduleId {
    ScheduleId::new(&format!("herd-{number}")).unwrap()
}

/// A quarter of the herd each.
const POLICIES: [Misfire; 4] =
    [Misfire::Skip, Misfire::Once, Misfire::Last(2), Misfire::All { pace: HOUR }];

async fn put_all(client: &Client) {
    let put = |number: usize| {
        let draft = Schedule::cron("0 * * * *").misfire(POLICIES[number % POLICIES.len()]);
        let template = JobSpec::new(Target::Worker);
        let schedule = draft.build(id(number), template, TEST_EPOCH).unwrap();
        async move { client.put_schedule(schedule).await.unwrap() }
    };
    for start in (0..SCHEDULES).step_by(1_000) {
        futures::future::join_all((start..start + 1_000).map(put)).await;
    }
}

/// How many ticks had which fate, over all schedules of a policy. No ledger has a gap, or a tick
/// twice.
async fn fates(client: &Client, policy: usize, first: Timestamp) -> BTreeMap<&'static str, u64> {
    let mut fates = BTreeMap::new();
    for number in (policy..SCHEDULES).step_by(POLICIES.len()) {
        let request = LedgerRequest::newest(id(number), 1_000);
        let mut records = client.occurrences(request).await.unwrap();
        records.reverse();
        let mut next = first;
        for record in records {
            assert_eq!(record.first, next, "{}: the tick after the last", record.schedule);
            let hours = record.last.since(record.first).get() / HOUR.get();
            assert_eq!(record.count, hours + 1, "{}", record.schedule);
            next = record.last.plus(HOUR);
            *fates.entry(record.fate.as_str()).or_default() += record.count;
            assert!(record.count == 1 || record.fate.job().is_none());
            if let Fate::Late(_, by) = record.fate {
                assert_eq!(by, record.decided_at.since(record.last));
            }
        }
    }
    fates
}

#[tokio::test]
async fn p8_ten_thousand_schedules_at_one_minute_across_a_restart_and_an_outage() {
    let disk = Disk::embedded();
    let hence = TestHence::start(Builder::new(disk.open())).await.unwrap();
    let clock = hence.clock().clone();
    let client = hence.client();
    hence.jump(MINUTE).await.unwrap();
    put_all(&client).await;
    let first = client.schedule(id(0)).await.unwrap().progress.next_at.unwrap();
    // It goes down in the middle of it: some have ticked, some have not.
    clock.advance(first.since(client.now()));
    drop(client);
    hence.shutdown(DEADLINE).await;
    let hence = TestHence::start_at(Builder::new(disk.open()), clock.clone()).await.unwrap();
    hence.settle().await.unwrap();
    let client = hence.client();
    let share = (SCHEDULES / POLICIES.len()) as u64;
    for policy in 0..POLICIES.len() {
        let found = fates(&client, policy, first).await;
        assert_eq!(found, BTreeMap::from([("ran", share)]), "at the minute");
    }
    drop(client);
    hence.shutdown(DEADLINE).await;

    clock.advance(OUTAGE.plus(MINUTE).plus(MINUTE));
    let hence = TestHence::start_at(Builder::new(disk.open()), clock).await.unwrap();
    hence.settle().await.unwrap();
    let client = hence.client();
    let expected: [&[(&str, u64)]; 4] = [
        &[("ran", share), ("skipped", share * MISSED)],
        &[("ran", share), ("coalesced", share * (MISSED - 1)), ("late", share)],
        &[("ran", share), ("skipped", share * (MISSED - 2)), ("late", 2 * share)],
        // The rest of it comes at its pace.
        &[("ran", share), ("late", share)],
    ];
    for (policy, expected) in expected.into_iter().enumerate() {
        let found = fates(&client, policy, first).await;
        let misfire = POLICIES[policy];
        assert_eq!(found, expected.iter().copied().collect(), "{misfire:?} after the outage");
    }
    assert_eq!(client.check_schedules(10).await.unwrap().unsound, []);
}
