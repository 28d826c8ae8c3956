//! What reads the bytes of strangers, by name, for the fuzz targets. Nothing is asked of anybody:
//! what was read is dropped, and a refusal is written out as it would be sent.

use hence_core::id::{LetterId, ScheduleId, Token};
use hence_core::queue::QueueSettings;
use hence_core::time::Timestamp;
use hence_core::when::{Reading, Zone};
use hence_store::Letter;
use http::{HeaderMap, HeaderValue, Uri};

use super::errors::Problem;
use super::params::{self, Params};
use super::submit::{self, BatchIn};
use super::types::job_in::{EditIn, JobIn};
use super::types::lease::{AckIn, AcksIn, ExtendIn, LeaseIn, NackIn};
use super::types::object::Object;
use super::types::plan::PreviewIn;
use super::types::queue::{SettingsEdit, SettingsIn};
use super::types::schedule::ScheduleIn;
use super::{body, cursor, letters};

/// 2026-09-10T00:26:40Z.
const NOW: Timestamp = Timestamp::from_millis(1_789_000_000_000);

/// Ticks that a preview is asked for.
const TICKS: usize = 20;

/// The body of `POST /v1/jobs` and of `PATCH /v1/jobs/{id}`.
pub fn job(bytes: &[u8]) {
    refused(read_job(bytes));
    refused(read_edit(bytes));
}

/// A letter that somebody wrote into the store.
pub fn letter(bytes: &[u8]) {
    let letter = Letter { id: LetterId(1), at: NOW, body: bytes.to_vec().into() };
    if let Err(rejection) = letters::read(&letter, &Zone::UTC) {
        drop(rejection.to_string());
    }
}

/// The bodies about leases.
pub fn lease(bytes: &[u8]) {
    refused(body::text(bytes).and_then(|text| {
        refused(body::parse::<LeaseIn<'_>>(text).and_then(|lease| Ok(lease.split()?)));
        refused(body::parse::<ExtendIn>(text).and_then(|extend| Ok(extend.into_span()?)));
        refused(body::parse::<NackIn>(text).and_then(|nack| Ok(nack.how()?)));
        refused(body::parse::<AckIn<'_>>(text).and_then(|ack| Ok(ack.into_result()?)));
        let AcksIn { acks } = body::parse(text)?;
        for Object(ack) in acks {
            let (token, ack) = ack.split();
            refused(token.parse::<Token>().map_err(Problem::from));
            refused(ack.into_result().map_err(Problem::from));
        }
        Ok(())
    }));
}

/// The bodies about queues and schedules.
pub fn settings(bytes: &[u8]) {
    refused(body::text(bytes).and_then(|text| {
        refused(body::parse::<SettingsIn>(text).and_then(|new| Ok(new.into_settings()?)));
        let edit = body::parse::<SettingsEdit>(text);
        refused(edit.and_then(|edit| Ok(edit.apply(QueueSettings::default())?)));
        refused(body::parse::<ScheduleIn<'_>>(text).and_then(|new| {
            let id = ScheduleId::new("fuzzed")?;
            new.into_schedule(id, &Reading::new(NOW, &Zone::UTC))
        }));
        let mut preview = body::parse::<PreviewIn>(text)?;
        let drafted = preview.draft()?.read(&Reading::new(NOW, &Zone::UTC))?;
        drop(super::types::plan::PreviewOut::new(&drafted, NOW, TICKS));
        Ok(())
    }));
}

/// The head of a request: a path with its query, and an idempotency key.
pub fn head(bytes: &[u8]) {
    let mut parts = bytes.splitn(2, |byte| *byte == b'\n');
    let (uri, key) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    if let Ok(value) = HeaderValue::from_bytes(key) {
        let headers = HeaderMap::from_iter([(http::header::HeaderName::from_static(KEY), value)]);
        refused(submit::idempotency_key(&headers));
    }
    let Ok(uri) = Uri::try_from(uri) else { return };
    refused(params::job_name(&uri));
    refused((0..5).try_for_each(|index| params::segment(&uri, index).map(drop)));
    refused(Params::read(&uri, &["limit", "cursor", "state", "since", "wait"]).and_then(|query| {
        refused(query.limit());
        refused(query.span("wait"));
        refused(query.bound("since", &Reading::new(NOW, &Zone::UTC)));
        let text = query.one("cursor")?.unwrap_or_default();
        refused(cursor::decode_schedule(text).map_err(Problem::from));
        Ok(cursor::decode(text)?)
    }));
}

const KEY: &str = "idempotency-key";

fn read_job(bytes: &[u8]) -> Result<(), Problem> {
    let text = body::text(bytes)?;
    let zone = Zone::UTC;
    let reading = Reading::new(NOW, &zone);
    if submit::is_batch(text) {
        let BatchIn { jobs } = body::parse(text)?;
        for (index, raw) in jobs.into_iter().enumerate() {
            refused(submit::new_job(index, raw, &reading, None));
        }
        return Ok(());
    }
    body::parse::<JobIn<'_>>(text)?.into_new_job(&reading, None).map(drop)
}

fn read_edit(bytes: &[u8]) -> Result<(), Problem> {
    let edit = body::parse::<EditIn<'_>>(body::text(bytes)?)?;
    edit.into_edit(&Reading::new(NOW, &Zone::UTC)).map(drop)
}

/// A refusal is our answer: its document must be one.
fn refused<T>(result: Result<T, Problem>) {
    if let Err(problem) = result {
        let status = problem.into_document().status;
        assert!((400..500).contains(&status), "{status} is not the client's mistake");
    }
}
