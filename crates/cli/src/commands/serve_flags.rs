//! The flags of `hence serve`, made from the server's one list of settings: a setting added there
//! is a flag here.

use clap::error::Error;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use hence_server::config::{KEYS, Key, Layer};

/// Settings that all commands know, as the token that they show: their flags are global.
const GLOBAL: [&str; 2] = ["token", "token_file"];

/// What the flags say.
#[derive(Clone, Default)]
pub(crate) struct ServeFlags(pub(crate) Layer);

impl std::fmt::Debug for ServeFlags {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // A token may be among them.
        f.write_str("ServeFlags")
    }
}

impl Args for ServeFlags {
    fn augment_args(command: Command) -> Command {
        let own = KEYS.iter().filter(|key| !GLOBAL.contains(&key.name));
        own.fold(command, |command, key| command.arg(flag(key)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

fn flag(key: &'static Key) -> Arg {
    let default = match key.default {
        "" => String::new(),
        default => format!(" [default: {default}]"),
    };
    let help = key.help.trim_end_matches('.');
    Arg::new(key.name)
        .long(key.name.replace('_', "-"))
        .value_name("VALUE")
        .help(format!("{help} [env: {}]{default}", key.env))
}

impl FromArgMatches for ServeFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut flags = ServeFlags::default();
        flags.update_from_arg_matches(matches)?;
        Ok(flags)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        for key in KEYS {
            // What the environment says is the server's to read, with its own words about mistakes.
            if matches.value_source(key.name) != Some(ValueSource::CommandLine) {
                continue;
            }
            let mut raw = matches.get_raw(key.name).into_iter().flatten();
            if let Some(value) = raw.next() {
                self.0.set(key.name, value.to_string_lossy().into_owned());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args;
    use clap::Parser;

    #[test]
    fn every_setting_is_a_flag() {
        for key in KEYS {
            let flag = format!("--{}", key.name.replace('_', "-"));
            let cli = args::Cli::try_parse_from(["hence", "serve", &flag, "x"]).unwrap();
            let args::Command::Serve(serve) = cli.command else { panic!("another command") };
            assert_eq!(serve.flags.0.get(key.name), Some("x"), "{flag}");
        }
    }
}
