"""An order and its mail: each in one transaction with the job that it belongs to, in MySQL or MariaDB.

DATABASE_URL=mysql://… HENCE_SERVER=http://127.0.0.1:7070 python orders_mysql.py
"""

import json
import os
import urllib.request
from urllib.parse import unquote, urlsplit

import pymysql

HENCE = os.environ.get("HENCE_SERVER", "http://127.0.0.1:7070")


def connect(url):
    """Connects to mysql://user:password@host:port/database."""
    url = urlsplit(url)
    return pymysql.connect(
        host=url.hostname,
        port=url.port or 3306,
        user=unquote(url.username or ""),
        password=unquote(url.password or ""),
        database=url.path.lstrip("/"),
    )


def place_order(cursor, order):
    """Writes an order and the job that mails about it; both count when the caller commits."""
    cursor.execute("INSERT INTO orders (id) VALUES (%s)", [order])
    job = {"queue": "mail", "id": f"order-{order}", "payload": {"order": order}}
    cursor.execute("CALL hence_add(%s)", [json.dumps(job)])


def lease():
    """Takes one job over HTTP; waits for it for up to five seconds."""
    body = json.dumps({"queue": "mail", "wait": "5s"}).encode()
    headers = {"content-type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(f"{HENCE}/v1/leases", body, headers)) as answer:
        return json.load(answer)["jobs"][0]


def mail(db, job):
    """Does the work and acknowledges the job, both or neither."""
    try:
        with db.cursor() as cursor:
            order = job["payload"]["order"]
            cursor.execute("UPDATE orders SET mailed = true, mails = mails + 1 WHERE id = %s", [order])
            cursor.execute("CALL hence_ack(%s, NULL)", [json.dumps(job)])
        db.commit()
    except pymysql.Error:
        db.rollback()
        raise


with connect(os.environ["DATABASE_URL"]) as db, db.cursor() as cursor:
    cursor.execute(
        "CREATE TABLE IF NOT EXISTS orders"
        " (id int PRIMARY KEY, mailed boolean NOT NULL DEFAULT false, mails int NOT NULL DEFAULT 0)"
    )
    place_order(cursor, 1)
    db.commit()
    place_order(cursor, 2)
    db.rollback()  # neither order 2 nor its job was ever there
    job = lease()
    print("leased", job["id"])
    mail(db, job)
    try:
        mail(db, job)
    except pymysql.Error as error:
        code, message = error.args
        assert code == 1644, error
        print("rolled back:", message)
    else:
        raise SystemExit("the same job was acknowledged twice")
