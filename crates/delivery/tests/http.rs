//! What hostile receivers do, and what becomes of it: one row a behaviour. Every row also proves
//! that no connection outlives its delivery and its sender.

#![expect(clippy::unwrap_used, reason = "a test that unwraps fails with a line number")]

mod support;

use std::sync::Arc;
use std::time::Duration;

use hence_core::time::Millis;
use hence_delivery::http::HttpSender;
use hence_delivery::{Report, Target, limits};
use libtest_mimic::{Arguments, Failed, Trial};
use support::server::{Server, Step, say};
use support::{PATIENCE, SHORT, SmallBuffer, post, within};
use tokio::time::timeout;

const KIB: usize = 1024;
/// What both kernels hold of an answer that nobody read, with room for their bookkeeping.
const IN_FLIGHT: usize = 256 * KIB;

struct Row {
    name: &'static str,
    scheme: &'static str,
    script: Vec<Step>,
    deadline: Duration,
    expected: Expected,
    /// How much of the answer may be taken.
    taken_max: usize,
}

enum Expected {
    TimedOut,
    /// The reason contains this.
    Failed(&'static str, Option<Millis>),
    /// What it did is not known; the reason contains this.
    Unanswered(&'static str),
    /// The result has this length.
    Succeeded(usize),
}
use Expected::{Failed as Fails, Succeeded, TimedOut, Unanswered};

fn main() {
    let trials = rows().into_iter().map(|row| Trial::test(row.name, move || check(row)));
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit();
}

fn check(row: Row) -> Result<(), Failed> {
    tokio::runtime::Runtime::new()?.block_on(async {
        let server = Server::start(row.script);
        let sender = HttpSender::builder().dial(Arc::new(SmallBuffer)).build();
        let delivery = post(&server.url(row.scheme));
        let delivering = sender.deliver(delivery, within(row.deadline));
        let report = timeout(PATIENCE, delivering).await.map_err(|_| "no report in time")?;
        drop(sender);
        timeout(PATIENCE, server.all_closed()).await.map_err(|_| "a connection was left open")?;
        compare(&report, &row.expected)?;
        if server.opened() != 1 || server.heads().len() > 1 {
            return Err(format!(
                "{} requests on {} connections",
                server.heads().len(),
                server.opened()
            )
            .into());
        }
        if server.written() > row.taken_max + IN_FLIGHT {
            return Err(format!("the server could write {} bytes", server.written()).into());
        }
        Ok(())
    })
}

fn compare(report: &Report, expected: &Expected) -> Result<(), Failed> {
    let as_expected = match (report, expected) {
        (Report::TimedOut, TimedOut) => true,
        (Report::Failed { reason, retry_after, permanent: false }, Fails(part, wait)) => {
            reason.contains(part) && retry_after == wait && !reason.contains("secret")
        }
        (Report::Unanswered { reason }, Unanswered(part)) => {
            reason.contains(part) && !reason.contains("secret")
        }
        (Report::Succeeded { result: Some(result) }, Succeeded(length)) => {
            result.bytes.len() == *length
        }
        _ => false,
    };
    if as_expected { Ok(()) } else { Err(format!("unexpected {report:?}").into()) }
}

/// A row for a receiver that never comes to an end.
fn stalls(name: &'static str, script: Vec<Step>) -> Row {
    Row { name, scheme: "http", script, deadline: SHORT, expected: TimedOut, taken_max: KIB }
}

/// A row for a receiver that comes to an end, good or bad.
fn ends(name: &'static str, script: Vec<Step>, expected: Expected) -> Row {
    let taken_max = limits::HEAD_BYTES_MAX + limits::BODY_BYTES_MAX;
    Row { name, scheme: "http", script, deadline: PATIENCE, expected, taken_max }
}

fn rows() -> Vec<Row> {
    let mut rows = rows_that_stall();
    rows.extend(rows_that_flood());
    rows.extend(rows_with_large_heads());
    rows.extend(rows_that_break_off());
    rows.extend(rows_that_answer());
    rows
}

/// Unfolds to a thousand times its length.
const BOMB: &[u8] = include_bytes!("data/ten-megabytes-of-zeros.gz");
const OK_HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n";

/// A success whose head has so many headers.
fn headers(count: usize) -> Step {
    let others = "a: b\r\n".repeat(count - 1);
    say(&format!("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n{others}\r\n"))
}

fn rows_that_stall() -> Vec<Row> {
    let drip = |text: &str| Step::Drip(text.repeat(100).into_bytes());
    vec![
        stalls("never_answers", vec![Step::Stall]),
        stalls("stalls_within_the_head", vec![say("HTTP/1.1 200 OK\r\nContent-"), Step::Stall]),
        stalls("stalls_after_the_head", vec![say(OK_HEAD), Step::Stall]),
        stalls("stalls_within_the_body", vec![say(OK_HEAD), say("abc"), Step::Stall]),
        stalls(
            "stalls_within_a_chunk",
            vec![
                say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10\r\nabc"),
                Step::Stall,
            ],
        ),
        stalls("drips_its_head", vec![drip("HTTP/1.1 200 OK\r\n")]),
        stalls("drips_its_body", vec![say(OK_HEAD), drip("x")]),
        stalls(
            "stalls_after_one_interim_answer",
            vec![say("HTTP/1.1 100 Continue\r\n\r\n"), Step::Stall],
        ),
        Row { scheme: "https", ..stalls("says_nothing_to_a_tls_hello", vec![Step::Stall]) },
    ]
}

fn rows_that_flood() -> Vec<Row> {
    let body = || Step::Repeat(vec![b'x'; 8 * KIB]);
    let chunk =
        || Step::Repeat(b"400\r\n".iter().copied().chain([b'x'; KIB]).chain(*b"\r\n").collect());
    let whole = limits::BODY_BYTES_MAX;
    let gzip = format!(
        "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n",
        BOMB.len()
    );
    vec![
        ends("endless_body", vec![say("HTTP/1.1 200 OK\r\n\r\n"), body()], Succeeded(whole)),
        ends(
            "endless_chunks",
            vec![say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"), chunk()],
            Succeeded(whole),
        ),
        ends(
            "endless_error_page",
            vec![say("HTTP/1.1 500 Oops\r\n\r\n"), body()],
            Fails("answered 500 internal server error: xxx", None),
        ),
        ends(
            "claims_ten_gigabytes",
            vec![say("HTTP/1.1 200 OK\r\nContent-Length: 10000000000\r\n\r\n"), body()],
            Succeeded(whole),
        ),
        ends(
            "claims_more_than_there_are_numbers",
            vec![say("HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\n"), body()],
            Unanswered("the answer is not http"),
        ),
        ends(
            "gzip_bomb_is_not_unfolded",
            vec![say(&gzip), Step::Say(BOMB.to_vec())],
            Succeeded(BOMB.len()),
        ),
        Row {
            taken_max: limits::WIRE_BYTES_MAX,
            ..ends(
                "interim_answers_without_end",
                vec![Step::Repeat(b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n".repeat(100))],
                Unanswered("the answer took more than 512 KiB"),
            )
        },
        Row {
            taken_max: limits::WIRE_BYTES_MAX,
            ..ends(
                "endless_trailers",
                vec![
                    say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"),
                    Step::Repeat(b"a: b\r\n".repeat(1_000)),
                ],
                Unanswered("answered 200 and broke off"),
            )
        },
    ]
}

fn rows_with_large_heads() -> Vec<Row> {
    let endless = Step::Repeat(vec![b'x'; 8 * KIB]);
    vec![
        ends("as_many_headers_as_allowed", vec![headers(limits::HEADERS_MAX)], Succeeded(0)),
        ends(
            "one_header_too_many",
            vec![headers(limits::HEADERS_MAX + 1), Step::Stall],
            Unanswered("head is too long"),
        ),
        ends(
            "a_hundred_thousand_headers",
            vec![say("HTTP/1.1 200 OK\r\n"), Step::Say(b"a: b\r\n".repeat(100_000)), Step::Stall],
            Unanswered("head is too long"),
        ),
        ends(
            "one_endless_header",
            vec![say("HTTP/1.1 200 OK\r\na: "), endless],
            Unanswered("head is too long"),
        ),
    ]
}

fn rows_that_break_off() -> Vec<Row> {
    let closed = "closed before the answer was complete";
    vec![
        ends("closes_without_a_word", vec![Step::Close], Unanswered(closed)),
        ends("closes_within_the_head", vec![say("HTTP/1.1 20"), Step::Close], Unanswered(closed)),
        ends(
            "closes_within_the_body",
            vec![say(OK_HEAD), say("abc"), Step::Close],
            Unanswered("answered 200 and broke off: the connection was closed"),
        ),
        ends("resets_without_a_word", vec![Step::Reset], Unanswered("the connection was reset")),
        ends(
            "resets_after_the_body",
            vec![say("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"), Step::Reset],
            Succeeded(3),
        ),
        ends(
            "malformed_status_line",
            vec![say("HTTP/1.1 abc OK\r\n\r\n"), Step::Stall],
            Unanswered("the answer is not http"),
        ),
        ends(
            "not_http_at_all",
            vec![say("SSH-2.0-OpenSSH_9.6\r\n"), Step::Stall],
            Unanswered("the answer is not http"),
        ),
        ends(
            "answers_in_http_0_9",
            vec![say("<html>hello</html>"), Step::Close],
            Unanswered("the answer is not http"),
        ),
    ]
}

fn rows_that_answer() -> Vec<Row> {
    let kept = limits::BODY_BYTES_MAX;
    let ok = |length: usize| say(&format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n"));
    let sized = |length: usize| vec![ok(length), Step::Say(vec![b'x'; length])];
    vec![
        ends("no_content", vec![say("HTTP/1.1 204 No Content\r\n\r\n")], Succeeded(0)),
        ends("a_result_of_exactly_the_limit", sized(kept), Succeeded(kept)),
        ends("a_result_beyond_the_limit_is_cut", sized(kept + 1), Succeeded(kept)),
        ends("a_huge_result_is_cut", sized(10_000_000), Succeeded(kept)),
        Row {
            taken_max: limits::WIRE_BYTES_MAX,
            ..ends("a_result_in_chunks_of_one_byte", one_byte_chunks(kept), Succeeded(kept))
        },
        ends(
            "unwell_with_a_wish",
            vec![say("HTTP/1.1 500 Oops\r\nRetry-After: 120\r\nContent-Length: 4\r\n\r\nsick")],
            Fails("answered 500 internal server error: sick", Some(Millis::from_secs(120))),
        ),
        ends(
            "a_wish_by_its_own_clock",
            vec![say("HTTP/1.1 429 Slow\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
             Retry-After: Sun, 06 Nov 1994 08:50:07 GMT\r\nContent-Length: 0\r\n\r\n")],
            Fails("answered 429 too many requests", Some(Millis::from_secs(30))),
        ),
        ends(
            "redirects_to_itself",
            vec![say("HTTP/1.1 301 Moved\r\nLocation: /hook\r\nContent-Length: 0\r\n\r\n")],
            Fails("answered 301 moved permanently, redirects are not followed", None),
        ),
        ends(
            "switches_protocols_unasked",
            vec![say(
                "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
            )],
            Fails("answered 101", None),
        ),
    ]
}

/// The longest way to send a body of this length.
fn one_byte_chunks(length: usize) -> Vec<Step> {
    vec![
        say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
        Step::Say(b"1\r\nx\r\n".repeat(length)),
        say("0\r\n\r\n"),
    ]
}
