//! What the OpenAPI document says is so, as judged by a program that knows nothing else of us:
//! Schemathesis reads the document, makes thousands of requests of it, good and bad, and compares
//! what comes back. The same requests each time.
//!
//! Where Schemathesis cannot be had, this is shown as skipped.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, ensure};
use hence_e2e::packages::{self, run};
use hence_e2e::suite::Ended;
use hence_e2e::{Server, Setup};

hence_e2e::cases!(the_document_tells_the_truth);

/// How long all requests together may take: twenty times what they do.
const ENDS_WITHIN: Duration = Duration::from_mins(6);

/// Requests that are made up for each operation, beside those at the edges of what it takes.
const REQUESTS: &str = "20";

/// What each answer is asked. That a bad request is refused is not among them: texts are understood
/// that no schema can describe.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
                      response_headers_conformance,response_schema_conformance,ignored_auth";

const TOKEN: &str = "correct-horse-battery-staple";

fn the_document_tells_the_truth() -> Result<Ended> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/described");
    let programs = packages::python("described", &here.join("requirements.txt"))?;
    let env = vec![("HENCE_TOKEN".to_owned(), TOKEN.to_owned())];
    let server = Server::start_with(Setup { env, ..Setup::default() })?;
    let mut judge = Command::new(programs.join("schemathesis"));
    judge.arg("--config-file").arg(here.join("schemathesis.toml")).arg("run");
    judge.arg(format!("http://{}/openapi.json", server.address()));
    judge.args(["--checks", CHECKS, "--max-examples", REQUESTS, "--generation-deterministic"]);
    judge.args(["--header", &format!("Authorization: Bearer {TOKEN}"), "--warnings", "off"]);
    judge.args(["--request-timeout", "30", "--no-color"]);
    // It leaves what it has learnt where it runs.
    let scratch = tempfile::tempdir()?;
    judge.current_dir(scratch.path()).env("PYTHONPATH", &here).env("SCHEMATHESIS_HOOKS", "hooks");
    judge.env("PYTHONDONTWRITEBYTECODE", "1");
    let said = server.explain(run(&mut judge, ENDS_WITHIN))?;
    ensure!(said.contains("No issues found"), "{said}");
    Ok(Ended::Passed)
}
