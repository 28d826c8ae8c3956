//! `hence serve`: run a server until a signal ends it.

use std::io::IsTerminal;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use hence_fail::{Point, reach};
use hence_server::config::StoreChoice;
use hence_server::telemetry::{self, Telemetry};
use hence_server::{Config, ServeError, Server};
use hence_store::{Capabilities, ErrorKind, Store, StoreError, Tier};
use tokio::sync::oneshot;

use super::serve_flags::ServeFlags;
use super::serve_move;
use super::store::{database_failure, open_any, store_failure};
use crate::args::SERVER_DEFAULT;
use crate::clock;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::process_limits;
use crate::signals::Signals;

pub(crate) const EXAMPLES: &str = "\
Examples:
  hence serve                                          on 127.0.0.1:7070, in ./hence-data
  hence serve --listen 127.0.0.1:0 --data /var/lib/hence
  hence serve --store postgres://hence@db/hence --require-tier durable
  hence serve --store postgres://hence@db1,db2/hence   a primary and its standby
  hence serve --move-to postgres://hence@db/hence      to another store while work goes on
  hence serve --listen 0.0.0.0:7070 --token-file /etc/hence/token
  hence serve --config hence.toml --print-config       what is set, and where it was said

The first line on stdout is `listening on http://ADDRESS`; logs go to stderr.
SIGTERM, SIGINT, SIGHUP or SIGQUIT: take no new work, finish what is under way, make everything
durable, end with 0. A second one, at least a second later: end at once. Under nohup, SIGHUP is
ignored.";

/// The line that tells a program where the server listens; the address follows.
pub(crate) const LISTENING: &str = "listening on ";

/// How often free memory is given back: rare enough not to be seen in the processor time of a
/// server at rest.
const GIVE_BACK_EVERY: Duration = Duration::from_secs(10);

/// How long a read that is under way at the end may take: nobody waits for its answer any more.
const LAST_READS_MAX: Duration = Duration::from_secs(1);

#[derive(Debug, Args)]
pub(crate) struct Serve {
    #[command(flatten)]
    pub(crate) flags: ServeFlags,
    /// A TOML file with the same names as the flags, but `_` for `-`: log_format = "json"
    #[arg(long, value_name = "FILE", env = "HENCE_CONFIG", hide_env_values = true)]
    config: Option<PathBuf>,
    /// Show what is set and where it was said, and end
    #[arg(long)]
    print_config: bool,
    /// Write the address to this file when the server takes work
    #[arg(long, value_name = "FILE")]
    port_file: Option<PathBuf>,
}

pub(crate) fn run(serve: Serve, output: &Output) -> Result<(), Failure> {
    // Variables that are not text cannot be ours.
    let environment = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let config = Config::load(serve.flags.0, environment, serve.config.as_deref())
        .map_err(|error| Failure::new(Exit::Usage, error.to_string()))?;
    if serve.print_config {
        return print_config(&config, output);
    }
    // Before a store is made for a server that will not be.
    hence_server::must_be_guarded(&config).map_err(|error| failure(&error, &config))?;
    let log = telemetry::init(&config)
        .map_err(|error| Failure::new(Exit::Internal, error.to_string()))?;
    let log = Arc::new(log);
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    process_limits::allow_many_files(&config);
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    if let Some(threads) = config.threads {
        runtime.worker_threads(threads);
    }
    // Connections and deliveries wait for their turn; the driver, for which they wait, does not.
    let runtime = runtime.enable_all().on_thread_start(hence_threads::take_turns).build();
    let runtime = runtime.map_err(|error| Failure::io("starting the server's threads", &error))?;
    let ended =
        runtime.block_on(serve_until_told(&config, serve.port_file.as_deref(), &log, output));
    // Whoever waits for a store that does not answer would keep the process for ever.
    runtime.shutdown_timeout(LAST_READS_MAX);
    log.end();
    ended
}

fn print_config(config: &Config, output: &Output) -> Result<(), Failure> {
    for warning in &config.warnings {
        output.warn(warning);
    }
    if output.is_json() {
        return output.json(&config.print_json());
    }
    output.raw(config.print().as_bytes())
}

async fn serve_until_told(
    config: &Config,
    port_file: Option<&Path>,
    log: &Arc<Telemetry>,
    output: &Output,
) -> Result<(), Failure> {
    let asked = clock::instant();
    let store = open_any(&config.store, output).await?;
    let opening = clock::instant() - asked;
    reach(Point::ServeOpened);
    let capabilities = store.capabilities();
    must_survive(&config.store, &capabilities, config.require_tier)?;
    let moving = match &config.move_to {
        Some(to) => Some(serve_move::begin(config, Arc::clone(&store), to, output).await?),
        None => None,
    };
    let store = moving.clone().map_or(store, |moving| moving as Arc<dyn Store>);
    process_limits::outlive_large_files()?;
    // Before anything can be asked for: a signal that comes early is not lost.
    let mut stop = stop_on_signals(Arc::clone(log), output.clone())?;
    let server = tokio::select! {
        biased;
        started = Server::start(config, store, end_on_fatal(Arc::clone(log))) => {
            started.map_err(|error| failure(&error, config))?
        }
        // It stood by, and has nothing to hand over.
        _ = &mut stop => return Ok(()),
    };
    reach(Point::ServeReady);
    let address = server.local_addr();
    if let Some(file) = port_file {
        write_port_file(file, address)?;
    }
    if std::io::stderr().is_terminal() {
        welcome(address, &config.store, &capabilities, output);
    } else {
        log_start(&server, config, &capabilities, opening).await;
    }
    if let (Some(moving), Some(to)) = (moving, &config.move_to) {
        tokio::spawn(serve_move::keep_moving(moving, to.to_string()));
    }
    output.line(format_args!("{LISTENING}http://{address}"))?;
    tokio::spawn(keep_memory_low());
    server.run(async { drop(stop.await) }).await;
    Ok(())
}

/// What was asked for about safety is a fact, or nothing is started.
pub(super) fn must_survive(
    store: &StoreChoice,
    facts: &Capabilities,
    least: Tier,
) -> Result<(), Failure> {
    if facts.tier >= least {
        return Ok(());
    }
    let (tier, least, notes) = (facts.tier.as_str(), least.as_str(), facts.notes.join("; "));
    let message = format!("{store} is {tier}, not {least}: {notes}");
    Err(Failure::new(Exit::Unavailable, message)
        .fix("change these settings of the store, or ask for less with --require-tier"))
}

/// What the start needed, and what a load left behind, goes back to the system.
async fn keep_memory_low() {
    let mut beat = tokio::time::interval(GIVE_BACK_EVERY);
    loop {
        beat.tick().await;
        hence_alloc::give_back();
    }
}

/// Done at the first signal; a second one ends the process. What was acknowledged is durable either
/// way.
fn stop_on_signals(log: Arc<Telemetry>, output: Output) -> Result<oneshot::Receiver<()>, Failure> {
    let signals = Signals::listen()?;
    let (tell, stop) = oneshot::channel();
    tokio::spawn(async move {
        let signals = signals.first().await;
        // Nobody listens when the server has ended by itself.
        let _ = tell.send(());
        signals.second().await;
        // The log first: it is written by a thread, which an exit does not wait for.
        log.end();
        output.warn("ending at once; work under way is delivered again by the next start");
        std::process::exit(i32::from(Exit::Refused.code()));
    });
    Ok(stop)
}

/// Ends the process when the store failed for good. The line that says why must get out: it is all
/// that is left to whoever looks into it.
fn end_on_fatal(log: Arc<Telemetry>) -> impl Fn(&StoreError) + Send + Sync + 'static {
    move |error| {
        tracing::error!(%error, "the store failed for good: ending the process");
        log.end();
        std::process::exit(i32::from(Exit::Io.code()));
    }
}

/// What was started, for the log.
async fn log_start(server: &Server, config: &Config, facts: &Capabilities, opening: Duration) {
    // Counted by the library anyway; a server that ends this instant says nothing.
    let queues = server.client().queues().await.unwrap_or_default();
    let pending: u64 = queues.iter().map(|queue| queue.counts.pending).sum();
    let recovery_ms = (opening + server.recovery_time()).as_millis() as u64;
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        store = %config.store,
        engine = facts.engine,
        tier = facts.tier.as_str(),
        address = %server.local_addr(),
        node = config.node,
        recovery_ms,
        pending,
        "started"
    );
}

/// The first screen of a person; a program has the line on stdout.
fn welcome(address: SocketAddr, store: &StoreChoice, facts: &Capabilities, output: &Output) {
    let version = env!("CARGO_PKG_VERSION");
    output.say(format_args!(
        "hence {version}, store {} ({}), in {store}",
        facts.engine,
        facts.tier.as_str()
    ));
    for note in &facts.notes {
        output.say(format_args!("  {note}"));
    }
    let (hook, api) = ("https://example.com/hook", format!("http://{address}"));
    output.say("Schedule a first job, and see it fire:");
    let server = server_flag(address);
    output.say(format_args!("  hence add {hook} --in 10s{server}"));
    output.say(format_args!(
        "  curl {api}/v1/jobs --json '{{\"url\": \"{hook}\", \"in\": \"10s\"}}'"
    ));
    output.say(format_args!("  hence watch ID{server}"));
    output.say(format_args!("Every request is explained at {api}/docs"));
}

/// What commands need to find a server here; nothing when they look here by themselves.
fn server_flag(address: SocketAddr) -> String {
    let mut reached = address;
    if address.ip().is_unspecified() {
        reached.set_ip(Ipv4Addr::LOCALHOST.into());
    }
    match format!("http://{reached}") {
        url if url == SERVER_DEFAULT => String::new(),
        url => format!(" --server {url}"),
    }
}

/// Whole or not at all: whoever waits for the file must not read half an address.
fn write_port_file(file: &Path, address: SocketAddr) -> Result<(), Failure> {
    let problem = |error| Failure::io(format_args!("writing {}", file.display()), &error);
    let mut unfinished = file.as_os_str().to_owned();
    unfinished.push(".tmp");
    std::fs::write(&unfinished, format!("http://{address}\n")).map_err(problem)?;
    std::fs::rename(&unfinished, file).map_err(problem)
}

fn failure(error: &ServeError, config: &Config) -> Failure {
    let store = &config.store;
    let directory = match store {
        StoreChoice::Embedded(directory) => Some(directory.as_path()),
        StoreChoice::Memory | StoreChoice::Database(_) => None,
    };
    match error {
        ServeError::Exposed { .. } => Failure::refused(error.to_string()),
        ServeError::Bind { .. } => Failure::refused(error.to_string())
            .fix("stop what listens there, or choose another address with --listen"),
        ServeError::Start(hence::Error::Store(error))
            if config.move_to.is_some() && error.kind() == ErrorKind::Unsupported =>
        {
            Failure::refused(error.to_string()).fix(
                "name an empty store with --move-to; if a move into this one broke off, start with \
                 --move-resume true",
            )
        }
        ServeError::Start(hence::Error::Store(error)) => match store {
            StoreChoice::Database(_) => database_failure(error),
            StoreChoice::Embedded(_) | StoreChoice::Memory => store_failure(error, directory),
        },
        ServeError::Start(_) => Failure::new(Exit::Internal, error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_suggested_commands_find_this_server() {
        let rows = [
            ("127.0.0.1:7070", ""),
            ("0.0.0.0:7070", ""),
            ("127.0.0.1:7914", " --server http://127.0.0.1:7914"),
            ("0.0.0.0:7914", " --server http://127.0.0.1:7914"),
            ("[::1]:7070", " --server http://[::1]:7070"),
            ("10.0.0.2:7070", " --server http://10.0.0.2:7070"),
        ];
        for (address, expected) in rows {
            assert_eq!(server_flag(address.parse().unwrap()), expected, "{address}");
        }
    }
}
