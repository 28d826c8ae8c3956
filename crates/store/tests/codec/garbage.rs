//! Whatever the bytes are, the answer is a value or an error: never a panic, never much memory.

use bytes::Bytes;
use hence_core::queue::Counts;
use hence_store::{ErrorKind, codec};
use proptest::prelude::*;

use super::golden::golden_files;
use super::{KINDS, again, written};

#[test]
fn every_truncation_is_corrupt() {
    for (kind, path, bytes) in golden_files(codec::VERSION) {
        let whole = Bytes::from(bytes);
        for end in 0..whole.len() {
            let error = again(&kind)(&whole.slice(..end)).expect_err("too short");
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{} cut at {end}", path.display());
        }
    }
}

#[test]
fn a_byte_too_many_is_corrupt() {
    for (kind, path, mut bytes) in golden_files(codec::VERSION) {
        bytes.push(0);
        let error = again(&kind)(&Bytes::from(bytes)).expect_err("too long");
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{}", path.display());
    }
}

#[test]
fn other_versions_are_refused_as_such() {
    for (kind, path, mut bytes) in golden_files(codec::VERSION) {
        for version in [0, codec::VERSION + 1, u8::MAX] {
            bytes[0] = version;
            let error = again(&kind)(&Bytes::from(bytes.clone())).expect_err("unknown version");
            assert_eq!(error.kind(), ErrorKind::Version, "{}", path.display());
        }
    }
}

/// A flip may make another valid record (checksums are the store's business), but then that record
/// must have this very form: no value has two, in one version.
#[test]
fn every_flipped_bit_is_an_error_or_another_record() {
    for (kind, path, bytes) in golden_files(codec::VERSION) {
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            if (codec::VERSION_OLDEST..codec::VERSION).contains(&flipped[0]) {
                continue; // an older version, which is written anew as the newest
            }
            match again(&kind)(&Bytes::from(flipped.clone())) {
                Ok(written) => assert!(same_form(&kind, &flipped, &written), "{path:?} bit {bit}"),
                Err(error) => {
                    assert!(matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Version));
                }
            }
        }
    }
}

/// Changes may lose a payload on the way, or a queue's name that is the last one again.
fn same_form(kind: &str, before: &[u8], after: &[u8]) -> bool {
    match kind {
        "change" | "batch" => after.len() <= before.len(),
        _ => before == after,
    }
}

/// Believing any of these would end the process: there is no such memory.
#[test]
fn huge_announced_lengths_take_no_memory() {
    let huge = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f];
    let starts: [(&str, &[u8]); 4] = [
        ("batch", &[codec::VERSION, 1, 1, 1]), // its changes
        ("change", &[codec::VERSION, 2, 1, 1, 1, 1, b'w', 0]), // leases granted
        ("job", &[codec::VERSION, 0, 1]),      // the queue's name
        ("finish", &[codec::VERSION, 0, 0, 0, 1]), // the result
    ];
    for (kind, start) in starts {
        let bytes = Bytes::from([start, &huge, &[1, 1]].concat());
        let error = again(kind)(&bytes).expect_err("nothing is that long");
        assert!(error.to_string().contains("ends too early"), "{error}");
    }
}

#[test]
fn an_error_names_the_record_and_the_place() {
    let bytes = Bytes::from(written(|out| codec::encode_counts(&Counts::default(), out)));
    let error = codec::decode_counts(&bytes.slice(..5)).expect_err("too short");
    assert_eq!(error.to_string(), "read counts: ends too early, at byte 5");
}

proptest! {
    #[test]
    fn random_bytes_never_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        for (_, again) in KINDS {
            let _ = again(&Bytes::from(bytes.clone()));
            if let Some(first) = bytes.first_mut() {
                *first = codec::VERSION;
            }
            let _ = again(&Bytes::from(bytes.clone()));
        }
    }
}
