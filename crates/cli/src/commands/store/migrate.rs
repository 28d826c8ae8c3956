//! `hence store migrate`: the tables of a database, forward and back.

use clap::Args;
use hence_server::config::{DatabaseUrl, StoreChoice};
use hence_store_sql::Run;
use serde_json::json;

use super::open::database_failure;
use crate::failure::Failure;
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct Migrate {
    /// The address of the database
    #[arg(value_parser = database)]
    store: DatabaseUrl,
    /// The version to bring it to; 0 removes everything [default: the newest]
    #[arg(long, value_name = "VERSION")]
    to: Option<u32>,
    /// Print the statements and run none
    #[arg(long)]
    dry_run: bool,
    /// Do not ask, also when data would be lost
    #[arg(long, short)]
    yes: bool,
}

fn database(text: &str) -> Result<DatabaseUrl, String> {
    match StoreChoice::parse_or_directory(text)? {
        StoreChoice::Database(url) => Ok(url),
        StoreChoice::Embedded(_) | StoreChoice::Memory => {
            Err("must be the address of a database: only these have tables".to_owned())
        }
    }
}

pub(super) async fn run(migrate: Migrate, output: &Output) -> Result<(), Failure> {
    let Migrate { store, to, dry_run, yes } = migrate;
    let failure = |error| database_failure(&error);
    let before = hence_store_sql::status(store.expose()).await.map_err(failure)?.len();
    let back = to.is_some_and(|to| (to as usize) < before);
    let question = format!("go back to an older version of the tables in {store}, and lose data?");
    if back && !dry_run && !yes && !output.confirm(&question)? {
        return Err(Failure::refused("nothing was done"));
    }
    let run = if dry_run { Run::Dry } else { Run::Really };
    let sql = hence_store_sql::migrate_to(store.expose(), to, run).await.map_err(failure)?;
    let after = hence_store_sql::status(store.expose()).await.map_err(failure)?.len();
    if output.is_json() {
        return output.json(&json!({"from": before, "to": after, "dry_run": dry_run, "sql": sql}));
    }
    if dry_run {
        return output.raw(sql.as_bytes());
    }
    output.say(match (before, after) {
        (before, after) if before == after => format!("version {after}; nothing to do"),
        (before, after) => format!("from version {before} to {after}"),
    });
    Ok(())
}
