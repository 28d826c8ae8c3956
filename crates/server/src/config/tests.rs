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
fn threads_are_counted_or_left_to_the_machine() {
    for (said, expected) in [("auto", None), ("1", Some(1)), ("1024", Some(1_024))] {
        assert_eq!(load(&[("threads", said)], &[], "").unwrap().threads, expected, "{said}");
    }
    assert_eq!(load(&[], &[], "threads = 3").unwrap().threads, Some(3));
    assert_eq!(load(&[], &[], "").unwrap().threads, None);
}

#[test]
fn mistakes_are_named_where_they_were_made() {
    let rows: [(Pairs, Pairs, &str, &str); 21] = [
        (&[], &[], "lsten = 'x'", "there is no key `lsten`; did you mean `listen`?"),
        (&[], &[], "zebra = 1", "there is no key `zebra`; `hence serve --help` lists all"),
        (&[], &[], "listen = true", "`listen` in"),
        (&[], &[], "move_resume = 1.5", "must be true or false, not a float"),
        (&[], &[], "move_resume = 'yes'", "must be true or false, not `yes`"),
        (&[], &[], "= 1", "is not TOML"),
        (&[("listen", "7070")], &[], "", "--listen must be an address and a port"),
        (&[], &[("HENCE_PUSHES", "0")], "", "HENCE_PUSHES must be between 1 and 1048576, not 0"),
        (&[("threads", "0")], &[], "", "--threads must be between 1 and 1024, not 0"),
        (&[], &[("HENCE_THREADS", "1025")], "", "HENCE_THREADS must be between 1 and 1024"),
        (&[], &[], "threads = 'many'", "`threads` in the configuration file must be `auto` or a"),
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

/// `--log warning` was once taken for the name of a module, and nothing was logged.
#[test]
fn a_word_that_is_no_level_does_not_silence_the_log() {
    let rows = [
        ("info", None),
        ("WARN", None),
        ("warn,hence::job=info", None),
        ("warn,hence=debug", None),
        ("hence::job", None),
        ("off", None),
        ("2", None),
        ("info,[request{queue}]=debug", None),
        (
            "warning",
            Some("--log holds `warning`, which is no level: one of off, error, warn, info"),
        ),
        ("warning", Some("did you mean `warn`?")),
        ("inf", Some("did you mean `info`?")),
        ("hence::job=info,eror", Some("did you mean `error`?")),
        ("banana", Some("or MODULE=LEVEL")),
        ("hence=warning", Some("is not a log filter")),
    ];
    for (text, expected) in rows {
        match (load(&[("log", text)], &[], ""), expected) {
            (Ok(config), None) => assert_eq!(config.log, text),
            (Err(error), Some(expected)) => assert!(error.contains(expected), "{text}: {error}"),
            (loaded, _) => panic!("{text}: {loaded:?}"),
        }
    }
}

/// `--data ./try` once went to the database of a `HENCE_STORE` that stood in the environment.
#[test]
fn a_directory_that_was_typed_wins_over_a_store_that_was_not() {
    const FILE: &str = "store = 'memory:'\n";
    const MEMORY: (&str, &str) = ("HENCE_STORE", "memory:");
    let embedded = |path: &str| StoreChoice::Embedded(path.into());
    let rows: [(Pairs, Pairs, &str, StoreChoice); 11] = [
        (&[], &[], "", embedded("./hence-data")),
        (&[("data", "/x")], &[("HENCE_DATA", "/z")], "", embedded("/x")),
        (&[("store", "embedded:/y")], &[("HENCE_DATA", "/z")], "", embedded("/y")),
        (&[("store", "memory:")], &[("HENCE_DATA", "/z")], "", StoreChoice::Memory),
        (&[("data", "/x")], &[MEMORY], "", embedded("/x")),
        (&[("data", "/x")], &[("HENCE_STORE", "")], "", embedded("/x")),
        (&[("data", "/x")], &[], FILE, embedded("/x")),
        (&[("data", "/x"), ("store", "memory:")], &[], "", StoreChoice::Memory),
        (&[], &[("HENCE_DATA", "/z")], FILE, StoreChoice::Memory),
        (&[], &[("HENCE_DATA", "/z"), MEMORY], "", StoreChoice::Memory),
        (&[], &[], FILE, StoreChoice::Memory),
    ];
    for (flags, env, file, expected) in rows {
        let chosen = load(flags, env, file).unwrap().store;
        assert_eq!(chosen, expected, "{flags:?} {env:?} {file}");
    }
}

/// An empty variable, as a template without its value leaves one, once sent jobs to a directory
/// that nobody thought of.
#[test]
fn an_empty_store_is_not_a_directory() {
    let rows: [(Pairs, Pairs, &str, &str); 3] = [
        (&[("store", "")], &[], "", "--store is empty; name a store"),
        (&[], &[("HENCE_STORE", "")], "data = '/x'", "HENCE_STORE is empty; name a store"),
        (&[], &[], "store = ''", "`store` in the configuration file is empty"),
    ];
    for (flags, env, file, expected) in rows {
        let error = load(flags, env, file).unwrap_err();
        assert!(error.contains(expected), "`{error}` should hold `{expected}`");
    }
}

#[test]
fn the_token_is_the_one_that_was_said_nearest() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("token");
    std::fs::write(&path, "the-token-of-the-file\n").unwrap();
    let file = path.to_str().unwrap();
    let (direct, of_file) = ("the-direct-token-here", "the-token-of-the-file");
    let said = format!("token = '{direct}'\n");
    let rows: [(&[_], &[_], &str, &str); 7] = [
        (&[("token_file", file)], &[("HENCE_TOKEN", direct)], "", of_file),
        (&[("token", direct)], &[("HENCE_TOKEN_FILE", file)], "", direct),
        (&[], &[("HENCE_TOKEN_FILE", file)], &said, of_file),
        (&[], &[("HENCE_TOKEN_FILE", file), ("HENCE_TOKEN", direct)], "", direct),
        (&[("token_file", file)], &[("HENCE_TOKEN", "")], "", of_file),
        (&[("token", direct)], &[("HENCE_TOKEN", ""), ("HENCE_TOKEN_FILE", "")], "", direct),
        (&[("token_file", file)], &[], &said, of_file),
    ];
    for (flags, env, text, expected) in rows {
        let config = load(flags, env, text).unwrap();
        let token = config.token.as_ref().map(Secret::expose);
        assert_eq!(token, Some(expected), "{flags:?} {env:?} {text}");
    }
    let refused = load(&[("token", direct), ("token_file", file)], &[], "").unwrap_err();
    assert!(refused.contains("--token-file cannot be used with --token"), "{refused}");
}

/// An empty variable, as a template without its value leaves one, once opened a server whose file
/// had a token.
#[test]
fn an_empty_token_does_not_switch_off_the_one_it_hides() {
    const FILE: &str = "token = 'correct-horse-battery-staple'\n";
    let rows: [(Pairs, Pairs, &str, &str); 8] = [
        (&[("token", "")], &[], FILE, "--token is empty; give a token"),
        (&[("token", "")], &[], "", "--token is empty; give a token"),
        (&[], &[("HENCE_TOKEN", "")], FILE, "HENCE_TOKEN is empty; give a token"),
        (&[], &[], "token = ''", "`token` in the configuration file is empty"),
        (&[("token_file", "")], &[], FILE, "--token-file is empty; name a file"),
        (&[], &[("HENCE_TOKEN_FILE", "")], FILE, "HENCE_TOKEN_FILE is empty; name a file"),
        (&[], &[], "token_file = ''", "`token_file` in the configuration file is empty"),
        (&[], &[("HENCE_TOKEN", ""), ("HENCE_TOKEN_FILE", "/x")], "", "HENCE_TOKEN is empty"),
    ];
    for (flags, env, file, expected) in rows {
        let error = load(flags, env, file).unwrap_err();
        assert!(error.contains(expected), "`{error}` should hold `{expected}`");
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
    let token = "# token = \"***\" # from the environment, not shown\n";
    assert!(printed.contains(token), "{printed}");
    assert!(printed.contains("pushes = \"7\" # from the file\n"), "{printed}");
    assert!(printed.contains("zone = \"UTC\"\n"), "{printed}");
    assert!(printed.contains("# token_file is not set\n"), "{printed}");
}

#[test]
fn what_is_printed_can_be_read_again() {
    let env = [("HENCE_TOKEN", "correct-horse-battery-staple"), ("HENCE_MOVE_RESUME", "true")];
    let store = "store = 'postgres://hence:secret@db/hence'\n";
    let lines = "data = \"here\\nnode = 'n2'\\na:secret@b\"\n";
    for file in ["", "pushes = 7\nmove_resume = true\n", "move_resume = 'true'\n", store, lines] {
        let config = load(&[("node", "n1")], &env, file).unwrap();
        let printed = config.print();
        let again = load(&[], &[], &printed).unwrap();
        let facts = |config: &Config| (config.pushes, config.move_resume, config.node.clone());
        assert_eq!(facts(&again), facts(&config), "{printed}");
        assert!(printed.contains("\nmove_resume = true"), "{printed}");
        assert!(again.token.is_none(), "`***` is nobody's token");
        assert_eq!(again.store, StoreChoice::Embedded("./hence-data".into()), "nor a password");
    }
}

#[test]
fn programs_read_what_is_set_as_json() {
    let env = [("HENCE_TOKEN", "correct-horse-battery-staple")];
    let printed = load(&[("pushes", "7")], &env, "move_resume = true").unwrap().print_json();
    let rows = [
        ("pushes", serde_json::json!({"value": "7", "source": "flag"})),
        ("token", serde_json::json!({"value": "***", "source": "environment"})),
        ("move_resume", serde_json::json!({"value": true, "source": "file"})),
        ("zone", serde_json::json!({"value": "UTC", "source": "default"})),
        ("token_file", serde_json::json!({"value": null, "source": "default"})),
    ];
    for (key, expected) in rows {
        assert_eq!(printed[key], expected, "{key}");
    }
    assert_eq!(printed.as_object().map(serde_json::Map::len), Some(KEYS.len()));
}

#[test]
fn a_misspelt_variable_is_warned_of() {
    let config = load(&[], &[("HENCE_PUSHS", "3"), ("HENCE_NODE", "n1")], "").unwrap();
    let expected = "HENCE_PUSHS is not a setting and is ignored; did you mean HENCE_PUSHES?";
    assert_eq!(config.warnings, [expected]);
    assert_eq!(config.node, "n1");
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
