//! What can be typed. Each command's own flags stand with the command; here are the list of
//! commands, what all of them share, and the examples under each help text.

use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

use crate::commands::{
    act, add, completions, demo, docs, doctor, forecast, jobs, next, queues, reschedule, schedules,
    serve, show, store, version, watch, work,
};

/// Durable scheduling of future work: a job scheduled is a job done.
///
/// Run a server with `hence serve`, schedule with `hence add`, look with `hence jobs` and
/// `hence watch`. Data goes to stdout, talk to stderr; --json prints one document a line.
#[derive(Debug, Parser)]
#[command(name = "hence", version, max_term_width = 100, after_help = EXAMPLES)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Where a server listens when nobody says otherwise.
pub(crate) const SERVER_DEFAULT: &str = "http://127.0.0.1:7070";

/// What every command understands.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// The server to talk to
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "HENCE_SERVER",
        hide_env_values = true,
        default_value = SERVER_DEFAULT
    )]
    pub(crate) server: String,
    /// The token that the server wants
    #[arg(long, global = true, value_name = "TOKEN", env = "HENCE_TOKEN", hide_env_values = true)]
    pub(crate) token: Option<String>,
    /// A file that holds the token; as a flag it wins over HENCE_TOKEN
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "HENCE_TOKEN_FILE",
        hide_env_values = true
    )]
    pub(crate) token_file: Option<PathBuf>,
    /// Print data as JSON, one document a line
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Say nothing but data and errors
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
    /// Use colours (NO_COLOR is honoured)
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value_t = Colour::Auto)]
    pub(crate) color: Colour,
}

impl Cli {
    /// What was typed; ends the process when it cannot be understood.
    pub(crate) fn read() -> Self {
        let matches = Cli::command().get_matches();
        Self::of(&matches).unwrap_or_else(|error| error.exit())
    }

    /// A flag wins over the environment, also where the one names the token and the other a file.
    fn of(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut cli = Cli::from_arg_matches(matches)?;
        let typed = |name| matches.value_source(name) == Some(ValueSource::CommandLine);
        match (typed("token"), typed("token_file")) {
            (true, true) => {
                let message = "--token cannot be used with --token-file: give one of them";
                return Err(Cli::command().error(ErrorKind::ArgumentConflict, message));
            }
            (false, true) => cli.global.token = None,
            (_, false) => {}
        }
        Ok(cli)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Colour {
    /// On a terminal
    Auto,
    Always,
    Never,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a server
    #[command(after_help = serve::EXAMPLES)]
    Serve(Box<serve::Serve>),
    /// Schedule a job, or many
    #[command(after_help = add::EXAMPLES)]
    Add(Box<add::Add>),
    /// List jobs: what waits or runs, or what --state names
    #[command(after_help = jobs::EXAMPLES)]
    Jobs(jobs::Jobs),
    /// Show one job: its state, attempts and payload
    #[command(after_help = show::EXAMPLES)]
    Show(show::Show),
    /// Take jobs back: one by id, or all that match
    #[command(after_help = act::CANCEL_EXAMPLES)]
    Cancel(act::Act),
    /// Make waiting jobs due at once: one by id, or all that match
    #[command(after_help = act::RUN_EXAMPLES)]
    Run(act::Act),
    /// Give a waiting job another time
    #[command(after_help = reschedule::EXAMPLES)]
    Reschedule(reschedule::Reschedule),
    /// Give dead jobs all their attempts again: one by id, or all that match
    #[command(after_help = act::REPLAY_EXAMPLES)]
    Replay(act::Act),
    /// Forget jobs that have ended, before their time: one by id, or all that match
    #[command(after_help = act::FORGET_EXAMPLES)]
    Forget(act::Act),
    /// List queues; pause, resume, limit and remove them
    #[command(after_help = queues::EXAMPLES)]
    Queues(queues::Queues),
    /// List schedules; put, pause, trigger, backfill and remove them
    #[command(after_help = schedules::EXAMPLES)]
    Schedules(schedules::Schedules),
    /// Show how many jobs of schedules fall due when
    #[command(after_help = forecast::EXAMPLES)]
    Forecast(forecast::ForecastFlags),
    /// Show what a time is understood as, and when it comes; needs no server
    #[command(after_help = next::EXAMPLES)]
    Next(Box<next::Next>),
    /// Run a command for each job of some queues
    #[command(after_help = work::EXAMPLES)]
    Work(work::Work),
    /// Follow one job to its end, or all queues live
    #[command(after_help = watch::EXAMPLES)]
    Watch(watch::Watch),
    /// Check, repair, export or import a data directory, with no server on it
    #[command(after_help = store::EXAMPLES)]
    Store(store::StoreCommand),
    /// Look for what is wrong, and say what to do about it
    #[command(after_help = doctor::EXAMPLES)]
    Doctor(doctor::Doctor),
    /// See the life of a few jobs in ten seconds: fired, failed, retried, killed, recovered
    #[command(after_help = demo::EXAMPLES)]
    Demo(demo::Demo),
    /// Print a completion script for a shell
    #[command(after_help = completions::EXAMPLES)]
    Completions(completions::Completions),
    /// Print a generated document
    #[command(hide = true)]
    Docs(docs::Docs),
    /// Print the version of this program, and of the server if one answers
    #[command(after_help = version::EXAMPLES)]
    Version(version::Version),
}

const EXAMPLES: &str = "\
Examples:
  hence serve                                        run a server here
  hence add https://example.com/hook --in 5m         POST there in five minutes
  hence add https://example.com/hook --at '7pm tomorrow' --tz Europe/Paris
  hence next 'every weekday at 9am'                  what a time means, and when it comes
  hence add --worker --queue mail --payload hello    work for whoever pulls from `mail`
  hence work mail -- ./send-mail                     run a program for each job of `mail`
  hence watch                                        all queues, live
  hence demo                                         see it work, with nothing to install

Exit codes: 0 done, 1 refused or failed, 2 usage, 3 not found, 4 server unreachable,
69 store locked or unavailable, 70 internal error, 74 input or output error.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grammar_is_sound() {
        Cli::command().debug_assert();
    }

    const UNDERSTOOD: [&str; 40] = [
        "hence jobs",
        "hence jobs --queue mail --state dead --limit 5 --json",
        "hence --json jobs --all",
        "hence add http://localhost/ --in 5s -H a:b -H c:d",
        "hence add http://localhost/ --in -5s",
        "hence add --worker --queue mail --payload hi --key user:1 --id x --on-conflict keep",
        "hence add --handler thumbnails --at 2030-01-01T00:00:00Z",
        "hence add --many jobs.jsonl",
        "hence add http://a/ --at tomorrow --tz Europe/Paris",
        "hence next @daily --tz Europe/Paris --count 10 --json",
        "hence next @daily @hourly --dialect unix --gap skip --fold both --exclude 2026-12-25",
        "hence reschedule abc --queue mail --at noon --tz UTC",
        "hence show abc --queue mail --key k",
        "hence cancel abc",
        "hence cancel --queue mail --state scheduled --yes",
        "hence replay --queue mail --yes",
        "hence queues",
        "hence queues pause mail",
        "hence queues set mail --concurrency 5 --rate 10/s",
        "hence schedules put tick --every 15m http://localhost/tick",
        "hence schedules put s --when @daily --when @hourly --tz UTC --misfire skip --worker",
        "hence schedules put s --when @daily --overlap skip --spread 5m --count 3 --worker",
        "hence schedules put s --when @daily --paused --note later --worker",
        "hence schedules history tick --limit 5 --fate late,skipped --oldest",
        "hence schedules occurrences tick",
        "hence schedules pause tick --note enough",
        "hence schedules backfill tick --from yesterday --to now --pace 1s",
        "hence schedules backfill tick --cancel",
        "hence forecast --minutes 60 --json",
        "hence forecast tick",
        "hence work mail bulk --concurrency 4 -- sh -c true",
        "hence work mail --once -- cat",
        "hence watch",
        "hence watch abc --queue mail",
        "hence store check ./data",
        "hence store import ./data --from dump.jsonl --merge",
        "hence doctor --json",
        "hence completions zsh",
        "hence docs cli",
        "hence version",
    ];
    const REFUSED: [&str; 40] = [
        "hence add --worker -H a:b",
        "hence add --worker --method GET",
        "hence add --handler h -H a:b",
        "hence add --handler h --method GET",
        "hence add --many jobs.jsonl -H a:b",
        "hence add --many jobs.jsonl --queue mail",
        "hence add --many jobs.jsonl --retry-attempts 3",
        "hence schedules put tick --when @daily --worker -H a:b",
        "hence jobs --limit 0",
        "hence jobs --token t --token-file f",
        "hence --token t serve --token-file f",
        "hence",
        "hence nonsense",
        "hence add",
        "hence add http://a/ --worker",
        "hence add http://a/ --in 5s --at 2030-01-01T00:00:00Z",
        "hence add http://a/ --payload a --payload-file b",
        "hence add http://a/ --on-conflict explode",
        "hence jobs --state sleeping",
        "hence next",
        "hence next @daily --count 0",
        "hence next @daily --count 1001",
        "hence next @daily --dialect klingon",
        "hence reschedule abc",
        "hence reschedule abc --at noon --in 5m",
        "hence add http://a/ --tz UTC",
        "hence show",
        "hence cancel",
        "hence cancel abc --state dead",
        "hence work -- cat",
        "hence work mail",
        "hence work mail --concurrency 0 -- cat",
        "hence schedules put tick http://a/",
        "hence schedules put tick --when @daily",
        "hence schedules put tick --when @daily --note x --worker",
        "hence schedules history tick --limit 0",
        "hence schedules backfill tick",
        "hence schedules backfill tick --cancel --from yesterday",
        "hence queues set mail",
        "hence completions tcl",
    ];

    /// One `check`, many rows: what is understood, and what is a usage error (exit code 2).
    #[test]
    fn what_can_be_typed() {
        let accepted = |line: &str| {
            let matches = Cli::command().try_get_matches_from(line.split(' '));
            matches.and_then(|it| Cli::of(&it)).map(|_| ()).map_err(|e| e.to_string())
        };
        for line in UNDERSTOOD {
            assert_eq!(accepted(line), Ok(()), "{line}");
        }
        for line in REFUSED {
            assert!(accepted(line).is_err(), "{line} was accepted");
        }
    }
}
