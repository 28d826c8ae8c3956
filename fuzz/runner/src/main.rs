//! The fuzz targets under libFuzzer. One binary for all: `HENCE_FUZZ_TARGET` names the target, so
//! that the whole is linked once.
#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;

static TARGET: OnceLock<fn(&[u8])> = OnceLock::new();

fuzz_target!(
    init: {
        let asked = std::env::var("HENCE_FUZZ_TARGET").unwrap_or_default();
        let target = hence_fuzz::TARGETS.iter().find(|(name, _)| *name == asked);
        let (_, target) = target.expect("HENCE_FUZZ_TARGET names a target");
        TARGET.set(*target).expect("it is set once");
    },
    |bytes: &[u8]| {
        if let Some(target) = TARGET.get() {
            target(bytes);
        }
    }
);
