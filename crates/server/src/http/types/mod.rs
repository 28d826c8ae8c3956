//! The wire: what callers send and see. Versioned by the path (`/v1`); apart from the core's
//! types, so that neither can change the other by accident.

pub(crate) mod due;
pub(crate) mod job_in;
pub(crate) mod job_out;
pub(crate) mod lease;
pub(crate) mod ledger;
pub(crate) mod names;
pub(crate) mod object;
pub(crate) mod payload;
pub(crate) mod plan;
pub(crate) mod queue;
pub(crate) mod retry;
pub(crate) mod rules;
pub(crate) mod schedule;
pub(crate) mod target;
pub(crate) mod word;

use hence_core::time::Timestamp;
use serde::{Serialize, Serializer};

/// An instant in an answer: RFC 3339 with milliseconds, written without a detour.
#[derive(Clone, Copy)]
pub(crate) struct Stamp(pub(crate) Timestamp);

impl Serialize for Stamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.rfc3339() {
            Some(text) => serializer.serialize_str(std::str::from_utf8(&text).unwrap_or_default()),
            None => serializer.collect_str(&self.0),
        }
    }
}

impl From<Timestamp> for Stamp {
    fn from(instant: Timestamp) -> Self {
        Stamp(instant)
    }
}

impl utoipa::PartialSchema for Stamp {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, Schema, SchemaFormat, Type};
        let object = ObjectBuilder::new()
            .schema_type(Type::String)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
            .examples(["2026-09-10T00:26:40.000Z"]);
        Schema::Object(object.build()).into()
    }
}

impl utoipa::ToSchema for Stamp {
    fn name() -> std::borrow::Cow<'static, str> {
        "Instant".into()
    }
}
