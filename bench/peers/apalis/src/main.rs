//! apalis on PostgreSQL. Settings as in its own example: large batches, no second lock of a job
//! that was fetched, and workers that are woken by notifications; with several workers, and a look
//! twice a second for what was scheduled.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use apalis::prelude::*;
use apalis_postgres::{Config, PgPool, PostgresStorage};
use futures::future::join_all;
use sqlx::postgres::PgPoolOptions;

const PRODUCERS: usize = 4;
const BATCH: usize = 1_000;
const WORKERS: usize = 4;

#[tokio::main]
async fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| -> usize { args[at].parse().expect("a number") };
    let url = std::env::var("DATABASE_URL").expect("DATABASE_URL");
    let pool = PgPoolOptions::new().max_connections(20).connect(&url).await.expect("connected");
    PostgresStorage::setup(&pool).await.expect("set up");
    match args[0].as_str() {
        "singly" => submit(&pool, number(1), 1, number(2)).await,
        "batches" => submit(&pool, number(1), number(2), number(3)).await,
        "work" => work(&pool, number(1), 0).await,
        _ => {
            let lead = Duration::from_millis(number(2) as u64).as_secs() + 1;
            work(&pool, number(1), now_ms() / 1_000 + lead as i64).await;
        }
    }
}

fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as i64
}

fn storage(pool: &PgPool) -> PostgresStorage<String> {
    let config = Config::default().queue("bench").batch_size(500).lock_tasks(false);
    PostgresStorage::new(pool).with_config(config)
}

/// At a time in seconds; 0 is at once.
async fn push(storage: &mut PostgresStorage<String>, size: usize, due: i64) {
    let payload = || "x".repeat(98);
    if size == 1 {
        let task = TaskBuilder::new(payload()).run_at_timestamp(due as u64).build();
        storage.push_task(task).await.expect("pushed");
        return;
    }
    let task = |_| match due {
        0 => TaskBuilder::new(payload()).build(),
        due => TaskBuilder::new(payload()).run_at_timestamp(due as u64).build(),
    };
    let tasks: Vec<_> = (0..size).map(task).collect();
    storage.push_all(futures::stream::iter(tasks)).await.expect("pushed");
}

async fn submit(pool: &PgPool, callers: usize, size: usize, millis: usize) {
    let sent = Arc::new(AtomicUsize::new(0));
    let (started, span) = (Instant::now(), Duration::from_millis(millis as u64));
    let due = now_ms() / 1_000 + 3_600;
    let callers = (0..callers).map(|_| {
        let (mut storage, sent) = (storage(pool), Arc::clone(&sent));
        tokio::spawn(async move {
            while started.elapsed() < span {
                push(&mut storage, size, due).await;
                sent.fetch_add(size, Relaxed);
            }
        })
    });
    join_all(callers).await;
    say(sent.load(Relaxed), started.elapsed().as_secs_f64(), 0.0, 0);
}

#[derive(Clone, Default)]
struct Seen {
    done: Arc<AtomicUsize>,
    early: Arc<AtomicUsize>,
    last_ms: Arc<AtomicI64>,
    due_ms: i64,
}

async fn handle(_: String, seen: Data<Seen>) -> Result<(), BoxDynError> {
    let now = now_ms();
    seen.early.fetch_add(usize::from(now < seen.due_ms), Relaxed);
    seen.last_ms.fetch_max(now, Relaxed);
    seen.done.fetch_add(1, Relaxed);
    Ok(())
}

async fn work(pool: &PgPool, count: usize, due: i64) {
    let seen = Seen { due_ms: due * 1_000, ..Seen::default() };
    for index in 0..WORKERS {
        let backend =
            storage(pool).with_pubsub().poll_with_interval(Duration::from_millis(500));
        let worker = WorkerBuilder::new(format!("bench-{index}"))
            .backend(backend)
            .data(seen.clone())
            .concurrency(1_000)
            .build(handle);
        tokio::spawn(async move { worker.run().await });
    }
    let started = if due == 0 { now_ms() } else { due * 1_000 };
    let left = Arc::new(AtomicI64::new(count as i64));
    for _ in 0..PRODUCERS {
        let (mut storage, left) = (storage(pool), Arc::clone(&left));
        tokio::spawn(async move {
            loop {
                let before = left.fetch_sub(BATCH as i64, Relaxed);
                if before <= 0 {
                    break;
                }
                push(&mut storage, (before as usize).min(BATCH), due).await;
            }
        });
    }
    let open = "SELECT count(*) FROM apalis.jobs WHERE status <> 'Done'";
    loop {
        tokio::time::sleep(Duration::from_millis(5)).await;
        if seen.done.load(Relaxed) < count {
            continue;
        }
        let open: i64 = sqlx::query_scalar(open).fetch_one(pool).await.expect("counted");
        if open == 0 {
            break;
        }
    }
    let since = |at: i64| (at - started).max(0) as f64 / 1_000.0;
    let arrived = since(seen.last_ms.load(Relaxed));
    say(count, since(now_ms()), arrived, seen.early.load(Relaxed));
}

fn say(jobs: usize, seconds: f64, arrived: f64, early: usize) {
    println!(
        "{{\"jobs\": {jobs}, \"seconds\": {seconds}, \"arrived\": {arrived}, \"early\": {early}}}"
    );
    std::process::exit(0);
}
