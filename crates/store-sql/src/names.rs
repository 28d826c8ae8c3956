//! Names that cannot be bound as parameters (schemas, prefixes of tables) and the hash under which
//! jobs are found by theirs.

use hence_core::id::{JobName, Key};
use hence_store::{ErrorKind, StoreError};
use sha2::{Digest, Sha256};

use crate::limits::NAME_BYTES_MAX;

/// A name that may stand in a statement without quotes: checked once, where it is made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SqlName(String);

impl SqlName {
    /// Checks the text; `field` says where it came from.
    pub fn new(field: &str, text: &str) -> Result<Self, StoreError> {
        let first = text.bytes().next().is_some_and(|b| b.is_ascii_lowercase());
        let rest = text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
        if first && rest && text.len() <= NAME_BYTES_MAX && !text.starts_with("pg_") {
            return Ok(SqlName(text.to_string()));
        }
        let message = format!(
            "{field}: {text:?} is no name for it; use a lower-case letter, then lower-case \
             letters, digits and _, at most {NAME_BYTES_MAX} in all, not starting with pg_"
        );
        Err(StoreError::new(ErrorKind::Unsupported, message))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The number under which a job is looked up. Stored: its values may never change. Names with the
/// same number are told apart by reading them.
pub(crate) fn name_hash(name: &JobName) -> i64 {
    let mut digest = Sha256::new();
    let key = name.key.as_ref().map(Key::as_str);
    for part in [Some(name.queue.as_str()), key, Some(name.id.as_str())] {
        // The length comes first, so that the parts do not run together.
        let length = part.map_or(u32::MAX, |part| part.len() as u32);
        digest.update(length.to_be_bytes());
        digest.update(part.unwrap_or_default());
    }
    let digest: [u8; 32] = digest.finalize().into();
    let (first, _) = digest.split_first_chunk().expect("a digest is longer than eight bytes");
    i64::from_be_bytes(*first)
}

#[cfg(test)]
mod tests {
    use hence_core::id::{JobId, QueueName};

    use super::*;

    #[test]
    fn only_plain_names_are_taken() {
        let longest = "x".repeat(NAME_BYTES_MAX);
        for good in ["hence", "a", "h2", "a_b", "x__", &longest] {
            assert!(SqlName::new("schema", good).is_ok(), "{good}");
        }
        let long = "x".repeat(NAME_BYTES_MAX + 1);
        let bad = ["", "2a", "_a", "Hence", "a-b", "a b", "a;b", "a\"b", "a'", "é", "pg_x", &long];
        for name in bad {
            let error = SqlName::new("schema", name).expect_err(name);
            assert!(error.to_string().starts_with("schema: "), "{error}");
        }
    }

    fn name(queue: &str, key: Option<&str>, id: &str) -> JobName {
        JobName {
            queue: QueueName::new(queue).unwrap(),
            key: key.map(|key| Key::new(key).unwrap()),
            id: JobId::new(id).unwrap(),
        }
    }

    /// Rows are found by these numbers for ever.
    #[test]
    fn hashes_never_change() {
        let golden = [
            (name("default", None, "a"), -4_087_307_494_156_043_230),
            (name("default", Some("a"), "a"), 4_334_829_646_602_147_101),
            (name("mail.out", Some("Zoë"), "日本語"), 8_475_903_672_610_925_280),
        ];
        for (name, expected) in golden {
            assert_eq!(name_hash(&name), expected, "{name}");
        }
    }

    #[test]
    fn the_parts_of_a_name_do_not_run_together() {
        let names = [
            name("a", Some("b"), "c"),
            name("a", None, "bc"),
            name("ab", None, "c"),
            name("a", Some("bc"), "d"),
            name("ab", Some("c"), "d"),
        ];
        let hashes: std::collections::BTreeSet<i64> = names.iter().map(name_hash).collect();
        assert_eq!(hashes.len(), names.len());
    }
}
