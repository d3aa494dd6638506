//! Other job libraries: packages of their own in `tests/bench/peers`, each with one program.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::rc::Rc;

use anyhow::{Context as _, Result, bail, ensure};
use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};

use queue_test_servers::Engine;
use queue_test_servers::paths::{self, entries};
use queue_test_servers::process::command;
use queue_test_servers::programs::in_path;

/// With its defaults, and with the best settings that it documents.
pub(crate) const VARIANTS: [&str; 2] = ["default", "best"];
/// Jobs of a bulk enqueue, and of a drain where the peer says nothing.
const MANY: u64 = 50_000;

/// A folder's `peer.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    engines: Vec<String>,
    workloads: Vec<String>,
    /// Whose versions in Cargo.lock are shown.
    #[serde(default)]
    crates: Vec<String>,
    /// Jobs that its drain takes, by variant.
    #[serde(default)]
    jobs: BTreeMap<String, u64>,
    /// In words, by variant.
    #[serde(default)]
    settings: BTreeMap<String, String>,
    /// A program that must be there.
    needs: Option<String>,
    /// How to start it, where it is not Rust.
    command: Option<Vec<String>>,
    /// Whose versions in package-lock.json are shown.
    #[serde(default)]
    packages: Vec<String>,
}

/// A peer.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) name: String,
    folder: PathBuf,
    manifest: Rc<Manifest>,
}

/// What the page says of a peer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct About {
    pub(crate) versions: String,
    pub(crate) settings: BTreeMap<String, String>,
}

/// Those asked for, or all.
pub(crate) fn find(names: &[String]) -> Result<Vec<Peer>> {
    let mut peers = Vec::new();
    for folder in entries(&paths::workspace().join("tests/bench/peers")) {
        let path = folder.join("peer.toml");
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let manifest: Manifest = toml::from_str(&text).with_context(|| format!("reading {}", path.display()))?;
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        peers.push(Peer { name, folder, manifest: Rc::new(manifest) });
    }
    if let Some(name) = names.iter().find(|name| !peers.iter().any(|peer| peer.name == **name)) {
        let names: Vec<_> = peers.iter().map(|peer| peer.name.as_str()).collect();
        bail!("there is no peer `{name}`; there are: {}", names.join(", "));
    }
    peers.retain(|peer| names.is_empty() || names.contains(&peer.name));
    Ok(peers)
}

/// Builds those that serve one of the engines. Returns what could not be built with the reason.
pub(crate) fn build(peers: Vec<Peer>, engines: &[Engine]) -> (Vec<Peer>, Vec<(Peer, String)>) {
    let (mut built, mut failed) = (Vec::new(), Vec::new());
    for peer in peers {
        if !engines.iter().any(|engine| peer.serves(*engine)) {
            continue;
        }
        println!("building {}", peer.name);
        match peer.build() {
            Ok(()) => built.push(peer),
            Err(error) => {
                println!("{}: {error:#}", peer.name);
                failed.push((peer, format!("{error:#}")));
            }
        }
    }
    (built, failed)
}

/// What all peers are built into.
fn target() -> PathBuf {
    paths::target().join("peers")
}

impl Peer {
    pub(crate) fn serves(&self, engine: Engine) -> bool {
        self.manifest.engines.iter().any(|name| name == engine.name())
    }

    pub(crate) fn offers(&self, engine: Engine, workload: &str) -> bool {
        self.serves(engine) && self.manifest.workloads.iter().any(|name| name == workload)
    }

    pub(crate) fn workloads(&self) -> &[String] {
        &self.manifest.workloads
    }

    /// How many jobs the workload takes.
    pub(crate) fn jobs(&self, variant: &str, workload: &str) -> u64 {
        let own = self.manifest.jobs.get(variant).filter(|_| workload.starts_with("drain"));
        own.copied().unwrap_or(MANY)
    }

    fn build(&self) -> Result<()> {
        if let Some(program) = self.manifest.needs.as_deref()
            && !in_path(program)
        {
            bail!("{program} is not there");
        }
        if self.manifest.command.is_some() {
            return self.install();
        }
        let status = Command::new("cargo")
            .args(["build", "--release", "--quiet", "--manifest-path"])
            .arg(self.folder.join("Cargo.toml"))
            .env("CARGO_TARGET_DIR", target())
            .status()
            .context("running cargo")?;
        ensure!(status.success(), "it does not build");
        Ok(())
    }

    /// In node, what is run is a copy, so that its packages do not come to lie in the source.
    fn copy(&self) -> PathBuf {
        target().join("node").join(&self.name)
    }

    fn install(&self) -> Result<()> {
        let copy = self.copy();
        fs::create_dir_all(&copy)?;
        for file in entries(&self.folder).iter().filter(|path| path.is_file()) {
            // follows links
            fs::copy(file, copy.join(file.file_name().unwrap_or_default()))?;
        }
        if copy.join("package-lock.json").is_file() {
            let status =
                Command::new("npm").args(["ci", "--silent", "--no-audit", "--no-fund"]).current_dir(&copy).status();
            ensure!(status.context("running npm")?.success(), "npm could not install its packages");
        }
        Ok(())
    }

    pub(crate) fn command(&self, variant: &str, workload: &str) -> Command {
        let mut run = match self.manifest.command.as_deref() {
            Some([program, args @ ..]) => {
                let mut run = command(program, None, Signal::SIGKILL);
                run.args(args).current_dir(self.copy());
                run
            }
            _ => command(target().join("release").join(format!("peer-{}", self.name)), None, Signal::SIGKILL),
        };
        run.args([variant, workload]);
        run
    }

    pub(crate) fn about(&self) -> About {
        let locked = |file: &str, names: &[String], find: fn(&str, &str) -> Option<String>| {
            let text = fs::read_to_string(self.folder.join(file)).unwrap_or_default();
            names.iter().filter_map(|name| Some(format!("{name} {}", find(&text, name)?))).collect::<Vec<_>>()
        };
        let mut versions = locked("Cargo.lock", &self.manifest.crates, crate_version);
        versions.extend(locked("package-lock.json", &self.manifest.packages, package_version));
        About { versions: versions.join(", "), settings: self.manifest.settings.clone() }
    }
}

fn crate_version(lock: &str, name: &str) -> Option<String> {
    let (_, rest) = lock.split_once(&format!("name = \"{name}\"\nversion = \""))?;
    Some(rest.split('"').next()?.to_owned())
}

fn package_version(lock: &str, name: &str) -> Option<String> {
    let lock: serde_json::Value = serde_json::from_str(lock).ok()?;
    Some(lock["packages"][format!("node_modules/{name}")]["version"].as_str()?.to_owned())
}

impl std::fmt::Display for Peer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::{Manifest, crate_version, find};

    #[test]
    fn a_manifest_is_read() {
        let text = "engines = [\"postgres\"]\nworkloads = [\"drain\"]\n[jobs]\nbest = 9\n[settings]\nbest = \"all\"\n";
        let manifest: Manifest = toml::from_str(text).expect("it is complete");
        assert_eq!((manifest.jobs["best"], manifest.settings["best"].as_str()), (9, "all"));
        find(&[]).expect("every peer.toml is sound");
    }

    #[test]
    fn versions_are_found() {
        let lock = "[[package]]\nname = \"awa\"\nversion = \"0.6.9\"\n";
        assert_eq!(crate_version(lock, "awa").as_deref(), Some("0.6.9"));
    }
}
