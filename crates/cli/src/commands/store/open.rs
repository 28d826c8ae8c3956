//! The embedded engine, for people: open, check, repair.

use std::path::Path;
use std::sync::Arc;

use hence_store::Store;

use crate::failure::Failure;
use crate::output::Output;

pub(super) fn existing(_dir: &Path) -> Result<Arc<dyn Store>, Failure> {
    Err(Failure::refused("not yet"))
}
pub(super) fn or_make(_dir: &Path) -> Result<Arc<dyn Store>, Failure> {
    Err(Failure::refused("not yet"))
}
pub(super) fn check(_dir: &Path, _output: &Output) -> Result<(), Failure> {
    Err(Failure::refused("not yet"))
}
pub(super) fn repair(_dir: &Path, _yes: bool, _output: &Output) -> Result<(), Failure> {
    Err(Failure::refused("not yet"))
}
