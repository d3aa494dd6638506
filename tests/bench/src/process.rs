//! CPU time and memory of processes, as Linux counts them.

use std::fs;

/// Clock ticks a second in `/proc`, the same on every Linux that Rust's standard library runs on.
const TICKS: f64 = 100.0;

/// The fields of `/proc/PID/stat` behind the program's name, which may hold spaces; `state` is the first.
fn stat(pid: u32) -> Option<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = text.rsplit_once(") ")?;
    Some(fields.split_whitespace().map(str::to_owned).collect())
}

fn number(fields: &[String], at: usize) -> f64 {
    fields.get(at).and_then(|text| text.parse().ok()).unwrap_or(0.0)
}

fn pids() -> impl Iterator<Item = u32> {
    fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Seconds of CPU that this process has used.
pub(crate) fn own_cpu() -> f64 {
    stat(std::process::id()).map_or(0.0, |fields| (number(&fields, 11) + number(&fields, 12)) / TICKS)
}

/// The local server that listens on the port of `url`; none for SQLite, or when the server is elsewhere.
pub(crate) fn server(url: &str) -> Option<u32> {
    let address = url.split("://").nth(1)?.split('/').next()?;
    let port = address.rsplit_once(':')?.1.to_owned();
    let wanted = format!("--port={port}");
    pids().find(|pid| {
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        words.split(|byte| *byte == 0).any(|word| word == wanted.as_bytes())
    })
}

/// Seconds of CPU of a server: its own, those of its processes that have ended, and those of its running ones.
pub(crate) fn server_cpu(server: Option<u32>) -> Option<f64> {
    let server = server?;
    let root = stat(server)?;
    let mut ticks: f64 = (11..=14).map(|at| number(&root, at)).sum();
    for fields in pids().filter_map(stat).filter(|fields| number(fields, 1) as u32 == server) {
        ticks += number(&fields, 11) + number(&fields, 12);
    }
    Some(ticks / TICKS)
}

/// Memory of a process in MiB: `VmRSS` (now) or `VmHWM` (the most so far).
pub(crate) fn memory(pid: u32, line: &str) -> Option<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let kib: f64 = status
        .lines()
        .find_map(|it| it.strip_prefix(line)?.trim_start_matches(':').split_whitespace().next()?.parse().ok())?;
    Some(kib / 1024.0)
}
