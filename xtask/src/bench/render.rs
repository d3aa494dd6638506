//! docs/benchmarks.md, out of the record.

use std::fmt::Write as _;

use anyhow::{Context as _, Result};

use super::numbers::{Spread, short};
use super::peers::VARIANTS;
use super::record::{PeerRow, Record, Row};
use super::workload::{Beside, Better, Figure, find};
use queue_test_servers::Engine;

/// How everything is measured.
const HEAD: &str = "# Benchmarks

Written by `cargo xtask bench`. Payload `{\"n\": i64, \"s\": 32 characters}`. Medians over the rounds, with minimum and
maximum. Read differences under 25 % as none, and compare only within one run: the ratio is what counts.

## How it is measured

- **Servers**: started by the command, with the settings that they come with; only the address and 500 allowed connections
  are set. Durability on: PostgreSQL `fsync` and `synchronous_commit`, MySQL and MariaDB
  `innodb_flush_log_at_trx_commit = 1` (MySQL with its binary log), SQLite with a write-ahead log and its default
  `synchronous = FULL`. Client and server share the machine.
- **In turn**: a round is every workload on every engine, the sides one after the other: the floor, ours, each peer with its
  defaults and with its best settings. Each run is a process of its own on a database made anew; nothing is warmed up unless
  said.
- **The floor**: hand-written statements that do the same on the same server, rows of the plainest table that a queue needs
  (one index), finished ones moved to a history table. Single enqueues: a prepared INSERT on each of 1 or 16 connections; on
  SQLite 16 tasks hand their rows to one that commits what waits. In the caller's transaction: begin, INSERT and commit
  through a pool of sqlx, as on our side. Bulk: UNNEST (PostgreSQL), INSERT of 1,000 rows in one transaction (MySQL, MariaDB),
  `json_each` of 5,000 (SQLite). Drain: claim 500, then delete them and write their history rows; two connections (SQLite:
  one). Pick-up: INSERT with NOTIFY, the listener claims (PostgreSQL); elsewhere nothing tells a client of a new row, so the
  claim follows at once on a second connection (on SQLite without forcing it to the disk, as on our side).
- **Ours**: the defaults, pools of sqlx's default size. Concurrency 32, unless the workload says another.
- **Single enqueues** are counted for 3 s. **Drain**: 50,000 jobs wait; from the start of the worker to the moment at which
  the database has recorded all of them.
- **Processes** (`drain-1`, `drain-4`, `drain-16`): the workers are up and have been idle for a second when 50,000 jobs are
  enqueued at once; from the first start of a job to the last end, by the database's clock.
- **Pick-up**: 200 jobs, one every 50 ms, two connections of the producer opened before; from the enqueue call to the first
  line of the handler. **Far** (`pickup-far`, servers only): through a proxy that holds every byte back, so that a round trip
  takes 0.5 ms more; before it the same locally. How many round trips more: the difference of the medians by 0.5 ms.
  **Queues** (`pickup-queues`): a worker with four limited queues; 48 jobs, each on another queue than the last, one about every 0.6 s.
- **Idle**: statements that sqlx logs in the worker's process (no BEGIN or COMMIT), from one second after its start, and again
  from 75 s after (half as long). What the server counts, its transactions (PostgreSQL) or statements (MySQL, MariaDB),
  stands beside it; peers are compared by that. CPU as Linux counts it, of the process and of the server with all its processes.
- **Beside much else** (`drain-…`): the rows are written by SQL, once for all rounds; then VACUUM ANALYZE and CHECKPOINT, ANALYZE
  TABLE and a pause until the pages are written, or a checkpoint. Then 50,000 jobs are enqueued
  and drained; in `drain-ready` with a date that puts them before the others of their lane. The ratio is to `drain` of the
  same run.
- **Closed loop**: in the worker's process, two tasks enqueue 500 at a time whenever fewer than 5,000 would wait; the handler sleeps
  for 1 ms. The first 2 s are not counted. Jobs by the database's dates of completion; times from the enqueue call to the
  end of the handler. **Paced**: the same jobs arrive in groups, one every 5 ms, whether or not earlier ones are
  written; times from the moment at which a group was due, which a thread of its own tells. The floor of it is a worker by
  hand: a connection for each of INSERT, claim and end (SQLite: one for all), told of each group within the process, so many jobs at
  a time and 500 ahead, what is done ended together; no lease, fence, retry or limit of time.
- **Cost**: 50,000 enqueued at once and drained. Log: PostgreSQL WAL after a checkpoint, `Innodb_os_log_written`, SQLite's log with
  checkpoints off in this workload. Commits: PostgreSQL's `xact_commit`, InnoDB's `trx_rw_commits`, those in SQLite's log. Kept:
  size of history and attempts with indexes. **Memory**: `VmRSS` and `VmHWM` of a process that only works.
- **Steady**: arrival as in `paced`, retention of two minutes.
- **Peers**: programs in [tests/bench/peers](../tests/bench/peers), whose README says how each workload is done there. How many
  jobs a drain takes is theirs, since some defaults do thirty a second.
";

/// The whole page.
pub(super) fn page(record: &Record) -> String {
    let mut text = format!("{HEAD}\nMachine: {}\n\n", record.machine);
    text += &tables(record, None);
    if !record.peers_about.is_empty() {
        text += "\n## Peers: versions and settings\n\n| peer | versions | defaults | best |\n|---|---|---|---|\n";
        for (name, about) in &record.peers_about {
            let setting = |variant: &str| about.settings.get(variant).map_or("–", String::as_str);
            let _ =
                writeln!(text, "| {name} | {} | {} | {} |", about.versions, setting(VARIANTS[0]), setting(VARIANTS[1]));
        }
    }
    text
}

/// The lines of README.md between which its figures stand.
const FIGURES: [&str; 2] = ["<!-- figures: written by `cargo xtask bench` -->\n", "<!-- end of figures -->\n"];

/// README.md with the figures of the last run that measured peers on PostgreSQL.
pub(super) fn readme(record: &Record, text: &str) -> Result<String> {
    let between = text.split_once(FIGURES[0]).and_then(|(head, rest)| Some((head, rest.split_once(FIGURES[1])?.1)));
    let (head, tail) = between.context("README.md has no place for the figures")?;
    Ok([head, FIGURES[0], &drained(record), FIGURES[1], tail].concat())
}

/// What all drained on PostgreSQL, in one run. Ours of that run too: it may have been measured again since.
fn drained(record: &Record) -> String {
    let is_drain = |row: &&PeerRow| {
        (&*row.engine, &*row.workload, &*row.figure) == (Engine::Postgres.name(), "drain", "jobs_per_second")
    };
    let peers: Vec<_> = record.peers.iter().filter(is_drain).collect();
    let date = peers.iter().map(|row| &row.date).max();
    let of_the_run = peers.iter().filter(|row| Some(&row.date) == date);
    let values: Vec<_> = of_the_run.filter_map(|row| Some((*row, row.value?.median, row.ours_by_it?))).collect();
    let (Some(date), Some((_, value, ours))) = (date, values.first()) else { return String::new() };
    let mut text = format!(
        "Draining waiting jobs on PostgreSQL, jobs/s. One run on {date}. {}\n\n\
         | | as it comes | best settings |\n|---|---|---|\n| queue | {} | nothing to tune |\n",
        record.machine,
        short((value * ours).round())
    );
    for (row, ..) in values.iter().filter(|(row, ..)| row.variant == VARIANTS[0]) {
        let name = record.peers_about.get(&row.peer).map_or(&row.peer, |about| &about.versions);
        let cells = VARIANTS.map(|variant| {
            let cell = values.iter().find(|(it, ..)| it.peer == row.peer && it.variant == variant);
            cell.map_or("–".into(), |(_, value, _)| short(value.round()).trim_end_matches(".00").to_owned())
        });
        let _ = writeln!(text, "| {name} | {} | {} |", cells[0], cells[1]);
    }
    text
}

/// The tables of all engines; only what is not in `known`, if given.
pub(super) fn tables(record: &Record, known: Option<&Record>) -> String {
    let mut text = String::new();
    for engine in Engine::selection(&[]) {
        let rows: Vec<_> = record
            .rows
            .iter()
            .filter(|row| row.engine == engine.name() && !known.is_some_and(|known| known.rows.contains(row)))
            .collect();
        let peers: Vec<_> = record
            .peers
            .iter()
            .filter(|row| row.engine == engine.name() && !known.is_some_and(|known| known.peers.contains(row)))
            .collect();
        if rows.is_empty() && peers.is_empty() {
            continue;
        }
        let version = record.versions.get(engine.name()).map_or("", String::as_str);
        let _ = writeln!(text, "## {engine}\n\nVersion: {version}\n");
        text += "| workload | figure | floor | ours | ratio | measured |\n|---|---|---|---|---|---|\n";
        rows.iter().for_each(|row| text += &line(row));
        if !peers.is_empty() {
            let _ = writeln!(text, "\n### Peers on {engine}\n");
            text += "| workload | figure | peer | default | ours ÷ it | best | ours ÷ it | measured |\n";
            text += "|---|---|---|---|---|---|---|---|\n";
            text += &peer_lines(&peers);
        }
        text.push('\n');
    }
    if let Some(rows) = compile_rows(record, known) {
        text += &rows;
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

/// What needs no database.
fn compile_rows(record: &Record, known: Option<&Record>) -> Option<String> {
    let rows: Vec<_> = record
        .rows
        .iter()
        .filter(|row| row.workload == "compile" && !known.is_some_and(|known| known.rows.contains(row)))
        .collect();
    (!rows.is_empty()).then(|| {
        let head = "## The compiler\n\n| workload | figure | by hand | `#[job]` | ratio | measured |\n|---|---|---|---|---|---|\n";
        rows.iter().fold(head.to_owned(), |text, row| text + &line(row))
    })
}

fn figure(workload: &str, key: &str) -> Option<&'static Figure> {
    find(workload)?.figures.iter().find(|figure| figure.key == key)
}

fn measured(date: &str, rounds: usize) -> String {
    format!("{date}, {rounds} round{}", if rounds == 1 { "" } else { "s" })
}

fn line(row: &Row) -> String {
    let about = find(&row.workload).map_or("", |it| it.about);
    let figure = figure(&row.workload, &row.figure);
    let times = if figure.is_some_and(|it| it.better == Better::Less) { " x the time" } else { "" };
    let ratio = match (row.ratio, figure.map(|it| it.beside)) {
        (Some(ratio), Some(Beside::Ours(base))) => format!("{ratio:.2}{times} of `{base}`"),
        (Some(ratio), _) => format!("{ratio:.2}{times}"),
        (None, _) => "–".into(),
    };
    format!(
        "| {about} (`{}`) | {} | {} | {} | {ratio} | {} |\n",
        row.workload,
        figure.map_or(row.figure.as_str(), |it| it.label),
        Spread::show(row.floor.as_ref()),
        Spread::show(row.ours.as_ref()),
        measured(&row.date, row.rounds),
    )
}

/// Both variants of a peer on one line.
fn peer_lines(rows: &[&PeerRow]) -> String {
    let same = |one: &PeerRow, other: &PeerRow| {
        (&one.workload, &one.figure, &one.peer) == (&other.workload, &other.figure, &other.peer)
    };
    let mut text = String::new();
    for (at, row) in rows.iter().enumerate() {
        if rows[..at].iter().any(|earlier| same(earlier, row)) {
            continue;
        }
        let label = figure(&row.workload, &row.figure).map_or(row.figure.as_str(), |it| it.label);
        let _ = write!(text, "| `{}` | {label} | {} |", row.workload, row.peer);
        for variant in VARIANTS {
            let cells = match rows.iter().find(|it| same(it, row) && it.variant == variant) {
                None => ["–".into(), "–".into()],
                Some(it) => match &it.failed {
                    Some(message) => [failed(message), "–".into()],
                    None => [Spread::show(it.value.as_ref()), it.ours_by_it.map_or("–".into(), short)],
                },
            };
            let _ = write!(text, " {} | {} |", cells[0], cells[1]);
        }
        let _ = writeln!(text, " {} |", measured(&row.date, row.rounds));
    }
    text
}

/// A message as a table's cell.
fn failed(message: &str) -> String {
    let line = message.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or(message);
    let short: String = line.trim().chars().take(120).collect();
    format!("failed: {}", short.replace('|', "/"))
}

#[cfg(test)]
mod tests {
    use super::super::record::{PeerRow, Record, Row};
    use super::{page, readme};
    use crate::bench::numbers::Spread;

    fn row(ratio: f64) -> Row {
        Row {
            engine: "sqlite".into(),
            workload: "drain".into(),
            figure: "jobs_per_second".into(),
            date: "2024-02-29".into(),
            rounds: 1,
            floor: Spread::of(&[2000.0]),
            ours: Spread::of(&[1000.0]),
            ratio: Some(ratio),
        }
    }

    #[test]
    fn a_row_is_shown() {
        let mut record = Record::default();
        record.put(vec![row(0.5)]);
        assert!(page(&record).contains("| jobs/s | 2,000 | 1,000 | 0.50 | 2024-02-29, 1 round |"), "{}", page(&record));
    }

    #[test]
    fn the_readme_has_one_run() {
        let peer = |peer: &str, variant: &str, date: &str, value: f64, ours_by_it| PeerRow {
            engine: "postgres".into(),
            workload: "drain".into(),
            figure: "jobs_per_second".into(),
            peer: peer.into(),
            variant: variant.into(),
            date: date.into(),
            rounds: 1,
            value: Spread::of(&[value]),
            ours_by_it: Some(ours_by_it),
            failed: None,
        };
        let record = Record {
            machine: "A machine.".into(),
            peers: vec![
                peer("one", "default", "2024-02-29", 200.0, 100.0),
                peer("one", "best", "2024-02-29", 10_000.0, 2.0),
                peer("other", "default", "2024-02-28", 300.0, 70.0),
            ],
            ..Record::default()
        };
        let begin = "a\n<!-- figures: written by `cargo xtask bench` -->\n";
        let before = format!("{begin}old\n<!-- end of figures -->\nz\n");
        let after = readme(&record, &before).expect("there is a place");
        let table = "One run on 2024-02-29. A machine.\n\n| | as it comes | best settings |\n|---|---|---|\n\
                     | queue | 20,000 | nothing to tune |\n| one | 200 | 10,000 |\n<!-- end";
        assert!(after.starts_with(begin) && after.contains(table) && after.ends_with("-->\nz\n"), "{after}");
        assert!(!after.contains("old") && !after.contains("other"), "{after}");
        readme(&record, "no place").expect_err("nowhere to write");
    }

    #[test]
    fn what_loses_more_than_a_tenth_is_a_regression() {
        let with = |ratio| {
            let mut record = Record::default();
            record.put(vec![row(ratio)]);
            record
        };
        assert!(with(0.46).regressions(&with(0.5)).is_empty());
        assert_eq!(
            with(0.44).regressions(&with(0.5)),
            ["regression: sqlite drain, jobs/s: the ratio was 0.500, is 0.440"]
        );
    }
}
