//! The oracle's process: a question and an answer are a line of JSON each.

use std::env;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context as _, Result, bail};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Where systems keep time zones, in the library's order.
const FOLDERS: [&str; 3] = ["/usr/share/zoneinfo", "/usr/share/lib/zoneinfo", "/etc/zoneinfo"];

/// The folder from which the library reads time zones.
fn zoneinfo() -> Result<PathBuf> {
    let named = env::var_os("TZDIR").map(PathBuf::from);
    let usual = FOLDERS.iter().map(PathBuf::from);
    match named.into_iter().chain(usual).find(|folder| folder.join("Europe/Berlin").exists()) {
        Some(folder) => Ok(folder),
        None => bail!("this machine has no {}: install time zones (Debian's package tzdata)", FOLDERS[0]),
    }
}

/// What the oracle needs and this machine lacks, if anything.
pub fn why_not() -> Option<String> {
    if let Err(error) = zoneinfo() {
        return Some(error.to_string());
    }
    let works = Command::new("python3").args(["-c", "import zoneinfo"]).stderr(Stdio::null()).status();
    let works = works.is_ok_and(|status| status.success());
    (!works).then(|| "there is no python3 with zoneinfo (3.9 or newer): install Debian's package python3".into())
}

/// The oracle.
#[derive(Debug)]
pub struct Python {
    child: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Python {
    /// Starts it, on the time zones of the library.
    ///
    /// # Errors
    /// There is no Python, or there are no time zones.
    pub fn start() -> Result<Self> {
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("python/oracle.py");
        let mut child = Command::new("python3")
            // leaves no compiled files among the sources
            .arg("-B")
            .arg(program)
            .arg("serve")
            .env("PYTHONTZPATH", zoneinfo()?)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("starting python3 (Debian's package python3)")?;
        let questions = child.stdin.take().context("the input of the oracle")?;
        let answers = BufReader::new(child.stdout.take().context("the output of the oracle")?);
        Ok(Self { child, questions, answers })
    }

    /// Asks it.
    ///
    /// # Errors
    /// It ended, which it tells on standard error, or answers something else.
    pub fn ask<A: DeserializeOwned>(&mut self, question: &impl Serialize) -> Result<A> {
        let mut line = serde_json::to_string(question)?;
        let context = format!("the oracle, asked for {}", line.chars().take(80).collect::<String>());
        line.push('\n');
        self.questions.write_all(line.as_bytes()).with_context(|| context.clone())?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer).with_context(|| context.clone())?;
        serde_json::from_str(&answer).with_context(|| context)
    }
}

impl Drop for Python {
    fn drop(&mut self) {
        // it has nothing to lose
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
