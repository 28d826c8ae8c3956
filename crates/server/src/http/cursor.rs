//! Where a page ended, as an opaque text. Callers may keep it, never look inside: its layout may
//! change.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hence_core::error::Rejection;
use hence_core::id::{JobNumber, QueueName, ScheduleId};
use hence_core::schedule::LedgerPlace;
use hence_core::time::Timestamp;
use hence_store::Cursor;

/// The version in front: a cursor of another layout is refused, not misread.
const JOBS: u8 = 1;
const SCHEDULES: u8 = 2;
const LEDGER: u8 = 3;

/// `version, finished, at (8 bytes), number (8 bytes), queue`, in base64.
pub(crate) fn encode(cursor: &Cursor) -> String {
    let mut bytes = vec![JOBS, u8::from(cursor.finished)];
    bytes.extend(cursor.at.as_millis().to_be_bytes());
    bytes.extend(cursor.number.0.to_be_bytes());
    bytes.extend(cursor.queue.as_str().as_bytes());
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The cursor in the text.
pub(crate) fn decode(text: &str) -> Result<Cursor, Rejection> {
    let parts = || {
        let bytes = bytes(text)?;
        let (head, queue) = bytes.split_at_checked(18)?;
        let finished = match head.get(..2)? {
            [JOBS, 0] => false,
            [JOBS, 1] => true,
            _ => return None,
        };
        Some(Cursor {
            finished,
            at: Timestamp::from_millis(i64::from_be_bytes(head[2..10].try_into().ok()?)),
            number: JobNumber(u64::from_be_bytes(head[10..].try_into().ok()?)),
            queue: QueueName::new(std::str::from_utf8(queue).ok()?).ok()?,
        })
    };
    parts().ok_or_else(refusal)
}

/// The place after this schedule.
pub(crate) fn encode_schedule(id: &ScheduleId) -> String {
    URL_SAFE_NO_PAD.encode([&[SCHEDULES], id.as_str().as_bytes()].concat())
}

/// The schedule in the text.
pub(crate) fn decode_schedule(text: &str) -> Result<ScheduleId, Rejection> {
    let id = || {
        let bytes = bytes(text)?;
        let id = bytes.strip_prefix(&[SCHEDULES])?;
        ScheduleId::new(std::str::from_utf8(id).ok()?).ok()
    };
    id().ok_or_else(refusal)
}

/// The place of a record in a ledger: `version, last (8 bytes), number (8 bytes)`.
pub(crate) fn encode_place(place: LedgerPlace) -> String {
    let mut bytes = vec![LEDGER];
    bytes.extend(place.last.as_millis().to_be_bytes());
    bytes.extend(place.number.0.to_be_bytes());
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The place in the text.
pub(crate) fn decode_place(text: &str) -> Result<LedgerPlace, Rejection> {
    let place = || {
        let bytes = bytes(text)?;
        let (last, number) = bytes.strip_prefix(&[LEDGER])?.split_at_checked(8)?;
        Some(LedgerPlace {
            last: Timestamp::from_millis(i64::from_be_bytes(last.try_into().ok()?)),
            number: JobNumber(u64::from_be_bytes(number.try_into().ok()?)),
        })
    };
    place().ok_or_else(refusal)
}

fn bytes(text: &str) -> Option<Vec<u8>> {
    const TEXT_BYTES_MAX: usize = 256;
    if text.len() > TEXT_BYTES_MAX {
        return None;
    }
    URL_SAFE_NO_PAD.decode(text).ok()
}

fn refusal() -> Rejection {
    Rejection::invalid("cursor", "is not a cursor; use the `next` of the page before, as it is")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_survive_their_text_form() {
        for finished in [false, true] {
            let cursor = Cursor {
                finished,
                at: Timestamp::from_millis(-5),
                number: JobNumber(u64::MAX),
                queue: QueueName::new("a/b").unwrap(),
            };
            assert_eq!(decode(&encode(&cursor)).ok(), Some(cursor));
        }
        let id = ScheduleId::new("nightly").unwrap();
        assert_eq!(decode_schedule(&encode_schedule(&id)).ok(), Some(id.clone()));
        let place = LedgerPlace { last: Timestamp::from_millis(-5), number: JobNumber(7) };
        assert_eq!(decode_place(&encode_place(place)).ok(), Some(place));
        let foreign = encode_schedule(&id);
        assert!(decode_place(&foreign).is_err());
        for bad in ["", "!", "AAAA", foreign.as_str(), &"A".repeat(300)] {
            assert!(decode(bad).is_err(), "{bad}");
        }
    }
}
