//! Times in words: the readers of phrases. Each reads from a cursor over words, and either takes
//! what it knows, leaves the cursor where it was, or refuses with a [`Problem`].

mod assemble;
mod clock;
mod day;
mod list;
mod moment;
mod phrase;
mod span;
mod token;
mod vocabulary;

use super::problem::Problem;

pub(crate) use moment::{Said, at_wall, later};
pub(crate) use phrase::parse_rhythm;
pub(crate) use span::parse_span as parse_words;
pub(crate) use span::{Span, parse_elapsed, parse_iso, show_elapsed, spell_elapsed};
pub(crate) use token::{Cursor, View};
pub(crate) use vocabulary::{month_name, spell_weekdays, weekday_name};

/// Something that was read, or was not there, or is refused.
pub(crate) type Parsed<T> = Result<Option<T>, Problem>;
