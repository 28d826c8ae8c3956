//! Documents that are made from the code and kept beside it: a change of one without the other
//! fails.

use std::path::Path;

/// Compares the kept document with what the code says; writes it when `UPDATE_GOLDEN` is set.
pub(crate) fn check(path: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    let same = kept.lines().zip(text.lines()).take_while(|(kept, text)| kept == text).count();
    let name = path.display();
    assert!(kept == text, "{name} differs from line {}: run with UPDATE_GOLDEN=1", same + 1);
}
