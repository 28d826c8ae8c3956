//! One of a few words. What serde derives for an enum reads an object with the word as a name as
//! well, which is nothing that anybody should come to rely on.

use std::borrow::Cow;

use serde::de::value::CowStrDeserializer;
use serde::{Deserialize, Deserializer};

/// A word, written as a text.
pub(crate) fn word<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let text = Cow::<str>::deserialize(deserializer)?;
    T::deserialize(CowStrDeserializer::new(text))
}

/// The same, where it may be left out or null.
pub(crate) fn word_or_none<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let text = Option::<Cow<'_, str>>::deserialize(deserializer)?;
    text.map(|text| T::deserialize(CowStrDeserializer::new(text))).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize, Debug, PartialEq)]
    #[serde(rename_all = "snake_case")]
    enum Size {
        Small,
        Large,
    }

    #[derive(Deserialize, Debug)]
    struct Shirt {
        #[serde(deserialize_with = "word")]
        size: Size,
        #[serde(default, deserialize_with = "word_or_none")]
        before: Option<Size>,
    }

    #[test]
    fn words_are_texts() {
        let read = |text: &str| serde_json::from_str::<Shirt>(text).map(|s| (s.size, s.before));
        let cases = [
            (r#"{"size": "small"}"#, Ok((Size::Small, None))),
            (r#"{"size": "large", "before": null}"#, Ok((Size::Large, None))),
            (r#"{"size": "l\u0061rge", "before": "small"}"#, Ok((Size::Large, Some(Size::Small)))),
            (r#"{"size": {"small": null}}"#, Err("invalid type: map, expected a string")),
            (r#"{"size": "small", "before": {"large": null}}"#, Err("invalid type: map")),
            (r#"{"size": ["small"]}"#, Err("invalid type: sequence, expected a string")),
            (r#"{"size": "huge"}"#, Err("unknown variant `huge`, expected `small` or `large`")),
            (r#"{"before": "small"}"#, Err("missing field `size`")),
        ];
        for (text, expected) in cases {
            match (read(text), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{text}"),
                (Err(found), Err(expected)) => {
                    assert!(found.to_string().starts_with(expected), "{text}: {found}");
                }
                (found, expected) => panic!("{text}: {found:?}, not {expected:?}"),
            }
        }
    }
}
