// The steps of a peer on Node.js, and how it says what it did. What differs from peer to peer is
// handed in: `open(connections)` connects, and gives
//   add(due)              adds one job, due at that date,
//   addMany(size, due)    adds many at once; without a date they are due now,
//   work(count)           begins to work; `count(jobs)` is to be called for those handed out,
//   left()                says how many are not recorded as done.
// Producers have a process of their own.

import { fork } from "node:child_process";

export const payload = { text: "x".repeat(89) };

const PRODUCERS = 4;
const BATCH = 1000;
const HOUR = 3_600_000;

export async function run(open) {
  const [step, ...rest] = process.argv.slice(2);
  const later = () => new Date(Date.now() + HOUR);
  const steps = {
    singly: (callers, millis) => submit(open, callers, millis, 1, (peer) => peer.add(later())),
    batches: (callers, size, millis) =>
      submit(open, callers, millis, size, (peer) => peer.addMany(size, later())),
    produce: (count, due) => produce(open, count, due),
    work: (count) => work(open, count, 0),
    herd: (count, lead) => work(open, count, Math.ceil((Date.now() + lead) / 1000) * 1000),
  };
  await steps[step](...rest.map(Number));
}

function say(jobs, started, seen = { early: 0, last: 0 }) {
  const since = (at) => Math.max(0, at - started) / 1000;
  const [seconds, arrived] = [since(Date.now()), since(seen.last)];
  console.log(JSON.stringify({ jobs, seconds, arrived, early: seen.early }));
  process.exit(0);
}

async function submit(open, callers, millis, size, add) {
  const peer = await open(20);
  const started = Date.now();
  const caller = async () => {
    let sent = 0;
    while (Date.now() - started < millis) {
      await add(peer);
      sent += size;
    }
    return sent;
  };
  const each = await Promise.all(Array.from({ length: callers }, caller));
  say(each.reduce((left, right) => left + right, 0), started);
}

async function produce(open, count, due) {
  const peer = await open(PRODUCERS);
  let left = count;
  const producer = async () => {
    while (left > 0) {
      const size = Math.min(BATCH, left);
      left -= size;
      await peer.addMany(size, due ? new Date(due) : undefined);
    }
  };
  process.once("disconnect", () => process.exit(1));
  process.send("ready");
  await new Promise((go) => process.once("message", go));
  await Promise.all(Array.from({ length: PRODUCERS }, producer));
  process.exit(0);
}

async function work(open, count, due) {
  const peer = await open(10);
  const producer = fork(process.argv[1], ["produce", String(count), String(due)]);
  await new Promise((ready) => producer.once("message", ready));
  const seen = { done: 0, early: 0, last: 0 };
  await peer.work((jobs) => {
    seen.last = Date.now();
    seen.early += seen.last < due ? jobs : 0;
    seen.done += jobs;
  });
  const started = due || Date.now();
  producer.send("go");
  for (;;) {
    await new Promise((later) => setTimeout(later, 5));
    if (seen.done >= count && (await peer.left()) === 0) break;
  }
  say(count, started, seen);
}

// An error of a connection ends the measurement.
export function fail(error) {
  console.error(error);
  process.exit(1);
}
