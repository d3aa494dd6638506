//! The user that the servers run as.

use std::os::unix::fs::chown;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use nix::unistd::{Gid, Uid, User};

/// A user other than the one that runs this command.
#[derive(Clone, Debug)]
pub struct Account {
    pub(crate) uid: Uid,
    pub(crate) gid: Gid,
}

impl Account {
    /// `None` when the servers can run as the current user. PostgreSQL and MySQL refuse to run as root, so root gets
    /// the first of these users that exists.
    pub(crate) fn for_server(preferred: &str) -> Result<Option<Account>> {
        if !is_root() {
            return Ok(None);
        }
        for name in [preferred, "nobody"] {
            if let Some(user) = User::from_name(name).with_context(|| format!("looking up the user {name}"))? {
                return Ok(Some(Account { uid: user.uid, gid: user.gid }));
            }
        }
        bail!("database servers refuse to run as root, and there is neither a user `{preferred}` nor `nobody`")
    }

    /// Makes the user the owner of a file or folder.
    ///
    /// # Errors
    /// When only root could do it.
    pub fn own(&self, path: &Path) -> Result<()> {
        chown(path, Some(self.uid.as_raw()), Some(self.gid.as_raw()))
            .with_context(|| format!("giving {} to the user {}", path.display(), self.uid))
    }
}

/// Whether this command runs as root.
pub fn is_root() -> bool {
    Uid::effective().is_root()
}
