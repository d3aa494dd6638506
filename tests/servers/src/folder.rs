//! The folder of one server.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context as _, Result};

use crate::account::Account;
use crate::engine::Engine;
use crate::{paths, process};

/// The folder of one server, removed when dropped.
#[derive(Debug)]
pub(crate) struct Folder(PathBuf);

/// Of this process, so that it may have several servers of an engine.
static NUMBER: AtomicU32 = AtomicU32::new(0);

impl Folder {
    pub(crate) fn create(engine: Engine, account: Option<&Account>, place: Option<&Path>) -> Result<Folder> {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}-{number}-{}", engine.name(), std::process::id());
        let servers = place.map_or_else(paths::servers, Path::to_path_buf);
        let _ = fs::create_dir_all(&servers);
        let mut path = servers.join(name);
        if account.is_some() && place.is_none() && !paths::is_open(&servers) {
            path = tempfile::Builder::new().prefix("queue-").tempdir().context("creating a temporary folder")?.keep();
        }
        paths::create_open(&path)?;
        let folder = Folder(path);
        paths::create_open(&folder.temporary())?;
        if let Some(account) = account {
            account.own(&folder.0)?;
            account.own(&folder.temporary())?;
        }
        Ok(folder)
    }

    /// For the server's temporary files. One folder for several servers would not do: MariaDB removes at its start what
    /// another one has just made.
    pub(crate) fn temporary(&self) -> PathBuf {
        self.0.join("tmp")
    }

    /// Where the server keeps its data. Made by the server's own tool.
    pub(crate) fn data(&self) -> PathBuf {
        self.0.join("data")
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.0.join("server.log")
    }

    pub(crate) fn log_text(&self) -> String {
        fs::read(self.log()).map(|text| String::from_utf8_lossy(&text).into_owned()).unwrap_or_default()
    }

    pub(crate) fn log_tail(&self) -> String {
        process::tail(&self.log_text())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Removes what commands that were killed could not remove themselves.
pub(crate) fn remove_leftovers() {
    for entry in fs::read_dir(paths::servers()).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.rsplit_once('-')?.1.parse().ok());
        if pid.is_some_and(|pid: u32| process::words(pid).is_empty()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
