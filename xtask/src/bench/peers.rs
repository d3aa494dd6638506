//! Other job libraries: packages of their own in `tests/bench/peers`, each with one program.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};

use crate::tool::{cargo, program};
use queue_test_servers::process::{self, command};
use queue_test_servers::{Engine, paths};

/// With its defaults, and with the best settings that it documents.
pub(crate) const VARIANTS: [&str; 2] = ["default", "best"];

/// A folder's `peer.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    engines: Vec<String>,
    workloads: Vec<String>,
    /// Whose versions in Cargo.lock are shown.
    #[serde(default)]
    crates: Vec<String>,
    /// Jobs that its drain takes, by variant. The programs know what the other workloads take.
    jobs: BTreeMap<String, u64>,
    /// In words, by variant.
    settings: BTreeMap<String, String>,
    /// How to start it, where it is not Rust.
    command: Option<Vec<String>>,
    /// Whose versions in package-lock.json are shown.
    #[serde(default)]
    packages: Vec<String>,
}

/// A peer.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) name: String,
    folder: PathBuf,
    manifest: Manifest,
    built: bool,
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
    for folder in paths::entries(&paths::workspace().join("tests/bench/peers")) {
        let path = folder.join("peer.toml");
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let manifest = toml::from_str(&text).with_context(|| format!("reading {}", path.display()))?;
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        peers.push(Peer { name, folder, manifest, built: false });
    }
    if let Some(name) = names.iter().find(|name| !peers.iter().any(|peer| peer.name == **name)) {
        let names: Vec<_> = peers.iter().map(|peer| peer.name.as_str()).collect();
        bail!("there is no peer `{name}`; there are: {}", names.join(", "));
    }
    peers.retain(|peer| names.is_empty() || names.contains(&peer.name));
    Ok(peers)
}

/// Builds those that serve one of the engines, and forgets the others.
pub(crate) fn build(peers: &mut Vec<Peer>, engines: &[Engine]) {
    peers.retain(|peer| engines.iter().any(|engine| peer.serves(*engine)));
    for peer in peers {
        println!("building {}", peer.name);
        match peer.build() {
            Ok(()) => peer.built = true,
            Err(error) => println!("{}: {error:#}", peer.name),
        }
    }
}

/// What all peers are built into.
fn target() -> PathBuf {
    paths::target().join("peers")
}

impl Peer {
    fn serves(&self, engine: Engine) -> bool {
        self.manifest.engines.iter().any(|name| name == engine.name())
    }

    pub(crate) fn offers(&self, engine: Engine, workload: &str) -> bool {
        self.serves(engine) && self.manifest.workloads.iter().any(|name| name == workload)
    }

    fn build(&self) -> Result<()> {
        if self.manifest.command.is_none() {
            let mut build = cargo(["build", "--release", "--quiet", "--manifest-path"]);
            build.arg(self.folder.join("Cargo.toml")).env("CARGO_TARGET_DIR", target());
            return process::run(build);
        }
        fs::create_dir_all(self.copy())?;
        for file in paths::entries(&self.folder).iter().filter(|path| path.is_file()) {
            // follows links
            fs::copy(file, self.copy().join(file.file_name().unwrap_or_default()))?;
        }
        let mut npm = program("npm", ["ci", "--silent", "--no-audit", "--no-fund"]);
        npm.current_dir(self.copy());
        process::run(npm)
    }

    /// In node, what is run is a copy, so that its packages do not come to lie in the source.
    fn copy(&self) -> PathBuf {
        target().join("node").join(&self.name)
    }

    pub(crate) fn command(&self, variant: &str, workload: &str) -> Result<Command> {
        ensure!(self.built, "it does not build");
        let mut run = match self.manifest.command.as_deref() {
            Some([program, args @ ..]) => {
                let mut run = command(program, None, Signal::SIGKILL);
                run.args(args).current_dir(self.copy());
                run
            }
            _ => command(target().join("release").join(format!("peer-{}", self.name)), None, Signal::SIGKILL),
        };
        let jobs = self.manifest.jobs.get(variant).filter(|_| workload.starts_with("drain"));
        run.args([variant, workload]).envs(jobs.map(|jobs| ("BENCH_JOBS", jobs.to_string())));
        Ok(run)
    }

    pub(crate) fn about(&self) -> About {
        let lock = |file: &str| fs::read_to_string(self.folder.join(file)).unwrap_or_default();
        let crates = self.manifest.crates.iter().map(|name| (name, crate_version(&lock("Cargo.lock"), name)));
        let packages = self.manifest.packages.iter();
        let packages = packages.map(|name| (name, package_version(&lock("package-lock.json"), name)));
        let versions = crates.chain(packages).filter_map(|(name, version)| Some(format!("{name} {}", version?)));
        About { versions: versions.collect::<Vec<_>>().join(", "), settings: self.manifest.settings.clone() }
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
