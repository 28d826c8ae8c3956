//! `POST /v1/jobs`: one job, or many, each answered for itself.

use axum::extract::{Request, State};
use axum::response::Response;
use hence::NewJob;
use hence::client::Added;
use hence::new_job::Idempotency;
use hence_core::effect::Submitted;
use hence_core::error::Rejection;
use hence_core::limits::SUBMIT_BATCH_MAX;
use hence_core::when::{Reading, Understood};
use hence_fail::{Point, reach};
use http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::app::{self, App};
use super::errors::{Problem, ProblemOut};
use super::types::job_in::JobIn;
use super::types::job_out::AddedOut;
use super::{body, kinds, params};
use crate::limits;

/// Many jobs.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewJobs)]
pub(crate) struct BatchIn<'a> {
    /// The jobs, at most 1000.
    #[serde(borrow)]
    #[schema(value_type = Vec<JobIn<'_>>, min_items = 1, max_items = 1000)]
    pub(super) jobs: Vec<&'a RawValue>,
}

/// One job or many.
#[derive(ToSchema)]
#[expect(dead_code, reason = "only describes the body in the document")]
#[schema(as = Submission)]
#[serde(untagged)]
pub(crate) enum SubmissionIn<'a> {
    /// One job.
    One(Box<JobIn<'a>>),
    /// Many jobs.
    Many(BatchIn<'a>),
}

/// The answers to many jobs, in their order.
#[derive(Serialize, ToSchema)]
#[schema(as = AcceptedJobs)]
pub(crate) struct BatchOut<'a> {
    /// How many were accepted, or stood already.
    accepted: usize,
    /// How many were refused.
    refused: usize,
    /// One answer for each job.
    jobs: Vec<BatchItem<'a>>,
}

/// The answer to one job of many.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[schema(as = BatchItem)]
pub(crate) enum BatchItem<'a> {
    /// It was accepted, or stood already.
    Accepted(AddedOut<'a>),
    /// It was refused; the others are not affected.
    Refused(RefusedOut),
}

/// One job of many that was refused.
#[derive(Serialize, ToSchema)]
#[schema(as = Refused)]
pub(crate) struct RefusedOut {
    /// The status it would have had alone.
    status: u16,
    /// Why.
    error: ProblemOut,
}

/// Schedules a job, or many at once.
///
/// One job is answered with 201 when it is new, with 200 when one of the same name was kept or
/// replaced. Many are answered with 207, each with its own status. With an `Idempotency-Key`, a
/// repeated request is answered with the job that the first one made, and nothing is done twice.
#[utoipa::path(
    post, path = "/v1/jobs", tag = "jobs", operation_id = "submit",
    params(("Idempotency-Key" = Option<String>, Header,
        description = "Names the request, so that it can be repeated safely. It is remembered \
            within the queue and the key of the job, for as long as the job is kept and at least \
            24 hours from its submission, whatever its `retention` says. A repeated \
            request is the same byte by byte, and answered with 200, `kept` and the job as it is \
            now. It stands in for an `id` that is not given: then another request with the same \
            key is refused with 409. Beside an `id`, the name is that one, and any other request \
            for it goes by its `on_conflict`: 200 and `kept` when it says nothing")),
    request_body(
        content = SubmissionIn<'_>, description = "A job, or `{\"jobs\": [...]}` with up to 1000",
        examples(
            ("short" = (value = json!({"key": "user:1234", "id": "renew-subscription", "time": 1_789_000_000, "url": "https://example.com/hook"}))),
            ("pull" = (value = json!({
                "queue": "mail", "in": "5m", "payload": {"to": "ann@example.com"},
            }))),
            ("words" = (value = json!({
                "at": "7pm tomorrow", "zone": "Europe/Paris", "url": "https://example.com/hook",
            }))),
            ("many" = (value = json!({"jobs": [{"in": "1s"}, {"at": "2026-09-10T00:26:40Z"}]}))),
        )
    ),
    responses(
        (status = 201, description = "The job is accepted and durable", body = AddedOut<'_>),
        (status = 200, body = AddedOut<'_>,
            description = "A job of the same name was kept or replaced"),
        (status = 207, description = "Many jobs, each answered for itself", body = BatchOut<'_>),
    )
)]
pub(crate) async fn submit(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    params::none(request.uri())?;
    let repeat = idempotency_key(request.headers())?;
    let bytes = body::read(request, app.bounds.body_bytes_max).await?;
    let text = body::text(&bytes)?;
    if is_batch(text) {
        // Boxed, so that a single job, the common case, does not carry the state of a batch along.
        return Box::pin(submit_many(&app, text, repeat.as_deref())).await;
    }
    if bytes.len() > limits::BODY_BYTES_MAX {
        return Err(body::too_large(limits::BODY_BYTES_MAX));
    }
    let job = body::parse::<JobIn<'_>>(text)?;
    let repeat = repeat.map(|key| Idempotency { key, fingerprint: body::fingerprint(&bytes) });
    let (job, understood) = job.into_new_job(&app.reading(), repeat)?;
    reach(Point::HttpSubmit);
    let added = app.client.add(job).await?;
    reach(Point::HttpSubmitted);
    Ok(app::json(status_of(&added), &AddedOut::new(&added, understood.as_ref())))
}

async fn submit_many(app: &App, text: &str, repeat: Option<&str>) -> Result<Response, Problem> {
    let BatchIn { jobs } = body::parse(text)?;
    if jobs.is_empty() {
        return Err(Rejection::invalid("jobs", "must hold at least one job").into());
    }
    if jobs.len() > SUBMIT_BATCH_MAX {
        return Err(Rejection::too_many_in("jobs", jobs.len(), SUBMIT_BATCH_MAX).into());
    }
    let fingerprint = repeat.map(|_| body::fingerprint(text.as_bytes()));
    let reading = app.reading();
    let mut read = Vec::with_capacity(jobs.len());
    let mut accepted = Vec::with_capacity(jobs.len());
    for (index, raw) in jobs.into_iter().enumerate() {
        let repeat = repeat.zip(fingerprint).map(|(key, fingerprint)| {
            let key = format!("{key}/{index}");
            Idempotency { key, fingerprint }
        });
        read.push(new_job(index, raw, &reading, repeat).map(|(job, understood)| {
            accepted.push(job);
            understood
        }));
    }
    let added = app.client.add_many(accepted).await?;
    Ok(app::json(StatusCode::MULTI_STATUS, &batch_answer(&read, &added)))
}

/// A job of many, and what was understood by its time when that was in words.
pub(super) fn new_job(
    index: usize,
    raw: &RawValue,
    reading: &Reading<'_>,
    repeat: Option<Idempotency>,
) -> Result<(NewJob, Option<Understood>), Problem> {
    let job: JobIn<'_> = body::parse_object(format_args!("jobs[{index}]"), raw.get())?;
    job.into_new_job(reading, repeat)
}

/// Puts the answers of the library and our own refusals back into the order of the jobs.
fn batch_answer<'a>(
    read: &'a [Result<Option<Understood>, Problem>],
    added: &'a [Result<Added, hence::Error>],
) -> BatchOut<'a> {
    let mut added = added.iter();
    let jobs: Vec<BatchItem<'_>> = read
        .iter()
        .map(|read| match read {
            Err(problem) => refused(problem.clone()),
            Ok(understood) => match added.next() {
                Some(Ok(added)) => accepted(added, understood.as_ref()),
                Some(Err(error)) => refused(error.into()),
                None => refused(hence::Error::Stopped.into()),
            },
        })
        .collect();
    let is_accepted = |item: &&BatchItem<'_>| matches!(item, BatchItem::Accepted(_));
    let accepted = jobs.iter().filter(is_accepted).count();
    BatchOut { accepted, refused: jobs.len() - accepted, jobs }
}

fn accepted<'a>(added: &'a Added, understood: Option<&'a Understood>) -> BatchItem<'a> {
    let mut answer = AddedOut::new(added, understood);
    answer.status = Some(status_of(added).as_u16());
    BatchItem::Accepted(answer)
}

fn refused(problem: Problem) -> BatchItem<'static> {
    let error = problem.into_document();
    BatchItem::Refused(RefusedOut { status: error.status, error })
}

fn status_of(added: &Added) -> StatusCode {
    match added.how {
        Submitted::Created => StatusCode::CREATED,
        Submitted::Replaced | Submitted::Kept => StatusCode::OK,
    }
}

/// A batch has one field, so it is the first: one look tells it from a job, which has no such
/// field.
pub(super) fn is_batch(text: &str) -> bool {
    let inner = text.trim_start().strip_prefix('{').map(str::trim_start);
    inner.is_some_and(|inner| inner.starts_with("\"jobs\""))
}

pub(super) fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    const NAME: &str = "Idempotency-Key";
    let mut values = headers.get_all("idempotency-key").iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        let detail = "the request has more than one Idempotency-Key";
        return Err(Problem::new(kinds::DUPLICATE_FIELD, detail).field(NAME));
    }
    let max = limits::IDEMPOTENCY_KEY_BYTES_MAX;
    if value.len() > max {
        return Err(Rejection::too_long(NAME, value.len(), max).into());
    }
    match value.to_str() {
        // Headers may hold tabs, and what is printed does not show them.
        Ok(key) if !key.is_empty() && !key.contains('\t') => Ok(Some(key.to_owned())),
        _ => Err(Rejection::invalid(NAME, "must be printable ASCII and not empty").into()),
    }
}
