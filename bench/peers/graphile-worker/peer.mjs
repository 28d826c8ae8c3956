// graphile-worker. For throughput its documents name a local queue, completions in batches and
// some concurrency; these are the figures of its own performance test.

import { Logger, makeWorkerUtils, run as startWorker } from "graphile-worker";
import pg from "pg";
import { fail, payload, run } from "../harness.mjs";

const TASK = "bench";
const LEFT = "SELECT count(*)::int AS n FROM graphile_worker._private_jobs";
const WORKER = {
  concurrentJobs: 24,
  pollInterval: 500,
  completeJobBatchDelay: 0,
  failJobBatchDelay: 0,
  localQueue: { size: 500, refetchDelay: { durationMs: 10 } },
};
const logger = new Logger(() => () => {});

async function open(max) {
  const pgPool = new pg.Pool({ connectionString: process.env.DATABASE_URL, max });
  pgPool.on("error", fail);
  const utils = await makeWorkerUtils({ pgPool, logger });
  await utils.migrate();
  const batch = (size, runAt) =>
    Array.from({ length: size }, () => ({ identifier: TASK, payload, runAt }));
  return {
    add: (runAt) => utils.addJob(TASK, payload, { runAt }),
    addMany: (size, runAt) => utils.addJobs(batch(size, runAt)),
    work: (count) =>
      startWorker({
        pgPool,
        logger,
        noHandleSignals: true,
        taskList: { [TASK]: () => count(1) },
        preset: { worker: WORKER },
      }),
    left: async () => (await pgPool.query(LEFT)).rows[0].n,
  };
}

await run(open);
