// pg-boss. For throughput its documents name batches (`batchSize`), several workers
// (`localConcurrency`) and no pause while batches are full (`burstWhenBatchFull`); it polls twice
// a second at most, so LISTEN/NOTIFY is on as well.

import pg from "pg";
import { PgBoss } from "pg-boss";
import { fail, payload, run } from "../harness.mjs";

const QUEUE = "bench";
const LEFT = "SELECT count(*)::int AS n FROM pgboss.job WHERE state < 'completed'";
const WORK = {
  batchSize: 500,
  localConcurrency: 4,
  burstWhenBatchFull: true,
  pollingIntervalSeconds: 0.5,
  notifyPollingIntervalSeconds: 0.5,
};
const connectionString = process.env.DATABASE_URL;

async function open(max) {
  const boss = new PgBoss({ connectionString, max, schedule: false, useListenNotify: true });
  boss.on("error", fail);
  await boss.start();
  await boss.createQueue(QUEUE, { notify: true });
  const pool = new pg.Pool({ connectionString, max: 1 });
  const batch = (size, startAfter) =>
    Array.from({ length: size }, () => ({ data: payload, startAfter }));
  return {
    add: (startAfter) => boss.send(QUEUE, payload, { startAfter }),
    addMany: (size, startAfter) => boss.insert(QUEUE, batch(size, startAfter)),
    work: (count) => boss.work(QUEUE, WORK, async (jobs) => count(jobs.length)),
    left: async () => (await pool.query(LEFT)).rows[0].n,
  };
}

await run(open);
