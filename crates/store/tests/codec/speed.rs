//! The budget: a typical job of 150 bytes within 200 ns one way and 400 ns the other. Run it with
//! `cargo test --release -p hence-store --test codec -- --ignored speed`.

use std::hint::black_box;
use std::time::Instant;

use bytes::Bytes;
use hence_store::codec;

use super::golden::typical_job;
use super::written;

const ROUNDS: u32 = 1_000_000;

#[test]
#[ignore = "measures; only meaningful in a release build on a quiet machine"]
fn a_typical_job_is_fast_both_ways() {
    let job = typical_job();
    let bytes = Bytes::from(written(|out| codec::encode_job(&job, out)));
    assert!((140..=160).contains(&bytes.len()), "{} bytes", bytes.len());
    let mut out = Vec::with_capacity(1_024);
    let encode = nanos(|| {
        out.clear();
        codec::encode_job(black_box(&job), &mut out);
        black_box(&out);
    });
    let decode = nanos(|| {
        let _ = black_box(codec::decode_job(black_box(&bytes)));
    });
    assert!(encode < 200 && decode < 400, "encode {encode} ns, decode {decode} ns");
}

#[expect(clippy::disallowed_methods, reason = "measuring is what this is for")]
fn nanos(mut step: impl FnMut()) -> u128 {
    let start = Instant::now();
    for _ in 0..ROUNDS {
        step();
    }
    start.elapsed().as_nanos() / u128::from(ROUNDS)
}
