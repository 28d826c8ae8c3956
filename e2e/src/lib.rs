//! Black-box tests: the real binary, kill -9, hostile receivers.
