//! Shows that Hence keeps its promises, or where it does not.
//!
//! Two things that need each other: a checker, which judges a recorded [`history`] by one file for
//! each property ([`check`]), and a simulator, which makes such histories ([`world`], [`seeds`]).
//! Beside them the crash states of the embedded engine ([`crashes`]) and damage to it
//! ([`damage`]).
//!
//! ```
//! use hence_sim::{check, history};
//!
//! let recorded = r#"
//! {"t":0,"wall":1000,"by":"harness","f":"begin","flight_ms":10}
//! {"t":5,"wall":1005,"by":"target","f":"received","job":"q/-/a","number":1,"attempt":1,
//!  "token":"0.1.1","payload":"a","until":9000}"#.replace(",\n", ",");
//! let events = history::read(recorded.as_bytes())?;
//! let findings = check::judge(&events);
//! assert_eq!(findings[0].to_string(), "invented: q/-/a (1) was never submitted");
//! # Ok::<(), anyhow::Error>(())
//! ```

pub mod check;
pub mod crashes;
pub mod damage;
pub mod history;
pub mod seeds;
pub mod world;
