//! One run of a program that measures: its time is limited, and its last line is JSON.

use std::io::{Read as _, Seek as _};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use nix::sys::signal::Signal;
use serde_json::Value;

use queue_test_servers::process::{Supervised, TICK, check_interrupted, tail};

/// The exit code of a peer that does not offer the workload.
const NOT_OFFERED: i32 = 3;

/// The figures; `null` if there are none.
pub(crate) fn run(mut command: Command, limit: Duration) -> Result<Value> {
    let (mut output, mut errors) = (tempfile::tempfile()?, tempfile::tempfile()?);
    // in a message, the cause is the last line
    command.env("RUST_BACKTRACE", "0");
    command.stdout(output.try_clone()?).stderr(errors.try_clone()?);
    let mut child = Supervised::spawn(command, Signal::SIGKILL)?;
    let end = Instant::now() + limit;
    let status = loop {
        if let Some(status) = child.ended()? {
            break status;
        }
        if Instant::now() > end {
            drop(child);
            bail!("not done after {} s", limit.as_secs());
        }
        check_interrupted()?;
        sleep(TICK);
    };
    let text = |file: &mut std::fs::File| {
        let mut text = Vec::new();
        file.rewind().and_then(|()| file.read_to_end(&mut text)).context("reading what it wrote")?;
        anyhow::Ok(String::from_utf8_lossy(&text).into_owned())
    };
    if status.code() == Some(NOT_OFFERED) {
        return Ok(Value::Null);
    }
    if !status.success() {
        bail!("{status}: {}", tail(&text(&mut errors)?));
    }
    let text = text(&mut output)?;
    let line = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("null");
    serde_json::from_str(line).with_context(|| format!("reading `{line}`"))
}
