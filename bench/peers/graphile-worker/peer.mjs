// graphile-worker. For throughput its documents name a local queue, completions in batches and
// some concurrency; these are the figures of its own performance test. Producers have a process
// of their own.

import { fork } from "node:child_process";
import { Logger, makeWorkerUtils, run } from "graphile-worker";
import pg from "pg";

const TASK = "bench";
const PRODUCERS = 4;
const BATCH = 1000;
const HOUR = 3_600_000;
const payload = { text: "x".repeat(89) };

const connectionString = process.env.DATABASE_URL;
const [step, ...rest] = process.argv.slice(2);
const numbers = rest.map(Number);
const logger = new Logger(() => () => {});

async function open(max) {
  const pgPool = new pg.Pool({ connectionString, max });
  pgPool.on("error", (error) => {
    console.error(error);
    process.exit(1);
  });
  const utils = await makeWorkerUtils({ pgPool, logger });
  await utils.migrate();
  return [utils, pgPool];
}

function say(jobs, started, seen = { early: 0, last: 0 }) {
  const since = (at) => Math.max(0, at - started) / 1000;
  const [seconds, arrived] = [since(Date.now()), since(seen.last)];
  console.log(JSON.stringify({ jobs, seconds, arrived, early: seen.early }));
  process.exit(0);
}

function batch(size, runAt) {
  return Array.from({ length: size }, () => ({ identifier: TASK, payload, runAt }));
}

async function singly(callers, millis) {
  const [utils] = await open(20);
  const started = Date.now();
  const caller = async () => {
    let sent = 0;
    while (Date.now() - started < millis) {
      await utils.addJob(TASK, payload, { runAt: new Date(started + HOUR) });
      sent += 1;
    }
    return sent;
  };
  say(await sum(callers, caller), started);
}

async function batches(callers, size, millis) {
  const [utils] = await open(20);
  const started = Date.now();
  const caller = async () => {
    let sent = 0;
    while (Date.now() - started < millis) {
      await utils.addJobs(batch(size, new Date(started + HOUR)));
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
  const [utils] = await open(PRODUCERS);
  let left = count;
  const producer = async () => {
    while (left > 0) {
      const size = Math.min(BATCH, left);
      left -= size;
      await utils.addJobs(batch(size, due ? new Date(due) : undefined));
    }
  };
  process.once("disconnect", () => process.exit(1));
  process.send("ready");
  await new Promise((go) => process.once("message", go));
  await Promise.all(Array.from({ length: PRODUCERS }, producer));
  process.exit(0);
}

async function work(count, due) {
  const [, pgPool] = await open(10);
  const producer = fork(process.argv[1], ["produce", String(count), String(due)]);
  await new Promise((ready) => producer.once("message", ready));
  const seen = { done: 0, early: 0, last: 0 };
  await run({
    pgPool,
    logger,
    noHandleSignals: true,
    taskList: {
      [TASK]: () => {
        seen.last = Date.now();
        seen.early += seen.last < due ? 1 : 0;
        seen.done += 1;
      },
    },
    preset: {
      worker: {
        concurrentJobs: 24,
        pollInterval: 500,
        completeJobBatchDelay: 0,
        failJobBatchDelay: 0,
        localQueue: { size: 500, refetchDelay: { durationMs: 10 } },
      },
    },
  });
  const started = due || Date.now();
  producer.send("go");
  const left = "SELECT count(*)::int AS n FROM graphile_worker._private_jobs";
  for (;;) {
    await new Promise((later) => setTimeout(later, 5));
    if (seen.done >= count && (await pgPool.query(left)).rows[0].n === 0) break;
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
