//! A certificate for a server, and the authority that it is signed by: made for one test.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::install::OPENSSL;
use crate::template;

/// An authority of its own, and a server's certificate. Gone with this value.
#[derive(Debug)]
pub struct Certificates {
    home: TempDir,
}

impl Certificates {
    /// For a server under this name.
    pub fn for_host(name: &str) -> Result<Self> {
        let home = tempfile::Builder::new().prefix("hence-tls-").tempdir()?;
        let openssl = OPENSSL.need()?;
        let run = |args: &str| {
            let mut command = Command::new(&openssl);
            // Everything is named by its full path: commands are run elsewhere.
            let at = |arg: &str| match arg.strip_prefix("./") {
                Some(file) => home.path().join(file).into_os_string(),
                None => arg.into(),
            };
            template::run(command.args(args.split(' ').map(at)))
        };
        let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout";
        run(&format!("req -x509 {key} ./authority.key -out ./authority.pem -subj /CN=authority"))?;
        run(&format!("req -new {key} ./server.key -out ./request.pem -subj /CN={name}"))?;
        let extension = home.path().join("extension");
        fs::write(extension, format!("subjectAltName=DNS:{name}\n"))?;
        run("x509 -req -in ./request.pem -CA ./authority.pem -CAkey ./authority.key \
             -CAcreateserial -extfile ./extension -out ./server.pem")?;
        // The server runs as somebody else.
        for (path, mode) in
            [(home.path().to_path_buf(), 0o755), (home.path().join("server.key"), 0o644)]
        {
            open_up(&path, mode)?;
        }
        Ok(Certificates { home })
    }

    /// What a client is to trust.
    pub fn authority(&self) -> PathBuf {
        self.home.path().join("authority.pem")
    }

    /// The server's certificate.
    pub fn certificate(&self) -> PathBuf {
        self.home.path().join("server.pem")
    }

    /// The server's key.
    pub fn key(&self) -> PathBuf {
        self.home.path().join("server.key")
    }
}

fn open_up(path: &Path, mode: u32) -> Result<()> {
    fs::set_permissions(path, Permissions::from_mode(mode))
        .with_context(|| format!("letting others read {}", path.display()))
}
