"""An order and its mail: each in one transaction with the job that it belongs to.

DATABASE_URL=postgres://… HENCE_SERVER=http://127.0.0.1:7070 python orders.py
"""

import json
import os
import urllib.request

import psycopg

HENCE = os.environ.get("HENCE_SERVER", "http://127.0.0.1:7070")


def place_order(db, order):
    """Writes an order and the job that mails about it; both count when the caller commits."""
    db.execute("INSERT INTO orders (id) VALUES (%s)", [order])
    job = {"queue": "mail", "id": f"order-{order}", "payload": {"order": order}}
    db.execute("SELECT hence.hence_add(%s)", [json.dumps(job)])


def lease():
    """Takes one job over HTTP; waits for it for up to five seconds."""
    body = json.dumps({"queue": "mail", "wait": "5s"}).encode()
    headers = {"content-type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(f"{HENCE}/v1/leases", body, headers)) as answer:
        return json.load(answer)["jobs"][0]


def mail(db, job):
    """Does the work and acknowledges the job, both or neither."""
    with db.transaction():
        order = job["payload"]["order"]
        db.execute("UPDATE orders SET mailed = true, mails = mails + 1 WHERE id = %s", [order])
        db.execute("SELECT hence.hence_ack(%s)", [json.dumps(job)])


with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as db:
    db.execute(
        "CREATE TABLE IF NOT EXISTS orders"
        " (id int PRIMARY KEY, mailed boolean NOT NULL DEFAULT false, mails int NOT NULL DEFAULT 0)"
    )
    with db.transaction():
        place_order(db, 1)
    with db.transaction():
        place_order(db, 2)
        raise psycopg.Rollback()  # leaves this transaction: neither order 2 nor its job was ever there
    job = lease()
    print("leased", job["id"])
    mail(db, job)
    try:
        mail(db, job)
    except psycopg.Error as error:
        assert error.sqlstate == "HE007", error
        print("rolled back:", error.diag.message_primary)
    else:
        raise SystemExit("the same job was acknowledged twice")
