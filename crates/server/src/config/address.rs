//! Where jobs are kept, as one text: for flags, variables, files and commands alike.

use std::fmt;
use std::path::PathBuf;

/// Where jobs are kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StoreChoice {
    /// In this directory.
    Embedded(PathBuf),
    /// In memory only: forgotten when the process ends.
    Memory,
    /// In a database.
    Database(DatabaseUrl),
}

/// The address of a database. It may hold a password, which is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct DatabaseUrl(String);

/// What is understood, for whoever wrote something else.
const FORMS: &str = "must be embedded:PATH, memory:, postgres://ROLE@HOST/DATABASE or \
                     mysql://USER@HOST/DATABASE";

const SCHEMES: [&str; 4] = ["postgres://", "postgresql://", "mysql://", "mariadb://"];

impl StoreChoice {
    /// Reads a text that must say which kind it is.
    pub fn parse(text: &str) -> Result<Self, String> {
        if matches!(text, "memory:" | "memory") {
            return Ok(StoreChoice::Memory);
        }
        if SCHEMES.iter().any(|scheme| text.starts_with(scheme)) {
            return Ok(StoreChoice::Database(DatabaseUrl(text.to_owned())));
        }
        match text.strip_prefix("embedded:") {
            Some("") => Err("names no directory: write embedded:PATH".to_owned()),
            Some(path) => Ok(StoreChoice::Embedded(PathBuf::from(path))),
            None => Err(format!("{FORMS}, not `{}`", without_password(text))),
        }
    }

    /// Reads a text in which a directory may be named without more ado.
    pub fn parse_or_directory(text: &str) -> Result<Self, String> {
        match text {
            "" => Err(FORMS.to_owned()),
            text if text.contains("://") || text.starts_with("embedded:") => Self::parse(text),
            "memory:" => Ok(StoreChoice::Memory),
            path => Ok(StoreChoice::Embedded(PathBuf::from(path))),
        }
    }
}

impl fmt::Display for StoreChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreChoice::Embedded(directory) => write!(f, "{}", directory.display()),
            StoreChoice::Memory => f.write_str("memory, forgotten at the end"),
            StoreChoice::Database(url) => write!(f, "{url}"),
        }
    }
}

impl DatabaseUrl {
    /// The whole text, for whoever must connect.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&without_password(&self.0))
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// The text as it may be shown. A password may hold any character that somebody forgot to escape:
/// whatever could belong to one is hidden.
pub(super) fn without_password(text: &str) -> String {
    let start = text.find("://").map_or(0, |at| at + "://".len());
    let (scheme, rest) = text.split_at(start);
    let option = rest.to_ascii_lowercase().find(OPTION).map(|at| at + OPTION.len());
    let login_end = rest.rfind('@').unwrap_or(0);
    let colon = rest[..login_end].find(':').map(|at| at + 1);
    if let Some(option) = option.filter(|option| *option <= login_end) {
        // Of which of the two the `@` is a part, nobody knows.
        let first = colon.map_or(option, |colon| colon.min(option));
        return format!("{scheme}{}***", &rest[..first]);
    }
    let login = colon
        .map_or_else(|| rest[..login_end].to_owned(), |colon| format!("{}***", &rest[..colon]));
    let address = &rest[login_end..option.unwrap_or(rest.len())];
    let value = if option.is_some() { "***" } else { "" };
    format!("{scheme}{login}{address}{value}")
}

/// Where a password stands when it is an option; nothing behind it is shown.
const OPTION: &str = "password=";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_read() {
        let rows = [
            ("memory:", "memory, forgotten at the end"),
            ("embedded:/var/lib/hence", "/var/lib/hence"),
            ("postgres://hence@db/hence", "postgres://hence@db/hence"),
            ("postgresql://db/hence?schema=x", "postgresql://db/hence?schema=x"),
            ("postgres://hence:secret@a:1,b:2/x", "postgres://hence:***@a:1,b:2/x"),
            ("mysql://hence:secret@db:3306/hence", "mysql://hence:***@db:3306/hence"),
            ("mysql://hence:secret@a:1,b:2/hence", "mysql://hence:***@a:1,b:2/hence"),
            ("mariadb://a:s@c@r:et@db/h?password=secret", "mariadb://a:***@db/h?password=***"),
            ("postgres://a:wh?er@e&t@db/h?schema=x", "postgres://a:***@db/h?schema=x"),
            ("postgres://a@db/h?Password=s&cr@et@x", "postgres://a@db/h?Password=***"),
            ("postgres://a:wh?password=@et@db/h", "postgres://a:***"),
        ];
        for (text, shown) in rows {
            let choice = StoreChoice::parse(text).unwrap_or_else(|problem| panic!("{problem}"));
            assert_eq!(choice.to_string(), shown);
            assert!(!format!("{choice:?}").contains("et@"), "{choice:?}");
        }
    }

    #[test]
    fn anything_else_is_told_what_is_understood() {
        for text in ["", "hence-data", "redis://x", "postgres:/x", "embedded:"] {
            assert!(StoreChoice::parse(text).is_err(), "{text}");
        }
        for text in ["oracle://me:secret@db/x", "postgres:/me:secret@db/x"] {
            let problem = StoreChoice::parse(text).unwrap_err();
            assert!(problem.contains("postgres://ROLE@HOST/DATABASE"), "{problem}");
            assert!(!problem.contains("secret"), "{problem}");
        }
    }

    #[test]
    fn commands_take_a_directory_without_more_ado() {
        let directory = |path: &str| StoreChoice::Embedded(path.into());
        assert_eq!(StoreChoice::parse_or_directory("./data"), Ok(directory("./data")));
        assert_eq!(StoreChoice::parse_or_directory("embedded:./data"), Ok(directory("./data")));
        assert_eq!(StoreChoice::parse_or_directory("memory:"), Ok(StoreChoice::Memory));
        assert!(StoreChoice::parse_or_directory("http://x").is_err());
        assert!(StoreChoice::parse_or_directory("").is_err());
    }
}
