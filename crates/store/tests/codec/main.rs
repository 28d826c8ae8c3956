//! The bytes of every record: there and back, the same for ever, and safe against garbage.

mod garbage;
mod golden;
mod round_trip;
mod speed;
mod values;

use bytes::Bytes;
use hence_store::StoreError;
use hence_store::codec;

/// Decodes a record and encodes it again.
type Again = fn(&Bytes) -> Result<Vec<u8>, StoreError>;

macro_rules! again {
    ($decode:ident, $encode:ident) => {
        |bytes| {
            let value = codec::$decode(bytes)?;
            Ok(written(|out| codec::$encode(&value, out)))
        }
    };
}

/// Every kind of record by name.
const KINDS: [(&str, Again); 14] = [
    ("job", again!(decode_job, encode_job)),
    ("live", |bytes| {
        let (job, progress) = codec::decode_live(bytes)?;
        Ok(written(|out| codec::encode_live(&job, &progress, out)))
    }),
    ("finished", |bytes| {
        let done = codec::decode_finished(bytes)?;
        let write = |out: &mut Vec<u8>| {
            codec::encode_finished(&done.job, &done.progress, &done.finish, true, out);
        };
        Ok(written(write))
    }),
    ("change", again!(decode_change, encode_change)),
    ("batch", again!(decode_batch, encode_batch)),
    ("progress", again!(decode_progress, encode_progress)),
    ("lease", again!(decode_lease, encode_lease)),
    ("finish", again!(decode_finish, encode_finish)),
    ("attempt", again!(decode_attempt, encode_attempt)),
    ("schedule", again!(decode_schedule, encode_schedule)),
    ("schedule_progress", again!(decode_schedule_progress, encode_schedule_progress)),
    ("occurrence", again!(decode_occurrence, encode_occurrence)),
    ("queue", again!(decode_queue, encode_queue)),
    ("counts", again!(decode_counts, encode_counts)),
];

fn written(encode: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    encode(&mut out);
    out
}

fn again(kind: &str) -> Again {
    KINDS.iter().find(|(name, _)| *name == kind).map(|(_, again)| *again).expect("a known kind")
}
