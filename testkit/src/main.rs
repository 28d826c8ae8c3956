//! `cargo run -p hence-testkit`: makes sure that the programs of the servers are there, or says
//! what is missing. `cargo xtask test --only tools` reads what it prints.

use anyhow::Result;

#[expect(clippy::print_stdout, reason = "what is missing is what it is run for")]
fn main() -> Result<()> {
    for program in hence_testkit::programs() {
        match program.need() {
            Ok(path) => println!("{}: {}", program.name, path.display()),
            Err(error) if error.is::<hence_testkit::Missing>() => println!("{error}"),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
