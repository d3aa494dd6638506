//! Where things are kept.

use std::env;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::account::is_root;

/// The root of the workspace.
pub fn workspace() -> PathBuf {
    // The variable that cargo sets when it runs a program follows a checkout that was moved; the constant does not.
    let package = env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
    package.ancestors().find(|folder| folder.join("Cargo.lock").is_file()).map_or(package.clone(), Path::to_path_buf)
}

/// Cargo's target folder.
pub fn target() -> PathBuf {
    workspace().join(env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from))
}

/// The folder of the running servers.
pub fn servers() -> PathBuf {
    target().join("servers")
}

/// The folder for programs that are downloaded once, which every user may enter.
///
/// # Errors
/// When it cannot be created.
pub fn cache(name: &str) -> Result<PathBuf> {
    let mut path = target().join(name);
    create_open(&path)?;
    if is_root() && !is_open(&path) {
        // The server runs as another user, who could not read a checkout in root's home.
        path = format!("/var/cache/queue-{name}").into();
        create_open(&path)?;
    }
    Ok(path)
}

/// Creates a folder that every user may enter, whatever the umask says.
///
/// # Errors
/// When it cannot be created.
pub fn create_open(path: &Path) -> Result<()> {
    fs::create_dir_all(path)
        .and_then(|()| fs::set_permissions(path, Permissions::from_mode(0o755)))
        .with_context(|| format!("creating {}", path.display()))
}

/// Whether every user can reach the path: a checkout below `/root`, for one, is closed to the servers' user.
pub fn is_open(path: &Path) -> bool {
    path.ancestors().all(|folder| fs::metadata(folder).map_or(true, |it| it.permissions().mode() & 0o001 != 0))
}

/// Waits for the lock of a folder, so that two commands at once do not do the same work twice. Held until dropped.
///
/// # Errors
/// When the lock cannot be taken.
pub fn lock(folder: &Path) -> Result<File> {
    let path = folder.join("lock");
    let file = File::create(&path).with_context(|| format!("creating {}", path.display()))?;
    file.lock().with_context(|| format!("locking {}", path.display()))?;
    Ok(file)
}

/// What is in a folder, in order; nothing if it cannot be read.
pub fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<_> = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths
}
