//! The scripts by which a Galera node hands its state to another one.
//!
//! They are in the package `mariadb-server`, which also sets up and starts a server of the machine's own. So it is
//! downloaded and unpacked into a folder of ours, and not installed.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use nix::sys::signal::Signal;

use crate::paths::{self, entries};
use crate::process;
use crate::programs::{in_path, is_program};

const SCRIPT: &str = "wsrep_sst_rsync";

/// The folder with the scripts, unpacked first if the machine has none.
pub(crate) fn folder() -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    if let Some(folder) = std::env::split_paths(&path).find(|folder| is_program(&folder.join(SCRIPT))) {
        return Ok(folder);
    }
    let cache = paths::cache("galera")?;
    let _lock = paths::lock(&cache)?;
    let folder = cache.join("root/usr/bin");
    if !is_program(&folder.join(SCRIPT)) {
        for program in ["apt-get", "dpkg"] {
            if !in_path(program) {
                bail!("Galera's scripts ({SCRIPT}) are not in PATH, and this machine has no {program} to fetch them");
            }
        }
        unpack(&cache).context("fetching Galera's scripts out of the package mariadb-server")?;
    }
    Ok(folder)
}

fn unpack(cache: &Path) -> Result<()> {
    // Emptied first: what was cut off must not be mistaken for the whole.
    let work = cache.join("work");
    let _ = fs::remove_dir_all(&work);
    paths::create_open(&work)?;
    let mut download = process::command("apt-get", None, Signal::SIGTERM);
    // As root it would download as another user, who may not write here.
    download.args(["-qq", "-o", "APT::Sandbox::User=root", "-o", "Acquire::Retries=3", "download", "mariadb-server"]);
    download.current_dir(&work);
    process::run(download)?;
    let package = entries(&work).into_iter().find(|path| path.extension().is_some_and(|it| it == "deb"));
    let mut extract = process::command("dpkg", None, Signal::SIGTERM);
    extract.arg("--extract").arg(package.context("apt-get downloaded no package")?).arg(work.join("root"));
    process::run(extract)?;
    let _ = fs::remove_dir_all(cache.join("root"));
    fs::rename(work.join("root"), cache.join("root")).context("moving the scripts into place")?;
    let _ = fs::remove_dir_all(&work);
    Ok(())
}
