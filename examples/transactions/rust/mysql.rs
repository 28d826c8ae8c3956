//! An order and its mail: each in one transaction with the job that it belongs to, in MySQL or
//! MariaDB.
//!
//! DATABASE_URL=mysql://… HENCE_SERVER=http://127.0.0.1:7070 \
//!     cargo run -p hence-examples --example transactions_mysql

#![expect(clippy::print_stdout, reason = "an example shows what happens")]

use std::env;
use std::error::Error;

use http_body_util::BodyExt;
use hyper::Request;
use hyper_util::client::legacy::Client as Http;
use hyper_util::rt::TokioExecutor;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Transaction, TxOpts};
use serde_json::{Value, json};

const ORDERS: &str = "CREATE TABLE IF NOT EXISTS orders
    (id int PRIMARY KEY, mailed boolean NOT NULL DEFAULT false, mails int NOT NULL DEFAULT 0)";

/// Writes an order and the job that mails about it; both count when the caller commits.
async fn place_order(db: &mut Transaction<'_>, order: i32) -> Result<(), mysql_async::Error> {
    db.exec_drop("INSERT INTO orders (id) VALUES (?)", (order,)).await?;
    let id = format!("order-{order}");
    let job = json!({"queue": "mail", "id": id, "payload": {"order": order}}).to_string();
    db.exec_drop("CALL hence_add(?)", (job,)).await
}

/// Takes one job over HTTP; waits for it for up to five seconds.
async fn lease(server: &str) -> Result<Value, Box<dyn Error>> {
    let request = Request::post(format!("{server}/v1/leases"))
        .header("content-type", "application/json")
        .body(json!({"queue": "mail", "wait": "5s"}).to_string())?;
    let answer = Http::builder(TokioExecutor::new()).build_http().request(request).await?;
    let answer: Value = serde_json::from_slice(&answer.into_body().collect().await?.to_bytes())?;
    Ok(answer["jobs"][0].clone())
}

/// Does the work and acknowledges the job, both or neither.
async fn mail(db: &mut Conn, job: &Value) -> Result<(), mysql_async::Error> {
    let order = job["payload"]["order"].as_i64();
    let mut transaction = db.start_transaction(TxOpts::default()).await?;
    let update = "UPDATE orders SET mailed = true, mails = mails + 1 WHERE id = ?";
    transaction.exec_drop(update, (order,)).await?;
    transaction.exec_drop("CALL hence_ack(?, NULL)", (job.to_string(),)).await?;
    transaction.commit().await
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = env::var("HENCE_SERVER").unwrap_or("http://127.0.0.1:7070".to_owned());
    let mut db = Conn::from_url(env::var("DATABASE_URL")?).await?;
    db.query_drop(ORDERS).await?;

    let mut transaction = db.start_transaction(TxOpts::default()).await?;
    place_order(&mut transaction, 1).await?;
    transaction.commit().await?;

    let mut transaction = db.start_transaction(TxOpts::default()).await?;
    place_order(&mut transaction, 2).await?;
    transaction.rollback().await?; // neither order 2 nor its job was ever there

    let job = lease(&server).await?;
    println!("leased {}", job["id"]);
    mail(&mut db, &job).await?;
    // A transaction that is dropped without a commit is rolled back.
    match mail(&mut db, &job).await {
        Err(mysql_async::Error::Server(error)) if error.code == 1644 => {
            println!("rolled back: {error}");
        }
        other => return Err(format!("the same job was acknowledged twice: {other:?}").into()),
    }
    db.disconnect().await?;
    Ok(())
}
