//! One run of a program that measures: its time is limited, and its last line is JSON.

use std::fs;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use nix::sys::signal::Signal;
use serde_json::Value;
use tempfile::NamedTempFile;

use queue_test_servers::process::{Supervised, TICK, check_interrupted, tail};

/// The exit code of a peer that does not offer the workload.
const NOT_OFFERED: i32 = 3;

/// The figures; `null` if there are none.
pub(crate) fn run(mut command: Command, limit: Duration) -> Result<Value> {
    let (output, errors) = (NamedTempFile::new()?, NamedTempFile::new()?);
    // in a message, the cause is the last line
    command.env("RUST_BACKTRACE", "0");
    command.stdout(output.reopen()?).stderr(errors.reopen()?);
    let mut child = Supervised::spawn(command, Signal::SIGKILL)?;
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.ended()? {
            break status;
        }
        ensure!(start.elapsed() < limit, "not done after {} s", limit.as_secs());
        check_interrupted()?;
        sleep(TICK);
    };
    if status.code() == Some(NOT_OFFERED) {
        return Ok(Value::Null);
    }
    let text = |file: NamedTempFile| anyhow::Ok(String::from_utf8_lossy(&fs::read(file)?).into_owned());
    ensure!(status.success(), "{status}: {}", tail(&text(errors)?));
    let text = text(output)?;
    let line = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("null");
    serde_json::from_str(line).with_context(|| format!("reading `{line}`"))
}
