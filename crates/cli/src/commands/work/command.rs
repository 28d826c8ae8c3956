//! Whether the command can be run at all. Asked before the first job is taken: a wrong path must
//! not cost anybody an attempt.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use crate::failure::{Exit, Failure};

/// Where programs are looked for when nobody says: what the C library does.
const PATH_DEFAULT: &str = "/bin:/usr/bin";

/// Refuses a command that is not there or may not be run. What only shows when it is started, such
/// as a missing interpreter, is found then.
pub(super) fn check(program: &OsStr) -> Result<(), Failure> {
    find(program, std::env::var_os("PATH"))
}

fn find(program: &OsStr, path: Option<OsString>) -> Result<(), Failure> {
    let problem = |why: &str, fix: &str| {
        let message = format!("cannot run {}: {why}", program.to_string_lossy());
        Err(Failure::new(Exit::Usage, message).fix(fix))
    };
    let candidates = if program.as_bytes().contains(&b'/') {
        vec![PathBuf::from(program)]
    } else {
        let path = path.unwrap_or_else(|| PATH_DEFAULT.into());
        std::env::split_paths(&path).map(|directory| directory.join(program)).collect()
    };
    let files: Vec<&Path> =
        candidates.iter().map(PathBuf::as_path).filter(|path| path.is_file()).collect();
    if files.iter().any(|file| access(*file, Access::EXEC_OK).is_ok()) {
        return Ok(());
    }
    match files.first() {
        Some(file) => {
            problem("it is not executable", &format!("chmod +x {}", file.to_string_lossy()))
        }
        None if candidates.iter().any(|path| path.is_dir()) => {
            problem("it is a directory", "name the program in it")
        }
        None if candidates.len() == 1 => {
            problem("there is no such file", "correct the path after --")
        }
        None => problem(
            "it is in no directory of PATH",
            "correct the name after --, or say where it is",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn only_what_can_be_run_is_found() {
        let directory = tempfile::tempdir().unwrap();
        for (name, mode) in [("runs", 0o755), ("plain", 0o644)] {
            let file = directory.path().join(name);
            std::fs::write(&file, "#!/bin/sh\n").unwrap();
            std::fs::set_permissions(&file, PermissionsExt::from_mode(mode)).unwrap();
        }
        std::fs::create_dir(directory.path().join("inner")).unwrap();
        let there = |name: &str| directory.path().join(name).into_os_string();
        let rows: [(OsString, &str); 9] = [
            (there("runs"), ""),
            ("runs".into(), ""),
            (there("plain"), "not executable"),
            ("plain".into(), "not executable"),
            (there("inner"), "a directory"),
            ("inner".into(), "a directory"),
            (there("missing"), "no such file"),
            ("missing".into(), "in no directory of PATH"),
            ("".into(), "a directory"),
        ];
        for (program, expected) in rows {
            let path = std::env::join_paths(["/nonexistent".as_ref(), directory.path()]).unwrap();
            match find(&program, Some(path)) {
                Ok(()) => assert_eq!(expected, "", "{}", program.display()),
                Err(failure) => {
                    assert!(!expected.is_empty(), "{}", failure.message);
                    assert!(failure.message.contains(expected), "{}", failure.message);
                    assert_eq!(failure.exit, Exit::Usage);
                }
            }
        }
    }
}
