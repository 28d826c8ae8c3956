//! One small runnable program per feature: see the files in `examples/`, and run one with
//! `cargo run -p hence-examples --example one_shot`.

/// The library's example in the README, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;

/// The programs of the guide to the library, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../docs/guides/library.md")]
struct LibraryGuide;
