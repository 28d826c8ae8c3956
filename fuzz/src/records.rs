//! Values of the store: the codec.

use bytes::Bytes;
use hence_store::{StoreError, codec};

/// Reads a record and, if it is one, writes it again.
type Again = fn(&Bytes) -> Result<Vec<u8>, StoreError>;

macro_rules! again {
    ($decode:ident, $encode:ident) => {
        |bytes| {
            let value = codec::$decode(bytes)?;
            let mut out = Vec::new();
            codec::$encode(&value, &mut out);
            Ok(out)
        }
    };
}

const KINDS: [Again; 13] = [
    again!(decode_job, encode_job),
    |bytes| {
        let (job, progress) = codec::decode_live(bytes)?;
        let mut out = Vec::new();
        codec::encode_live(&job, &progress, &mut out);
        Ok(out)
    },
    |bytes| {
        let done = codec::decode_finished(bytes)?;
        let mut out = Vec::new();
        codec::encode_finished(&done.job, &done.progress, &done.finish, true, &mut out);
        Ok(out)
    },
    again!(decode_change, encode_change),
    again!(decode_batch, encode_batch),
    again!(decode_progress, encode_progress),
    again!(decode_lease, encode_lease),
    again!(decode_finish, encode_finish),
    again!(decode_attempt, encode_attempt),
    again!(decode_schedule, encode_schedule),
    again!(decode_occurrence, encode_occurrence),
    again!(decode_queue, encode_queue),
    again!(decode_counts, encode_counts),
];

/// The first byte says which kind; what can be read is written, and that is read as the same.
pub(crate) fn record(bytes: &[u8]) {
    let Some((kind, rest)) = bytes.split_first() else { return };
    let again = KINDS[usize::from(*kind) % KINDS.len()];
    let Ok(written) = again(&Bytes::copy_from_slice(rest)) else { return };
    let twice = again(&Bytes::from(written.clone())).map_err(|error| error.to_string());
    assert_eq!(twice, Ok(written), "what was written is not read as it was");
}
