//! Letters: what others write into the store, in transactions of their own. They speak the language
//! of the API.
//!
//! ```text
//! {"add": {"url": "https://example.com/hook", "in": "5m"}}     as the body of POST /v1/jobs
//! {"done": {"queue": "mail", "id": "a", "number": 7}}          written by the store's own `ack`
//! ```

use hence::postman::Asked;
use hence_core::error::Rejection;
use hence_core::id::{JobId, JobName, JobNumber, Key, QueueName};
use hence_core::when::{Reading, Zone};
use hence_store::Letter;
use serde::Deserialize;

use super::body;
use super::errors::Problem;
use super::types::job_in::JobIn;
use super::types::lease::AckIn;
use super::types::object::Object;
use crate::limits;

/// What a letter asks for.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
enum LetterIn<'a> {
    /// Schedule this job.
    #[serde(borrow)]
    Add(Object<Box<JobIn<'a>>>),
    /// The work of this job was committed with the letter.
    #[serde(borrow)]
    Done(Object<DoneIn<'a>>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DoneIn<'a> {
    queue: String,
    key: Option<String>,
    id: String,
    number: u64,
    #[serde(borrow)]
    answer: Option<Object<AckIn<'a>>>,
}

/// What is asked in a letter; times without a zone of their own are read in this one.
pub(crate) fn read(letter: &Letter, zone: &Zone) -> Result<Asked, Rejection> {
    understand(letter, zone).map_err(|problem| {
        let (detail, fix) = problem.in_words();
        Rejection::invalid("letter", format!("cannot be taken: {detail}; {fix}"))
    })
}

fn understand(letter: &Letter, zone: &Zone) -> Result<Asked, Problem> {
    if letter.body.len() > limits::BODY_BYTES_MAX {
        return Err(body::too_large(limits::BODY_BYTES_MAX));
    }
    match body::parse(body::text(&letter.body)?)? {
        LetterIn::Add(Object(job)) => {
            let reading = Reading::new(letter.at, zone);
            let (job, _) = job.into_new_job(&reading, None)?;
            Ok(Asked::Add(Box::new(job)))
        }
        LetterIn::Done(Object(done)) => {
            let DoneIn { queue, key, id, number, answer } = done;
            let key = key.as_deref().map(Key::new).transpose()?;
            let name = JobName { queue: QueueName::new(&queue)?, key, id: JobId::new(&id)? };
            let result = answer.map(|Object(ack)| ack.into_result()).transpose()?.flatten();
            Ok(Asked::Complete { name, number: JobNumber(number), result })
        }
    }
}

#[cfg(test)]
mod tests {
    use hence::Due;
    use hence_core::id::LetterId;
    use hence_core::time::{Millis, Timestamp};

    use super::*;

    const WRITTEN: Timestamp = Timestamp::from_millis(1_789_000_000_000);

    fn asked(body: &'static str) -> Result<Asked, String> {
        let letter = Letter { id: LetterId(1), at: WRITTEN, body: body.into() };
        read(&letter, &Zone::UTC).map_err(|rejection| rejection.to_string())
    }

    #[test]
    fn a_job_is_said_as_over_http_and_its_words_count_from_the_writing() {
        let body = r#"{"add": {"queue": "mail", "at": "in 2 hours", "payload": {"a": 1}}}"#;
        let Ok(Asked::Add(job)) = asked(body) else { panic!("{:?}", asked(body)) };
        assert_eq!(job.queue.as_str(), "mail");
        assert!(
            matches!(job.due, Due::At(at) if at == WRITTEN.plus(Millis::from_secs(7_200))),
            "{:?}",
            job.due
        );
        assert_eq!(&job.spec.payload.bytes[..], br#"{"a": 1}"#);
    }

    #[test]
    fn work_that_is_done_is_named_with_its_number() {
        let body = r#"{"done": {"queue": "q", "key": "k", "id": "a", "number": 7,
                                "answer": {"result": [1]}}}"#;
        let Ok(Asked::Complete { name, number, result }) = asked(body) else {
            panic!("{:?}", asked(body))
        };
        assert_eq!((name.to_string(), number), ("q/k/a".to_owned(), JobNumber(7)));
        assert_eq!(&result.expect("a result").bytes[..], b"[1]");
    }

    #[test]
    fn a_letter_that_makes_no_sense_is_told_what_is_wrong() {
        let rows = [
            ("", "the body is empty; send a JSON object"),
            ("{}", "body is none of the choices"),
            (r#"{"ad": {}}"#, "body must be one of add, done, not `ad`; did you mean `add`?"),
            (r#"{"add": {"quue": "x"}}"#, "there is no field `quue` here; did you mean `queue`?"),
            (r#"{"add": {"at": "yesteryear"}}"#, "at is not understood"),
            (r#"["add", {}]"#, "body must be a JSON object, not a list"),
            (r#"{"add": []}"#, "JSON object"),
            (r#"{"add": {"retry": [3]}}"#, "JSON object"),
            (r#"{"done": ["q", null, "a", 1, null]}"#, "JSON object"),
            (
                r#"{"done": {"queue": "q", "id": "a", "number": 1, "answer": [1, null, "", ""]}}"#,
                "JSON object",
            ),
            (r#"{"done": {"queue": "q", "id": "a"}}"#, "missing field `number`"),
            (r#"{"done": {"queue": "", "id": "a", "number": 1}}"#, "queue"),
        ];
        for (body, expected) in rows {
            let refusal = asked(body).expect_err(body);
            assert!(refusal.starts_with("letter cannot be taken: "), "{refusal}");
            assert!(refusal.contains(expected), "{body}: {refusal}");
        }
    }
}
