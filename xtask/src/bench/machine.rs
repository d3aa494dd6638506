//! What was measured on, and when.

use std::fs;
use std::process::Command;

fn first_line(program: &str, args: &[&str]) -> Option<String> {
    let output = Command::new(program).args(args).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).lines().next()?.trim().to_owned();
    (!text.is_empty()).then_some(text)
}

/// Cores, memory, compiler.
pub(crate) fn describe() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib: f64 = meminfo.split_whitespace().nth(1).and_then(|text| text.parse().ok()).unwrap_or(0.0);
    let rustc = first_line("rustc", &["--version"]).unwrap_or_default();
    format!("{cores} cores, {:.0} GiB of memory, client and server on one machine. {rustc}.", kib / 1024.0 / 1024.0)
}

/// Today, in the form 2024-02-29.
pub(crate) fn today() -> String {
    first_line("date", &["--utc", "+%F"]).unwrap_or_default()
}
