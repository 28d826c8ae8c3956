//! One small runnable program per feature: see the files in `examples/`, and run one with
//! `cargo run -p hence-examples --example one_shot`.
