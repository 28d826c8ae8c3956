//! `hence completions`: a completion script for a shell.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::args::Cli;
use crate::failure::Failure;
use crate::output::Output;

pub(crate) const EXAMPLES: &str = "\
Examples:
  hence completions bash > /etc/bash_completion.d/hence
  hence completions zsh > ~/.zfunc/_hence
  hence completions fish > ~/.config/fish/completions/hence.fish";

#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

pub(crate) fn run(completions: &Completions, output: &Output) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(completions.shell, &mut Cli::command(), "hence", &mut script);
    output.raw(&script)
}
