//! One file per command, and which of them needs what: a server, a runtime, or nothing.

pub(crate) mod act;
pub(crate) mod add;
pub(crate) mod completions;
pub(crate) mod demo;
pub(crate) mod docs;
pub(crate) mod doctor;
pub(crate) mod forecast;
pub(crate) mod jobs;
pub(crate) mod next;
pub(crate) mod queues;
pub(crate) mod reschedule;
mod schedule_flags;
pub(crate) mod schedules;
pub(crate) mod serve;
mod serve_flags;
mod serve_move;
pub(crate) mod show;
pub(crate) mod store;
pub(crate) mod version;
pub(crate) mod watch;
pub(crate) mod work;

use tokio::runtime::Builder;

use crate::api::Api;
use crate::args::{Cli, Command, Global};
use crate::failure::{Exit, Failure};
use crate::output::Output;

/// Runs the command that was typed.
pub(crate) fn run(cli: Cli, output: &Output) -> Result<(), Failure> {
    let Cli { global, command } = cli;
    match command {
        Command::Serve(serve) => serve::run(*serve, output),
        Command::Next(next) => next::run(&next, output),
        Command::Completions(completions) => completions::run(&completions, output),
        Command::Docs(docs) => docs::run(&docs, output),
        command => wait_for(ask(command, &global, output)),
    }
}

/// The commands that wait for something: nearly always for the server.
async fn ask(command: Command, global: &Global, output: &Output) -> Result<(), Failure> {
    let command = match command {
        Command::Store(store) => return store::run(store, output).await,
        Command::Demo(demo) => return demo::run(demo, output).await,
        command => command,
    };
    let api = &Api::new(global)?;
    match command {
        Command::Add(add) => add::run(*add, api, output).await,
        Command::Jobs(jobs) => jobs::run(jobs, api, output).await,
        Command::Show(show) => show::run(show, api, output).await,
        Command::Cancel(act) => act::run(act, act::Verb::Cancel, api, output).await,
        Command::Run(act) => act::run(act, act::Verb::Run, api, output).await,
        Command::Replay(act) => act::run(act, act::Verb::Replay, api, output).await,
        Command::Forget(act) => act::run(act, act::Verb::Forget, api, output).await,
        Command::Reschedule(moved) => reschedule::run(moved, api, output).await,
        Command::Queues(queues) => queues::run(queues, api, output).await,
        Command::Schedules(schedules) => schedules::run(schedules, api, output).await,
        Command::Forecast(asked) => forecast::run(asked, api, output).await,
        Command::Work(work) => work::run(work, api, output).await,
        Command::Watch(watch) => watch::run(watch, api, output).await,
        Command::Doctor(doctor) => doctor::run(doctor, api, output).await,
        Command::Version(version) => version::run(version, api, output).await,
        Command::Serve(_)
        | Command::Next(_)
        | Command::Completions(_)
        | Command::Docs(_)
        | Command::Store(_)
        | Command::Demo(_) => {
            unreachable!("these need no server and were run above")
        }
    }
}

/// One thread is enough for a client; the server makes its own runtime.
fn wait_for(work: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime =
        runtime.map_err(|error| Failure::new(Exit::Internal, format!("starting: {error}")))?;
    let ended = runtime.block_on(work);
    // A read of stdin that is still under way must not keep the process.
    runtime.shutdown_background();
    ended
}
