//! Programs out of Debian's unstable suite, on a machine that runs another release.
//!
//! Nothing is installed, and the machine's apt is not touched: apt gets a source list, a state and a cache of its own,
//! in which nothing counts as installed, so that it fetches a package with every library down to the C library, and
//! checks their signatures. They are unpacked side by side into a cache folder and reused until that folder is removed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use nix::sys::signal::Signal;

use crate::paths::{self, entries};
use crate::process;
use crate::programs::in_path;
use crate::sources;

/// A package, and what is said of it.
pub(crate) struct Package {
    pub(crate) name: &'static str,
    /// Of the cache folder.
    pub(crate) folder: &'static str,
    pub(crate) megabytes: u32,
    /// What to do where it cannot be had.
    pub(crate) cure: &'static str,
}

/// A program of it, and what it needs to run on this machine.
pub(crate) struct Unpacked {
    pub(crate) root: PathBuf,
    /// The dynamic loader that belongs to the libraries.
    pub(crate) loader: PathBuf,
    pub(crate) libraries: PathBuf,
    pub(crate) program: PathBuf,
}

/// What is in the cache, fetched first if it is not there.
pub(crate) fn fetch(package: &Package, program: &str) -> Result<Unpacked> {
    let cache = paths::cache(package.folder)?;
    let _lock = paths::lock(&cache)?;
    let root = cache.join("root");
    if let Ok(found) = Unpacked::find(&root, program) {
        return Ok(found);
    }
    let Package { name, megabytes, cure, .. } = package;
    for tool in ["apt-get", "dpkg"] {
        if !in_path(tool) {
            bail!("{name} comes from Debian's packages, and this machine has no {tool}: {cure}");
        }
    }
    let place = cache.display();
    eprintln!("downloading {name} from Debian's unstable suite (about {megabytes} MB, kept in {place}) ...");
    download(name, &cache, &root).with_context(|| format!("{name} could not be downloaded; {cure}"))?;
    Unpacked::find(&root, program)
}

impl Unpacked {
    fn find(root: &Path, program: &str) -> Result<Unpacked> {
        let libraries = entries(&root.join("usr/lib"))
            .into_iter()
            .find(|folder| loader(folder).is_some())
            .with_context(|| format!("{} has no dynamic loader", root.display()))?;
        let found = Unpacked {
            root: root.into(),
            loader: loader(&libraries).context("no dynamic loader")?,
            libraries,
            program: root.join(program),
        };
        match found.program.is_file() {
            true => Ok(found),
            false => bail!("{} is missing", found.program.display()),
        }
    }

    /// The first arguments of the loader, up to the program's own: its libraries, the C library included, since those
    /// of the machine are older than it wants.
    pub(crate) fn args(&self) -> Vec<String> {
        let path = |path: &Path| path.display().to_string();
        vec!["--library-path".into(), path(&self.libraries), path(&self.program)]
    }
}

/// `ld-linux-x86-64.so.2`, or what another architecture calls it.
fn loader(folder: &Path) -> Option<PathBuf> {
    if !folder.to_str()?.ends_with("-linux-gnu") {
        return None;
    }
    entries(folder).into_iter().find(|path| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with("ld-linux") && name.contains(".so.")
    })
}

fn download(package: &str, cache: &Path, root: &Path) -> Result<()> {
    let mut failure = anyhow::anyhow!("no Debian mirror in /etc/apt/sources.list or /etc/apt/sources.list.d");
    for source in sources::mirrors().iter().map(sources::Source::unstable) {
        match download_from(&source, package, cache, root) {
            Err(error) if !error.is::<process::Interrupted>() => failure = error.context(source),
            result => return result,
        }
    }
    Err(failure)
}

fn download_from(source: &str, package: &str, cache: &Path, root: &Path) -> Result<()> {
    // Emptied first: a download that was cut off must not be mistaken for a whole one.
    let work = cache.join("work");
    let _ = fs::remove_dir_all(&work);
    for folder in ["state/lists/partial", "cache/archives/partial", "root"] {
        paths::create_open(&work.join(folder))?;
    }
    fs::write(work.join("sources.list"), source)?;
    fs::write(work.join("state/status"), "")?;

    process::run(apt_get(&work, &["update"]))?;
    process::run(apt_get(&work, &["install", "--yes", "--no-install-recommends", "--download-only", package]))?;
    for package in entries(&work.join("cache/archives")) {
        let name = package.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        // Perl is for scripts beside the programs.
        if !name.ends_with(".deb") || name.starts_with("perl") || name.starts_with("libperl") {
            continue;
        }
        let mut dpkg = process::command("dpkg", None, Signal::SIGTERM);
        dpkg.arg("--extract").arg(&package).arg(work.join("root"));
        process::run(dpkg)?;
    }
    let _ = fs::remove_dir_all(root);
    fs::rename(work.join("root"), root).context("moving what was unpacked into place")?;
    let _ = fs::remove_dir_all(&work);
    Ok(())
}

fn apt_get(work: &Path, words: &[&str]) -> Command {
    let mut command = process::command("apt-get", None, Signal::SIGTERM);
    command.args(words).arg("-qq");
    let mut set = |name: &str, value: &str| {
        command.args(["-o", &format!("{name}={value}")]);
    };
    let path = |name: &str| work.join(name).display().to_string();
    set("Dir::Etc::sourcelist", &path("sources.list"));
    set("Dir::Etc::sourceparts", "-");
    set("Dir::Etc::preferences", "-");
    set("Dir::Etc::preferencesparts", "-");
    set("Dir::State", &path("state"));
    set("Dir::State::status", &path("state/status"));
    set("Dir::Cache", &path("cache"));
    set("Acquire::Retries", "5");
    // Some mirrors are frozen on purpose. Signatures are checked all the same.
    set("Acquire::Check-Valid-Until", "false");
    set("Acquire::Check-Date", "false");
    set("Acquire::Languages", "none");
    set("Acquire::IndexTargets::deb::DEP-11::DefaultEnabled", "false");
    // The user `_apt` may not be allowed into the folder, and everyone but root lacks the right to change to it.
    set("APT::Sandbox::User", "root");
    // The lock it would take is the one of the machine's own dpkg.
    set("Debug::NoLocking", "true");
    command
}
