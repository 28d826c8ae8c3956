//! One small runnable program per feature: see the files beside this one.
