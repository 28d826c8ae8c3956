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

/// The text as it may be shown.
pub(super) fn without_password(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else { return text.to_owned() };
    let (address, query) = match rest.split_once('?') {
        Some((address, query)) => (address, Some(query)),
        None => (rest, None),
    };
    // A password may hold any character that somebody forgot to escape.
    let shown = match address.rsplit_once('@') {
        Some((login, host)) => match login.split_once(':') {
            Some((name, _)) => format!("{name}:***@{host}"),
            None => format!("{login}@{host}"),
        },
        None => address.to_owned(),
    };
    let Some(query) = query else { return format!("{scheme}://{shown}") };
    let hidden = |pair: &str| match pair.split_once('=') {
        Some((name, _)) if name.eq_ignore_ascii_case("password") => format!("{name}=***"),
        _ => pair.to_owned(),
    };
    let query: Vec<String> = query.split('&').map(hidden).collect();
    format!("{scheme}://{shown}?{}", query.join("&"))
}

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
            ("mysql://hence:secret@db:3306/hence", "mysql://hence:***@db:3306/hence"),
            ("mysql://hence:secret@a:1,b:2/hence", "mysql://hence:***@a:1,b:2/hence"),
            ("mariadb://a:s@c@r:et@db/h?password=secret", "mariadb://a:***@db/h?password=***"),
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
        let problem = StoreChoice::parse("oracle://me:secret@db/x").unwrap_err();
        assert!(problem.contains("postgres://ROLE@HOST/DATABASE"), "{problem}");
        assert!(!problem.contains("secret"), "{problem}");
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
