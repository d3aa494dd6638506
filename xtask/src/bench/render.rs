//! docs/benchmarks.md, out of the record.

use anyhow::{Context as _, Result};

use super::compile;
use super::numbers::{Spread, short};
use super::peers::VARIANTS;
use super::record::{PeerRow, Record, Row};
use super::workload::{FLOOR, RATE, figure, find, workloads};
use queue_test_servers::Engine;

/// How everything is measured. Its links are those of docs/benchmarks.md.
const HEAD: &str = include_str!("head.md");

/// The whole page.
pub(super) fn page(record: &Record) -> String {
    let head = format!("{HEAD}\nMachine: {}\n", record.machine);
    sections([Some(head), Some(overview(record)), compiler(record), Some(peers_overview(record)), settings(record)])
}

fn sections(sections: impl IntoIterator<Item = Option<String>>) -> String {
    sections.into_iter().flatten().collect::<Vec<_>>().join("\n")
}

/// A table in Markdown, unless it is empty.
fn table(head: &str, rows: impl IntoIterator<Item = Vec<String>>) -> Option<String> {
    let rows: String = rows.into_iter().map(|cells| format!("| {} |\n", cells.join(" | "))).collect();
    (!rows.is_empty()).then(|| format!("{head}\n{}|\n{rows}", "|---".repeat(head.matches('|').count() - 1)))
}

/// A cell of a table, which may have nothing to show.
fn or_dash(cell: Option<String>) -> String {
    cell.unwrap_or_else(|| "–".into())
}

fn label(key: &str) -> &str {
    figure(key).map_or(key, |it| &it.label)
}

/// Figures of these keys are shown, and the first figure of a workload that has none of them.
const SHOWN: [&str; 3] = [RATE, "p50_ms", "p99_ms"];
/// Workloads of peers that are shown, each with its figure.
const OF_PEERS: [(&str, &str); 4] = [("enqueue-1", RATE), ("bulk", RATE), ("drain", RATE), ("pickup", "p50_ms")];

/// Ours: each figure once, with a column for each engine.
fn overview(record: &Record) -> String {
    let versions = Engine::all().into_iter().filter_map(|engine| record.versions.get(engine.name()));
    let versions: Vec<_> = versions.map(|version| version.split(" (").next().unwrap_or_default()).collect();
    let mut lines = Vec::new();
    for workload in workloads() {
        let mut shown: Vec<_> = workload.figures.iter().filter(|key| SHOWN.contains(&&***key)).collect();
        if shown.is_empty() {
            shown.extend(workload.figures.first());
        }
        let mut what = format!("{} (`{}`)", workload.about, workload.name);
        for key in shown.into_iter().filter(|key| !workload.sets(key)) {
            let row = |engine: Engine| record.rows.iter().find(|row| row.key() == [engine.name(), &workload.name, key]);
            let cells = Engine::all().map(|engine| row(engine).and_then(cell));
            if cells.iter().any(Option::is_some) {
                let base = workload.base(key).filter(|base| *base != FLOOR);
                let base = base.map(|base| format!(", ÷ `{base}`")).unwrap_or_default();
                let mut line = vec![what, format!("{}{base}", label(key))];
                line.extend(cells.map(or_dash));
                lines.push(line);
                what = "…".into();
            }
        }
    }
    let engines = Engine::all().map(|engine| engine.to_string()).join(" | ");
    format!(
        "## Ours\n\nIn brackets: divided by the floor, or by ours in the workload that the second column names. For \
         times, less is better.\n\n{}.\n\n{}",
        versions.join(", "),
        table(&format!("| workload | figure | {engines} |"), lines).unwrap_or_default()
    )
}

fn cell(row: &Row) -> Option<String> {
    let ratio = row.ratio.map(|ratio| format!(" ({ratio:.2})")).unwrap_or_default();
    Some(short(row.ours?.median) + &ratio)
}

/// What needs no database.
fn compiler(record: &Record) -> Option<String> {
    let rows = record.rows.iter().filter(|row| row.workload == compile::NAME);
    let head = "| workload | figure | by hand | `#[job]` | ratio | measured |";
    Some(format!("## The compiler\n\n{}", table(head, rows.map(line))?))
}

/// Peers: their figures, and ours of the same run divided by theirs.
fn peers_overview(record: &Record) -> String {
    let mut lines = Vec::new();
    for (workload, key) in OF_PEERS {
        for engine in Engine::all() {
            let rows = record.peers.iter().filter(|row| row.key() == [engine.name(), workload, key]);
            for (peer, rows) in by_peer(rows) {
                let mut line = vec![format!("`{workload}`"), label(key).into(), engine.to_string(), peer.peer.clone()];
                line.extend(rows.map(|row| or_dash(row.map(peer_cell))));
                lines.push(line);
            }
        }
    }
    let head = "| workload | figure | engine | peer | default settings | best settings |";
    let table = table(head, lines).unwrap_or_default();
    format!("## Peers\n\nIn brackets: ours divided by theirs, in the same run.\n\n{table}")
}

fn peer_cell(row: &PeerRow) -> String {
    let ratio = row.ours_by_it.map(|ratio| format!(" ({})", short(ratio))).unwrap_or_default();
    row.value.map_or("failed".into(), |value| short(value.median) + &ratio)
}

/// The rows of a figure of a peer stand beside each other: those of its variants.
fn by_peer<'a>(rows: impl Iterator<Item = &'a PeerRow>) -> Vec<(&'a PeerRow, [Option<&'a PeerRow>; 2])> {
    let rows: Vec<_> = rows.collect();
    let lines = rows.chunk_by(|one, other| (one.key(), &one.peer) == (other.key(), &other.peer));
    let variants = |line: &[&'a PeerRow]| VARIANTS.map(|variant| line.iter().find(|it| it.variant == variant).copied());
    lines.map(|line| (line[0], variants(line))).collect()
}

fn settings(record: &Record) -> Option<String> {
    let lines = record.peers_about.iter().map(|(name, about)| {
        let [default, best] = VARIANTS.map(|variant| or_dash(about.settings.get(variant).cloned()));
        vec![name.clone(), about.versions.clone(), default, best]
    });
    let table = table("| peer | versions | defaults | best |", lines)?;
    Some(format!("## Peers: versions and settings\n\n{table}"))
}

/// The lines of README.md between which its figures stand.
const FIGURES: [&str; 2] = ["<!-- figures: written by `cargo xtask bench` -->\n", "<!-- end of figures -->\n"];

/// README.md with the figures of the last run that measured peers on PostgreSQL.
pub(super) fn readme(record: &Record, text: &str) -> Result<String> {
    let between = text.split_once(FIGURES[0]).and_then(|(head, rest)| Some((head, rest.split_once(FIGURES[1])?.1)));
    let (head, tail) = between.context("README.md has no place for the figures")?;
    Ok([head, FIGURES[0], &drained(record).unwrap_or_default(), FIGURES[1], tail].concat())
}

/// What all drained on PostgreSQL, in one run. Ours of that run too: it may have been measured again since.
fn drained(record: &Record) -> Option<String> {
    let rows = record.peers.iter().filter(|row| row.key() == [Engine::Postgres.name(), "drain", RATE]);
    let date = rows.clone().map(|row| &row.date).max()?;
    let rows = rows.filter(|row| row.date == *date && row.ours_by_it.is_some());
    let whole = |value: f64| short(value.round()).trim_end_matches(".00").to_owned();
    let ours = rows.clone().find_map(|row| Some(whole(row.value?.median * row.ours_by_it?)))?;
    let mut lines = vec![vec!["queue".into(), ours, "nothing to tune".into()]];
    for (peer, rows) in by_peer(rows) {
        let [default, best] = rows.map(|row| or_dash(row.and_then(|it| Some(whole(it.value?.median)))));
        let name = record.peers_about.get(&peer.peer).map_or(&peer.peer, |about| &about.versions);
        lines.push(vec![name.clone(), default, best]);
    }
    let what = format!("Draining waiting jobs on PostgreSQL, jobs/s. One run on {date}.\n{}", record.machine);
    Some(format!("{what}\n\n{}", table("| | default settings | best settings |", lines)?))
}

/// All figures, for the terminal.
pub(super) fn tables(record: &Record) -> String {
    sections(Engine::all().map(|engine| of_engine(record, engine)).into_iter().chain([compiler(record)]))
}

fn of_engine(record: &Record, engine: Engine) -> Option<String> {
    let rows = record.rows.iter().filter(|row| row.engine == engine.name());
    let ours = table("| workload | figure | floor | ours | ratio | measured |", rows.map(line));
    let peers = by_peer(record.peers.iter().filter(|row| row.engine == engine.name()));
    let head = "| workload | figure | peer | defaults | ours ÷ peer | best settings | ours ÷ peer | measured |";
    let theirs = table(head, peers.iter().map(peer_line)).map(|table| format!("### Peers on {engine}\n\n{table}"));
    let version = record.versions.get(engine.name()).map_or("", String::as_str);
    let title = format!("## {engine}\n\nVersion: {version}\n");
    (ours.is_some() || theirs.is_some()).then(|| sections([Some(title), ours, theirs]))
}

fn measured(date: &str, rounds: usize) -> String {
    format!("{date}, {rounds} round{}", if rounds == 1 { "" } else { "s" })
}

fn line(row: &Row) -> Vec<String> {
    let workload = find(&row.workload);
    let times = if figure(&row.figure).is_some_and(|it| !it.more) { " × the time" } else { "" };
    let base = workload.and_then(|it| it.base(&row.figure)).filter(|base| *base != FLOOR);
    let of = base.map(|base| format!(" of `{base}`")).unwrap_or_default();
    vec![
        format!("{} (`{}`)", workload.map_or("", |it| &it.about), row.workload),
        label(&row.figure).into(),
        Spread::show(row.floor.as_ref()),
        Spread::show(row.ours.as_ref()),
        or_dash(row.ratio.map(|ratio| format!("{ratio:.2}{times}{of}"))),
        measured(&row.date, row.rounds),
    ]
}

/// Both variants of a peer on one line.
fn peer_line((first, rows): &(&PeerRow, [Option<&PeerRow>; 2])) -> Vec<String> {
    let mut cells = vec![format!("`{}`", first.workload), label(&first.figure).into(), first.peer.clone()];
    for row in rows {
        let failure = row.and_then(|it| it.failed.as_deref()).map(failed);
        cells.push(failure.unwrap_or_else(|| Spread::show(row.and_then(|it| it.value.as_ref()))));
        cells.push(or_dash(row.and_then(|it| it.ours_by_it).map(short)));
    }
    cells.push(measured(&first.date, first.rounds));
    cells
}

/// A message as a table's cell.
fn failed(message: &str) -> String {
    let short: String = message.lines().last().unwrap_or_default().trim().chars().take(120).collect();
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
        let all = tables(&record);
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
