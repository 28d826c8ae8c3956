//! TLS: in the clear only where that was asked for, and nobody is believed whose certificate does
//! not show who it is.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use hence_testkit::suite::{self, Ended};
use hence_testkit::{Postgres, Program};

use crate::support::{Owner, at, fresh_schema, open, put, short_slots};

pub(crate) const CASES: [(&str, suite::Case); 1] =
    [("tls_is_as_strict_as_the_address_says", tls_is_as_strict_as_the_address_says)];

const OPENSSL: Program = Program { name: "openssl", packages: &["openssl"] };

/// What becomes of an address.
enum Expected {
    Encrypted,
    InTheClear,
    Refused(&'static str),
}
use Expected::{Encrypted, InTheClear, Refused};

/// A server with a certificate for `localhost`, and one without.
struct Servers {
    certified: Postgres,
    plain: Postgres,
    files: tempfile::TempDir,
}

fn tls_is_as_strict_as_the_address_says() -> Result<Ended> {
    let files = tempfile::tempdir()?;
    let home = files.path();
    let issuer = Issuer::new(home, "issuer")?;
    Issuer::new(home, "stranger")?;
    let (certificate, key) = issuer.certify("localhost")?;
    let certified = Postgres::start_with_files(
        &["ssl = on"],
        &[("server.crt", &certificate), ("server.key", &key)],
    )?;
    let servers = Servers { certified, plain: Postgres::start_with(&["ssl = off"])?, files };
    let rows = [
        ("certified", "localhost", "", InTheClear),
        ("certified", "localhost", "sslmode=disable", InTheClear),
        ("certified", "localhost", "sslmode=prefer", Encrypted),
        ("certified", "127.0.0.1", "sslmode=prefer", Encrypted),
        ("certified", "localhost", "sslrootcert=issuer", Encrypted),
        ("certified", "localhost", "sslmode=require&sslrootcert=issuer", Encrypted),
        ("certified", "localhost", "sslmode=verify-full&sslrootcert=issuer", Encrypted),
        ("certified", "127.0.0.1", "sslmode=verify-full&sslrootcert=issuer", Refused("by a name")),
        ("certified", "localhost", "sslmode=require", Refused("sslrootcert=FILE")),
        ("certified", "localhost", "sslmode=verify-full", Refused("sslrootcert=FILE")),
        ("certified", "localhost", "sslrootcert=stranger", Refused("certificate")),
        ("certified", "localhost", "sslrootcert=nothing", Refused("sslrootcert: ")),
        ("plain", "localhost", "", InTheClear),
        ("plain", "localhost", "sslmode=prefer", InTheClear),
        ("plain", "localhost", "sslmode=require", Refused("does not support TLS")),
        ("plain", "localhost", "sslrootcert=issuer", Refused("does not support TLS")),
    ];
    for (server, host, options, expected) in rows {
        let row = format!("{server}, {host}, {options:?}");
        servers.check(server, host, options, &expected).context(row)?;
    }
    Ok(Ended::Passed)
}

impl Servers {
    fn check(&self, server: &str, host: &str, options: &str, expected: &Expected) -> Result<()> {
        let server = if server == "plain" { &self.plain } else { &self.certified };
        let schema = fresh_schema();
        let file = |name: &str| {
            let path = self.files.path().join(format!("{name}.crt"));
            format!("sslrootcert={}", path.display())
        };
        let options = match options.split_once("sslrootcert=") {
            Some((before, name)) => format!("{before}{}", file(name)),
            None => options.to_owned(),
        };
        let url = server.url().replace("127.0.0.1", host);
        let url = format!("{url}?schema={schema}&application_name={schema}&{options}");
        let opened = open(&url, short_slots(), at(0));
        let words = match expected {
            Refused(words) => words,
            Encrypted | InTheClear => {
                let store = opened?;
                Owner::new(&store)?.commit(vec![put(1, 100)])?;
                let sql = format!(
                    "SELECT count(*) > 0 AND bool_and(ssl = {}) FROM pg_stat_ssl \
                     JOIN pg_stat_activity USING (pid) WHERE application_name = '{schema}'",
                    matches!(expected, Encrypted),
                );
                ensure!(server.sql(&sql)? == "t", "not spoken as expected");
                return Ok(());
            }
        };
        let error = opened.err().context("it was opened")?.to_string();
        ensure!(error.contains(words), "{error}");
        Ok(())
    }
}

/// Somebody who makes certificates.
struct Issuer {
    home: PathBuf,
    name: &'static str,
}

/// A key of its own, and no questions.
const KEY: [&str; 6] =
    ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-batch"];

impl Issuer {
    fn new(home: &Path, name: &'static str) -> Result<Self> {
        let (key, certificate) = (format!("{name}.key"), format!("{name}.crt"));
        let subject = format!("/CN={name}");
        let made = ["-days", "2", "-subj", &subject, "-keyout", &key, "-out", &certificate];
        openssl(home, &[&["req", "-x509"][..], &KEY, &made].concat())?;
        Ok(Issuer { home: home.to_path_buf(), name })
    }

    /// A certificate for a host, and its key.
    fn certify(&self, host: &str) -> Result<(Vec<u8>, Vec<u8>)> {
        let subject = format!("/CN={host}");
        let asked = ["-subj", &subject, "-keyout", "host.key", "-out", "host.csr"];
        openssl(&self.home, &[&["req"][..], &KEY, &asked].concat())?;
        std::fs::write(self.home.join("host.ext"), format!("subjectAltName = DNS:{host}\n"))?;
        let (key, certificate) = (format!("{}.key", self.name), format!("{}.crt", self.name));
        let signed = ["x509", "-req", "-days", "2", "-in", "host.csr", "-out", "host.crt"];
        let by = ["-CA", &certificate, "-CAkey", &key, "-CAcreateserial", "-extfile", "host.ext"];
        openssl(&self.home, &[&signed[..], &by].concat())?;
        let read = |name: &str| std::fs::read(self.home.join(name));
        Ok((read("host.crt")?, read("host.key")?))
    }
}

fn openssl(home: &Path, args: &[&str]) -> Result<()> {
    let out = Command::new(OPENSSL.need()?).args(args).current_dir(home).output()?;
    let said = String::from_utf8_lossy(&out.stderr);
    ensure!(out.status.success(), "openssl {}: {}", args.join(" "), said.trim());
    Ok(())
}
