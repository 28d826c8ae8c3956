//! The one list of everything that can be configured.

/// One thing that can be configured.
#[derive(PartialEq, Eq, Debug)]
pub struct Key {
    /// Its name in the file; the flag has `-` for `_`.
    pub name: &'static str,
    /// Its name in the environment.
    pub env: &'static str,
    /// Its value when nobody says anything; empty when there is none.
    pub default: &'static str,
    /// What it means, in a sentence.
    pub help: &'static str,
    /// Whether its value must never be shown.
    pub secret: bool,
}

impl Key {
    /// Whether its value is true or false.
    pub(super) fn is_flag(&self) -> bool {
        matches!(self.default, "true" | "false")
    }
}

macro_rules! keys {
    ($($name:ident $env:literal $default:literal $secret:literal $help:literal;)*) => {
        /// All of them, in the order in which they are shown.
        pub const KEYS: &[Key] = &[$(Key {
            name: stringify!($name),
            env: $env,
            default: $default,
            help: $help,
            secret: $secret,
        }),*];

        /// What one source says: a text for each key, or nothing. The command line fills one from
        /// its flags.
        #[derive(Clone, Default)]
        pub struct Layer {
            $(#[doc = $help] pub $name: Option<String>,)*
        }

        impl Layer {
            /// What it says about this key.
            pub fn get(&self, name: &str) -> Option<&str> {
                match name {
                    $(stringify!($name) => self.$name.as_deref(),)*
                    _ => None,
                }
            }

            /// Makes it say this about this key; other names are ignored.
            pub fn set(&mut self, name: &str, value: String) {
                match name {
                    $(stringify!($name) => self.$name = Some(value),)*
                    _ => {}
                }
            }
        }
    };
}

keys! {
    listen "HENCE_LISTEN" "127.0.0.1:7070" false
        "Address and port to listen on; beyond loopback a token is needed.";
    data "HENCE_DATA" "./hence-data" false
        "Directory in which jobs are kept.";
    store "HENCE_STORE" "" false
        "Where jobs are kept instead: `embedded:PATH`, `postgres://ROLE@HOST/DATABASE`, \
         `mysql://USER@HOST/DATABASE` (HOST can be several, with commas between), or `memory:` to \
         forget them at the end. A --data that is typed wins over one that is not.";
    move_to "HENCE_MOVE_TO" "" false
        "Where to move everything while work goes on; from the next start on, this is the store.";
    move_resume "HENCE_MOVE_RESUME" "false" false
        "Whether to go on with a move that broke off; what differs in the new store is removed.";
    require_tier "HENCE_REQUIRE_TIER" "best-effort" false
        "What an acknowledged job must survive at least, the most first: `durable` (a power cut: \
         it is on disk), `replicated` (the loss of one node, not a power cut of all: it is in the \
         memory of several), or `best-effort` (nothing).";
    token "HENCE_TOKEN" "" true
        "Token that every request must show as `Authorization: Bearer TOKEN`, but for `/live`, \
         `/ready`, `/docs` and `/openapi.json`.";
    token_file "HENCE_TOKEN_FILE" "" false
        "File that holds the token instead. Where both are said, a flag wins over the environment, \
         and that over the configuration file; in one place `token` wins, and two flags are \
         refused.";
    log "HENCE_LOG" "info" false
        "Which events to log: a level, or a filter such as `warn,hence::job=info`.";
    log_format "HENCE_LOG_FORMAT" "auto" false
        "How to log: `human`, `json`, or `auto`: human on a terminal.";
    node "HENCE_NODE" "local" false
        "What this node is called in leases and logs.";
    zone "HENCE_ZONE" "UTC" false
        "Zone of wall times such as `9am`, when a request names none.";
    shutdown_grace "HENCE_SHUTDOWN_GRACE" "10s" false
        "How long work under way may take to end at shutdown.";
    max_body_bytes "HENCE_MAX_BODY_BYTES" "8MiB" false
        "Largest body of a batch.";
    max_connections "HENCE_MAX_CONNECTIONS" "4096" false
        "Connections at once; more are answered with 503.";
    request_timeout "HENCE_REQUEST_TIMEOUT" "30s" false
        "Time for a request that does not wait for anything.";
    threads "HENCE_THREADS" "auto" false
        "Threads for connections and deliveries, beside the one that decides; `auto`: one a core.";
    pushes "HENCE_PUSHES" "256" false
        "HTTP deliveries under way at once.";
    handlers "HENCE_HANDLERS" "1024" false
        "In-process handlers under way at once.";
    window_jobs "HENCE_WINDOW_JOBS" "200000" false
        "Jobs kept in memory, shared by the queues, 1,000 each at least; the rest is in the store.";
    window_bytes "HENCE_WINDOW_BYTES" "64MiB" false
        "Payload bytes kept in memory, shared by the queues.";
    unregistered_delay "HENCE_UNREGISTERED_DELAY" "5s" false
        "How long a job whose handler is not registered waits before it is tried again.";
    dead_retention "HENCE_DEAD_RETENTION" "30d" false
        "How long a dead job waits for a human.";
}

/// The page `docs/reference/config.md`.
pub fn reference_markdown() -> String {
    let mut page = String::from(
        "# Configuration\n\nGenerated from `crates/server/src/config/keys.rs`. Flags win over the \
         environment, the environment over\nthe TOML file given with `--config`, the file over \
         the defaults. `hence serve --print-config` shows what came\nof it, and where each value \
         came from. A key of the file that does not exist is an error; a variable that\nis \
         nearly one of these is warned of.\n\n| flag | environment | file | default | meaning \
         |\n|---|---|---|---|---|\n",
    );
    for key in KEYS {
        let flag = key.name.replace('_', "-");
        let default = match key.default {
            "" => String::new(),
            default => format!("`{default}`"),
        };
        let Key { name, env, help, .. } = key;
        page.extend([format!("| `--{flag}` | `{env}` | `{name}` | {default} | {help} |\n")]);
    }
    page
}
