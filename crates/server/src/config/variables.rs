//! Variables that begin as ours do and are not: a slip is named, anything else is somebody else's.

use super::KEYS;
use crate::nearest::nearest;

const PREFIX: &str = "HENCE_";

/// Variables that mean something elsewhere: to the commands that talk to a server, and to those
/// that `hence work` runs, which may start a server themselves.
const OTHERS: [&str; 9] = [
    "HENCE_SERVER",
    "HENCE_CONFIG",
    "HENCE_JOB_ID",
    "HENCE_QUEUE",
    "HENCE_KEY",
    "HENCE_ATTEMPT",
    "HENCE_MAX_ATTEMPTS",
    "HENCE_DUE_AT",
    "HENCE_LEASE_TOKEN",
];

/// A warning when this variable, which is no setting, is nearly one. It is no error: whoever runs
/// the server may not be the one who set it, and a service called `hence` makes Kubernetes set
/// `HENCE_PORT` and its like.
pub(super) fn slip(name: &str) -> Option<String> {
    let rest = name.strip_prefix(PREFIX).filter(|_| !OTHERS.contains(&name))?;
    // Without the prefix: it is the same in all, and would make everything look near.
    let names = KEYS.iter().map(|key| key.env.trim_start_matches(PREFIX));
    let meant = nearest(rest, names)?;
    Some(format!("{name} is not a setting and is ignored; did you mean {PREFIX}{meant}?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_named_and_what_belongs_to_others_is_not() {
        let rows = [
            ("HENCE_PUSHS", Some("HENCE_PUSHES")),
            ("HENCE_LISTN", Some("HENCE_LISTEN")),
            ("HENCE_SHUTDOWN_GRACE_", Some("HENCE_SHUTDOWN_GRACE")),
            ("HENCE_TOKENFILE", Some("HENCE_TOKEN_FILE")),
            ("HENCE_FAIL", None),
            ("HENCE_FAIL_REPORT", None),
            ("HENCE_PORT", None),
            ("HENCE_SERVICE_HOST", None),
            ("HENCE_SERVICE_PORT", None),
            ("HENCE_PORT_7070_TCP_ADDR", None),
            ("HENCE_", None),
            ("PUSHS", None),
        ];
        let others = OTHERS.map(|name| (name, None));
        for (name, meant) in rows.into_iter().chain(others) {
            let said = slip(name);
            let expected = meant.map(|meant| format!("did you mean {meant}?"));
            assert_eq!(said.is_some(), expected.is_some(), "{name}: {said:?}");
            let expected = expected.unwrap_or_default();
            assert!(said.unwrap_or_default().ends_with(&expected), "{name}");
        }
    }
}
