//! docs/benchmarks.md, out of the record.

use std::fmt::Write as _;

use anyhow::{Context as _, Result};

use super::numbers::{Spread, short};
use super::peers::VARIANTS;
use super::record::{PeerRow, Record, Row};
use super::workload::{Beside, Better, Figure, WORKLOADS, find};
use queue_test_servers::Engine;

/// How everything is measured. Its links are those of docs/benchmarks.md.
const HEAD: &str = include_str!("head.md");

/// The whole page.
pub(super) fn page(record: &Record) -> String {
    let mut text = format!("{HEAD}\nMachine: {}\n\n", record.machine);
    text += &overview(record);
    text += &peers_overview(record);
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

/// Figures of these keys are shown, and the first figure of a workload that has none of them.
const SHOWN: [&str; 3] = ["jobs_per_second", "p50_ms", "p99_ms"];
/// Workloads of peers that are shown, each with its figure.
const OF_PEERS: [(&str, &str); 4] =
    [("enqueue-1", "jobs_per_second"), ("bulk", "jobs_per_second"), ("drain", "jobs_per_second"), ("pickup", "p50_ms")];

/// Ours: each figure once, with a column for each engine.
fn overview(record: &Record) -> String {
    let engines = Engine::selection(&[]);
    let mut text = String::from(
        "## Ours\n\nIn brackets: divided by the floor, or by ours in the workload that the second column names. For \
         times, less is better.\n\n",
    );
    let versions = engines.iter().filter_map(|engine| record.versions.get(engine.name()));
    let short = versions.map(|version| version.split(" (").next().unwrap_or_default());
    let _ = writeln!(text, "{}.\n", short.collect::<Vec<_>>().join(", "));
    let columns = engines.iter().fold(String::new(), |text, engine| format!("{text} {engine} |"));
    let _ = writeln!(text, "| workload | figure |{columns}\n|---|---|{}", "---|".repeat(engines.len()));
    for workload in WORKLOADS {
        // the rate of a paced workload is that of its arrivals
        let is_set = |key: &str| workload.paced.is_some() && key == SHOWN[0];
        let named = workload.figures.iter().filter(|it| SHOWN.contains(&it.key) && !is_set(it.key));
        let shown: Vec<_> = match named.clone().next() {
            Some(_) => named.collect(),
            None => workload.figures.iter().take(1).collect(),
        };
        let mut is_first = true;
        for figure in shown {
            let of = |engine: &Engine| {
                let is_it = |row: &&Row| {
                    (&*row.engine, &*row.workload, &*row.figure) == (engine.name(), workload.name, figure.key)
                };
                record.rows.iter().find(is_it)
            };
            let cells: Vec<_> = engines.iter().map(|engine| of(engine).map_or("–".into(), cell)).collect();
            if cells.iter().any(|cell| cell != "–") {
                let base = match figure.beside {
                    Beside::Ours(base) => format!(", ÷ `{base}`"),
                    _ => String::new(),
                };
                let named = format!("{} (`{}`)", workload.about, workload.name);
                let what = if is_first { named } else { "…".into() };
                let _ = writeln!(text, "| {what} | {}{base} | {} |", figure.label, cells.join(" | "));
                is_first = false;
            }
        }
    }
    if let Some(rows) = compile_rows(record, None) {
        text += "\n";
        text += &rows;
    }
    text
}

fn cell(row: &Row) -> String {
    let ours = row.ours.as_ref().map_or("–".into(), |spread| short(spread.median));
    row.ratio.map_or(ours.clone(), |ratio| format!("{ours} ({ratio:.2})"))
}

/// Peers: their figures, and ours of the same run divided by theirs.
fn peers_overview(record: &Record) -> String {
    let mut text = String::from(
        "\n## Peers\n\nIn brackets: ours divided by theirs, in the same run.\n\n\
         | workload | figure | engine | peer | default settings | best settings |\n|---|---|---|---|---|---|\n",
    );
    for (workload, key) in OF_PEERS {
        for engine in Engine::selection(&[]) {
            let of = |row: &&PeerRow| (&*row.engine, &*row.workload) == (engine.name(), workload);
            let rows: Vec<_> =
                record.peers.iter().filter(of).filter(|row| row.figure == key || row.failed.is_some()).collect();
            let is_first = |(at, row): &(usize, &&PeerRow)| rows[..*at].iter().all(|it| it.peer != row.peer);
            for (_, row) in rows.iter().enumerate().filter(is_first) {
                let cells = VARIANTS.map(|variant| {
                    let found = rows.iter().find(|it| it.peer == row.peer && it.variant == variant);
                    match found.map(|it| (it.value.as_ref(), it.ours_by_it)) {
                        Some((Some(value), Some(ratio))) => format!("{} ({})", short(value.median), short(ratio)),
                        Some((Some(value), None)) => short(value.median),
                        Some((None, _)) => "failed".into(),
                        None => "–".into(),
                    }
                });
                let label = figure(workload, key).map_or(key, |it| it.label);
                let _ = writeln!(
                    text,
                    "| `{workload}` | {label} | {engine} | {} | {} | {} |",
                    row.peer, cells[0], cells[1]
                );
            }
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
        "Draining waiting jobs on PostgreSQL, jobs/s. One run on {date}.\n{}\n\n\
         | | default settings | best settings |\n|---|---|---|\n| queue | {} | nothing to tune |\n",
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
            text += "| workload | figure | peer | defaults | ours ÷ peer | best settings | ours ÷ peer | measured |\n";
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
        let head = "## The compiler\n\n\
                    | workload | figure | by hand | `#[job]` | ratio | measured |\n|---|---|---|---|---|---|\n";
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
    let times = if figure.is_some_and(|it| it.better == Better::Less) { " × the time" } else { "" };
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
    use super::{page, readme, tables};
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
        assert!(page(&record).contains("| jobs/s | 1,000 (0.50) | – | – | – |"), "{}", page(&record));
        let all = tables(&record, None);
        assert!(all.contains("| jobs/s | 2,000 | 1,000 | 0.50 | 2024-02-29, 1 round |"), "{all}");
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
        let table = "One run on 2024-02-29.\nA machine.\n\n| | default settings | best settings |\n|---|---|---|\n\
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
