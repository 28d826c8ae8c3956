//! Layers, mistakes and secrets of the configuration.

use super::*;

type Pairs = &'static [(&'static str, &'static str)];

fn load(flags: &[(&str, &str)], env: &[(&str, &str)], file: &str) -> Result<Config, String> {
    let mut layer = Layer::default();
    for (name, value) in flags {
        layer.set(name, (*value).to_owned());
    }
    let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("hence.toml");
    std::fs::write(&path, file).unwrap();
    Config::load(layer, env, Some(&path)).map_err(|error| error.to_string())
}

#[test]
fn flags_win_over_environment_over_file_over_defaults() {
    let (flag, env) = ([("pushes", "1")], [("HENCE_PUSHES", "2")]);
    let file = "pushes = 3\n";
    let rows: [(&[_], &[_], &str, u32); 4] = [
        (&flag, &env, file, 1),
        (&[], &env, file, 2),
        (&[], &[], file, 3),
        (&[], &[], "", hence_core::limits::PUSHES_DEFAULT),
    ];
    for (flags, env, file, expected) in rows {
        assert_eq!(load(flags, env, file).unwrap().pushes, expected, "{flags:?} {env:?} {file}");
    }
}

#[test]
fn defaults_are_those_of_the_core() {
    use hence_core::limits;
    let config = load(&[], &[], "").unwrap();
    assert_eq!(config.handlers, limits::HANDLERS_DEFAULT);
    assert_eq!(config.window_jobs, limits::WINDOW_JOBS_DEFAULT);
    assert_eq!(config.window_bytes, limits::WINDOW_BYTES_DEFAULT);
    assert_eq!(config.unregistered_delay, limits::UNREGISTERED_DELAY_DEFAULT);
    assert_eq!(config.dead_retention, limits::DEAD_RETENTION_DEFAULT);
    assert_eq!(config.max_body_bytes, crate::limits::BATCH_BODY_BYTES_MAX);
    assert_eq!(config.max_connections, crate::limits::CONNECTIONS_DEFAULT);
    assert_eq!(config.request_timeout, crate::limits::REQUEST_TIMEOUT_DEFAULT);
    assert_eq!(config.store, StoreChoice::Embedded("./hence-data".into()));
    assert_eq!(config.zone, Zone::UTC);
    assert!(config.token.is_none() && config.listen.ip().is_loopback());
}

#[test]
fn mistakes_are_named_where_they_were_made() {
    let rows: [(Pairs, Pairs, &str, &str); 16] = [
        (&[], &[], "lsten = 'x'", "there is no key `lsten`; did you mean `listen`?"),
        (&[], &[], "zebra = 1", "there is no key `zebra`; `hence serve --help` lists all"),
        (&[], &[], "listen = true", "`listen` in"),
        (&[], &[], "= 1", "is not TOML"),
        (&[("listen", "7070")], &[], "", "--listen must be an address and a port"),
        (&[], &[("HENCE_PUSHES", "0")], "", "HENCE_PUSHES must be between 1 and 1048576, not 0"),
        (&[], &[], "log_format = 'xml'", "`log_format` in the configuration file must be auto"),
        (&[("token", "short")], &[], "", "--token must have at least 16 characters"),
        (&[("token_file", "/nonexistent")], &[], "", "--token-file names `/nonexistent`"),
        (&[("store", "redis://x")], &[], "", "--store must be embedded:PATH, memory:, postgres://"),
        (&[("shutdown_grace", "soon")], &[], "", "--shutdown-grace must be a span"),
        (&[("zone", "Europe/Pariss")], &[], "", "--zone must name a zone: Europe/Pariss is not a"),
        (&[("zone", "Europe/Pariss")], &[], "", "known zone; try: Europe/Paris"),
        (&[], &[("HENCE_ZONE", "EST")], "", "try: America/New_York | -05:00"),
        (&[], &[], "zone = 'tokyo'", "try: Asia/Tokyo"),
        (&[("request_timeout", "0s")], &[], "", "--request-timeout must be above zero"),
    ];
    for (flags, env, file, expected) in rows {
        let error = load(flags, env, file).unwrap_err();
        assert!(error.contains(expected), "`{error}` should hold `{expected}`");
    }
}

#[test]
fn the_store_is_chosen_by_url_or_directory() {
    let rows = [
        (("data", "/x"), StoreChoice::Embedded("/x".into())),
        (("store", "embedded:/y"), StoreChoice::Embedded("/y".into())),
        (("store", "memory:"), StoreChoice::Memory),
    ];
    for (flag, expected) in rows {
        assert_eq!(load(&[flag], &[("HENCE_DATA", "/z")], "").unwrap().store, expected);
    }
}

#[test]
fn secrets_are_not_shown() {
    const TOKEN: &str = "correct-horse-battery-staple";
    let config = load(&[], &[("HENCE_TOKEN", TOKEN)], "pushes = 7\n").unwrap();
    assert_eq!(config.token.as_ref().map(Secret::expose), Some(TOKEN));
    assert!(!format!("{config:?}").contains(TOKEN), "{config:?}");
    let printed = config.print();
    assert!(!printed.contains(TOKEN), "{printed}");
    assert!(printed.contains("token = \"***\" # from the environment\n"), "{printed}");
    assert!(printed.contains("pushes = \"7\" # from the file\n"), "{printed}");
    assert!(printed.contains("zone = \"UTC\"\n"), "{printed}");
    assert!(printed.contains("# token_file is not set\n"), "{printed}");
    let again = printed.replace("token = \"***\"", "");
    assert_eq!(load(&[], &[], &again).unwrap().pushes, 7, "what is printed can be read");
}

#[test]
fn a_token_can_come_from_a_file() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "a-token-in-a-file-of-its-own\n").unwrap();
    let path = file.path().to_str().unwrap();
    let token = load(&[("token_file", path)], &[], "").unwrap().token.unwrap();
    assert_eq!(token.expose(), "a-token-in-a-file-of-its-own");
}

#[test]
fn the_kept_page_is_what_the_code_says() {
    crate::golden::check("docs/reference/config.md", &reference_markdown());
}

#[test]
fn names_agree() {
    for key in KEYS {
        assert_eq!(key.env, format!("HENCE_{}", key.name.to_uppercase()));
    }
}
