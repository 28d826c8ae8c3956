// pg-boss. For throughput its documents name batches (`batchSize`), several workers
// (`localConcurrency`) and no pause while batches are full (`burstWhenBatchFull`); it polls twice
// a second at most, so LISTEN/NOTIFY is on as well. Producers have a process of their own.

import { fork } from "node:child_process";
import pg from "pg";
import { PgBoss } from "pg-boss";

const QUEUE = "bench";
const PRODUCERS = 4;
const BATCH = 1000;
const HOUR = 3_600_000;
const payload = { text: "x".repeat(89) };

const connectionString = process.env.DATABASE_URL;
const [step, ...rest] = process.argv.slice(2);
const numbers = rest.map(Number);

async function open(max) {
  const boss = new PgBoss({ connectionString, max, schedule: false, useListenNotify: true });
  boss.on("error", (error) => {
    console.error(error);
    process.exit(1);
  });
  await boss.start();
  await boss.createQueue(QUEUE, { notify: true });
  return boss;
}

function say(jobs, started, seen = { early: 0, last: 0 }) {
  const since = (at) => Math.max(0, at - started) / 1000;
  const [seconds, arrived] = [since(Date.now()), since(seen.last)];
  console.log(JSON.stringify({ jobs, seconds, arrived, early: seen.early }));
  process.exit(0);
}

function batch(size, startAfter) {
  return Array.from({ length: size }, () => ({ data: payload, startAfter }));
}

async function singly(callers, millis) {
  const boss = await open(20);
  const started = Date.now();
  const caller = async () => {
    let sent = 0;
    while (Date.now() - started < millis) {
      await boss.send(QUEUE, payload, { startAfter: new Date(started + HOUR) });
      sent += 1;
    }
    return sent;
  };
  say(await sum(callers, caller), started);
}

async function batches(callers, size, millis) {
  const boss = await open(20);
  const started = Date.now();
  const caller = async () => {
    let sent = 0;
    while (Date.now() - started < millis) {
      await boss.insert(QUEUE, batch(size, new Date(started + HOUR)));
      sent += size;
    }
    return sent;
  };
  say(await sum(callers, caller), started);
}

async function sum(callers, caller) {
  const each = await Promise.all(Array.from({ length: callers }, caller));
  return each.reduce((left, right) => left + right, 0);
}

async function produce(count, due) {
  const boss = await open(PRODUCERS);
  let left = count;
  const producer = async () => {
    while (left > 0) {
      const size = Math.min(BATCH, left);
      left -= size;
      await boss.insert(QUEUE, batch(size, due ? new Date(due) : undefined));
    }
  };
  process.once("disconnect", () => process.exit(1));
  process.send("ready");
  await new Promise((go) => process.once("message", go));
  await Promise.all(Array.from({ length: PRODUCERS }, producer));
  process.exit(0);
}

async function work(count, due) {
  const boss = await open(10);
  const producer = fork(process.argv[1], ["produce", String(count), String(due)]);
  await new Promise((ready) => producer.once("message", ready));
  const seen = { done: 0, early: 0, last: 0 };
  const options = {
    batchSize: 500,
    localConcurrency: 4,
    burstWhenBatchFull: true,
    pollingIntervalSeconds: 0.5,
    notifyPollingIntervalSeconds: 0.5,
  };
  await boss.work(QUEUE, options, async (jobs) => {
    seen.last = Date.now();
    seen.early += seen.last < due ? jobs.length : 0;
    seen.done += jobs.length;
  });
  const started = due || Date.now();
  producer.send("go");
  const pool = new pg.Pool({ connectionString, max: 1 });
  const open_jobs = "SELECT count(*)::int AS n FROM pgboss.job WHERE state < 'completed'";
  for (;;) {
    await new Promise((later) => setTimeout(later, 5));
    if (seen.done >= count && (await pool.query(open_jobs)).rows[0].n === 0) break;
  }
  say(count, started, seen);
}

const steps = {
  singly,
  batches,
  produce,
  work: (count) => work(count, 0),
  herd: (count, lead) => work(count, Math.ceil((Date.now() + lead) / 1000) * 1000),
};
await steps[step](...numbers);
