//! An order and its mail: each in one transaction with the job that it belongs to.
//!
//! DATABASE_URL=postgres://… HENCE_SERVER=http://127.0.0.1:7070 \
//!     cargo run -p hence-examples --example transactions

#![expect(clippy::print_stdout, reason = "an example shows what happens")]

use std::env;
use std::error::Error;

use http_body_util::BodyExt;
use hyper::Request;
use hyper_util::client::legacy::Client as Http;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};
use tokio_postgres::{Client, NoTls, Transaction};

const ORDERS: &str = "CREATE TABLE IF NOT EXISTS orders
    (id int PRIMARY KEY, mailed boolean NOT NULL DEFAULT false, mails int NOT NULL DEFAULT 0)";

/// Writes an order and the job that mails about it; both count when the caller commits.
async fn place_order(db: &Transaction<'_>, order: i32) -> Result<(), tokio_postgres::Error> {
    db.execute("INSERT INTO orders (id) VALUES ($1)", &[&order]).await?;
    let id = format!("order-{order}");
    let job = json!({"queue": "mail", "id": id, "payload": {"order": order}}).to_string();
    db.execute("SELECT hence.hence_add($1::text::json)", &[&job]).await?;
    Ok(())
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
async fn mail(db: &mut Client, job: &Value) -> Result<(), tokio_postgres::Error> {
    let order = job["payload"]["order"].to_string();
    let transaction = db.transaction().await?;
    let update = "UPDATE orders SET mailed = true, mails = mails + 1 WHERE id = $1::text::int";
    transaction.execute(update, &[&order]).await?;
    let ack = "SELECT hence.hence_ack($1::text::json)";
    transaction.execute(ack, &[&job.to_string()]).await?;
    transaction.commit().await
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = env::var("HENCE_SERVER").unwrap_or("http://127.0.0.1:7070".to_owned());
    let (mut db, connection) = tokio_postgres::connect(&env::var("DATABASE_URL")?, NoTls).await?;
    tokio::spawn(connection);
    db.execute(ORDERS, &[]).await?;

    let transaction = db.transaction().await?;
    place_order(&transaction, 1).await?;
    transaction.commit().await?;

    let transaction = db.transaction().await?;
    place_order(&transaction, 2).await?;
    transaction.rollback().await?; // neither order 2 nor its job was ever there

    let job = lease(&server).await?;
    println!("leased {}", job["id"]);
    mail(&mut db, &job).await?;
    // A transaction that is dropped without a commit is rolled back.
    let refused = mail(&mut db, &job).await.expect_err("the same job was acknowledged twice");
    match refused.as_db_error() {
        Some(error) if error.code().code() == "HE007" => println!("rolled back: {error}"),
        _ => return Err(refused.into()),
    }
    Ok(())
}
