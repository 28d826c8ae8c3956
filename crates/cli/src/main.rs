//! The `hence` command line: parses, runs one command, and turns its end into an exit code.

mod api;
mod args;
mod clock;
mod commands;
mod failure;
mod job_flags;
mod output;
mod process_limits;
mod select;
mod signals;
mod wire;
mod words;

use std::process::ExitCode;

fn main() -> ExitCode {
    hence_fail::arm();
    let cli = args::Cli::read();
    let output = output::Output::new(&cli.global);
    match commands::run(cli, &output) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            output.failure(&failure);
            failure.exit.into()
        }
    }
}
