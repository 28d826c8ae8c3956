//! The valid name closest to a mistyped one, for messages that end in "did you mean …?".

/// The candidate that `wrong` was most likely meant to be; none when nothing is close.
pub(crate) fn nearest<'a>(
    wrong: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    // A third of the letters may be wrong: more is another word, not a slip.
    let allowed = |candidate: &str| wrong.len().max(candidate.len()).div_ceil(3);
    candidates
        .into_iter()
        .map(|candidate| (distance(wrong, candidate), candidate))
        .filter(|(distance, candidate)| !wrong.is_empty() && *distance <= allowed(candidate))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Single-letter changes between the two, case and `-`/`_` aside. Names are short; a name that is
/// not is cut, so that a hostile one costs nothing.
fn distance(left: &str, right: &str) -> usize {
    const LETTERS_MAX: usize = 64;
    let letters = |text: &str| -> Vec<char> {
        let text = text.chars().take(LETTERS_MAX);
        text.map(|c| if c == '-' { '_' } else { c.to_ascii_lowercase() }).collect()
    };
    let (left, right) = (letters(left), letters(right));
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in right.iter().enumerate() {
            let changed = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_understood_and_other_words_are_not() {
        let names = ["queue", "key", "payload", "max_attempts"];
        let rows = [
            ("que", Some("queue")),
            ("Queue", Some("queue")),
            ("paylaod", Some("payload")),
            ("max-attempt", Some("max_attempts")),
            ("banana", None),
            ("", None),
        ];
        for (wrong, expected) in rows {
            assert_eq!(nearest(wrong, names), expected, "{wrong}");
        }
    }
}
