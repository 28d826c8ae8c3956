// An order and its mail: each in one transaction with the job that it belongs to, in MySQL or MariaDB.
//
// DATABASE_URL=mysql://… HENCE_SERVER=http://127.0.0.1:7070 node orders_mysql.mjs

import mysql from "mysql2/promise";

const server = process.env.HENCE_SERVER ?? "http://127.0.0.1:7070";
const db = await mysql.createConnection(process.env.DATABASE_URL);

/** Runs `work` in a transaction: committed when it returns, rolled back when it throws. */
async function transaction(work) {
  await db.beginTransaction();
  try {
    await work();
    await db.commit();
  } catch (error) {
    await db.rollback();
    throw error;
  }
}

/** Writes an order and the job that mails about it; both count when the caller commits. */
async function placeOrder(order) {
  await db.query("INSERT INTO orders (id) VALUES (?)", [order]);
  const job = { queue: "mail", id: `order-${order}`, payload: { order } };
  await db.query("CALL hence_add(?)", [JSON.stringify(job)]);
}

/** Takes one job over HTTP; waits for it for up to five seconds. */
async function lease() {
  const body = JSON.stringify({ queue: "mail", wait: "5s" });
  const headers = { "content-type": "application/json" };
  const answer = await fetch(`${server}/v1/leases`, { method: "POST", headers, body });
  return (await answer.json()).jobs[0];
}

/** Does the work and acknowledges the job, both or neither. */
async function mail(job) {
  await transaction(async () => {
    const update = "UPDATE orders SET mailed = true, mails = mails + 1 WHERE id = ?";
    await db.query(update, [job.payload.order]);
    await db.query("CALL hence_ack(?, NULL)", [JSON.stringify(job)]);
  });
}

await db.query(`CREATE TABLE IF NOT EXISTS orders
  (id int PRIMARY KEY, mailed boolean NOT NULL DEFAULT false, mails int NOT NULL DEFAULT 0)`);
await transaction(() => placeOrder(1));
await db.beginTransaction();
await placeOrder(2);
await db.rollback(); // neither order 2 nor its job was ever there
const job = await lease();
console.log("leased", job.id);
await mail(job);
const refused = await mail(job).catch((error) => error);
if (refused?.errno !== 1644) throw new Error("the same job was acknowledged twice", { cause: refused });
console.log("rolled back:", refused.message);
await db.end();
