//! Bad input in bulk: rows written by SQL with whatever a broken or hostile producer may write, among good ones. The worker
//! stays up, the good rows complete, and every bad row is where docs/security.md says that it ends.
//!
//! The long form, with the rate of the good rows beside bad ones and without, is a command:
//!
//! ```text
//! cargo xtask servers --detach && . target/servers/env
//! QUEUE_TEST_BAD_ROWS=100000 cargo test -p queue-tests --test conformance -- --ignored --nocapture bad_input::rates
//! ```

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use fastrand::Rng;
use queue_test_support::Engine;
use queue_tests::jobs::Note;
use queue_tests::{DEADLINE, Db, What};

conformance! {
    ends_where_the_contract_says,
}

/// Where a row is in the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    Completed,
    Dead,
    /// Of a kind that nobody knows.
    Ready,
    /// Its time has not come.
    Scheduled,
    /// Not taken by the database.
    Refused,
}

impl End {
    /// Those that the database takes: by far the most.
    const TAKEN: [Self; 4] = [Self::Completed, Self::Dead, Self::Ready, Self::Scheduled];

    fn state(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Dead => "dead",
            Self::Ready => "ready",
            Self::Scheduled => "scheduled",
            Self::Refused => "refused",
        }
    }
}

/// A row: SQL of each of its columns.
struct Row {
    kind: String,
    args: String,
    queue: String,
    priority: String,
    run_at: String,
    max_retries: String,
    attempt: String,
    lease: String,
}

const COLUMNS: &str = "kind, args, queue, priority, run_at, max_retries, attempt, lease";

impl Row {
    fn values(&self) -> String {
        let Self { kind, args, queue, priority, run_at, max_retries, attempt, lease } = self;
        format!("({kind}, {args}, {queue}, {priority}, {run_at}, {max_retries}, {attempt}, {lease})")
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// A JSON text as an SQL literal, whose backslashes MySQL and MariaDB would take for their own.
fn json(engine: Engine, text: &str) -> String {
    match engine {
        Engine::MariaDb | Engine::MySql => quoted(&text.replace('\\', "\\\\")),
        _ => quoted(text),
    }
}

/// Letters of every length in UTF-8, without those that no engine takes in a name.
fn word(rng: &mut Rng, most: usize) -> String {
    const LETTERS: [char; 14] = ['a', 'Z', '0', '_', '-', '.', '%', '\'', '"', 'ä', '≠', '😀', '𝔘', '\u{202e}'];
    (0..rng.usize(1..=most)).map(|_| LETTERS[rng.usize(..LETTERS.len())]).collect()
}

struct Rows {
    rng: Rng,
    engine: Engine,
}

impl Rows {
    fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.rng.usize(..of.len())]
    }

    fn past(&mut self) -> String {
        let times: &[&str] = match self.engine {
            Engine::Postgres => &["now()", "'0001-01-01 00:00Z'", "'1969-12-31'", "now() - interval '1 day'"],
            Engine::MariaDb | Engine::MySql => &["UTC_TIMESTAMP(6)", "'0001-01-01'", "'1969-12-31'", "'1999-01-01'"],
            Engine::Sqlite => &["0", "-1", "-9223372036854775808", "946684800000"],
        };
        self.pick(times).to_owned()
    }

    fn future(&mut self) -> String {
        let times: &[&str] = match self.engine {
            Engine::Postgres => &["'9999-12-31'", "'294276-12-31'", "now() + interval '1 day'"],
            Engine::MariaDb | Engine::MySql => &["'9999-12-31 23:59:59.999999'", "'2999-01-01'"],
            Engine::Sqlite => &["9223372036854775807", "253402300799999", "32503680000000"],
        };
        self.pick(times).to_owned()
    }

    /// Nothing wrong with it but its numbers: absurd, and still in range.
    fn odd(&mut self) -> Row {
        let queue = format!("queue {} {}", self.rng.u8(..8), ["", "😀", "\n", "\t\u{7f}"][self.rng.usize(..4)]);
        let queue = queue.trim_end().to_owned();
        let priority = self.pick(&["0", "0", "0", "32767", "-32768", "1", "-1"]).to_owned();
        let max_retries = self.pick(&["NULL", "0", "2147483647"]).to_owned();
        let attempt = self.pick(&["0", "0", "0", "0", "1000000000"]).to_owned();
        let lease = self.pick(&["0", "0", "0", "0", "1000000000"]).to_owned();
        let label = ["odd", "😀😀", "\\u0000", "\\ud83d\\ude00", "\\\"\\\\"][self.rng.usize(..5)];
        let args = json(self.engine, &format!(r#"{{"label":"{label}"}}"#));
        Row {
            kind: "'note'".into(),
            args,
            queue: quoted(&queue),
            priority,
            run_at: self.past(),
            max_retries,
            attempt,
            lease,
        }
    }

    /// Arguments that are JSON and do not fit.
    fn misfit(&mut self) -> (&'static str, String) {
        // MySQL takes no number that its doubles cannot hold
        let numbers = ["99999999999999999999999999", "4294967296", "-1", "1.5", "1e400", "-1e999"];
        let number = numbers[self.rng.usize(..if self.engine == Engine::MySql { 4 } else { 6 })];
        let surrogate = if matches!(self.engine, Engine::MariaDb | Engine::MySql) { "{}" } else { r#""\ud800""# };
        let (kind, text): (_, String) = match self.rng.u8(..12) {
            0 => ("note", "null".into()),
            1 => ("note", "[]".into()),
            2 => ("note", "{}".into()),
            3 => ("note", r#""text""#.into()),
            4 => ("note", number.into()),
            5 => ("note", format!(r#"{{"label":{number}}}"#)),
            6 => ("spreads", format!(r#"{{"generations":{number}}}"#)),
            7 => ("note", r#"{"label":"a","label":"b"}"#.into()),
            8 => ("note", format!(r#"{{"label":{surrogate}}}"#)),
            9 => ("note", format!(r#"{{"label":{}{}}}"#, "[".repeat(25), "]".repeat(25))),
            10 => ("play", format!(r#"{{"label":"a","steps":[{{"Return":{number}}}, {{"None":1}}]}}"#)),
            _ => ("note", format!(r#"{{"{}":{}}}"#, word(&mut self.rng, 5).replace('"', ""), self.rng.i64(..))),
        };
        (kind, json(self.engine, &text))
    }

    fn row(&mut self, end: End) -> Row {
        let mut row = self.odd();
        match end {
            End::Completed => {}
            End::Dead => {
                let (kind, args) = self.misfit();
                (row.kind, row.args) = (quoted(kind), args);
                if self.rng.u16(..500) == 0 {
                    row.args = self.large();
                } else if self.engine == Engine::Postgres && self.rng.u8(..50) == 0 {
                    row.args = format!("(repeat('[', {0}) || repeat(']', {0}))::json", self.rng.usize(128..5000));
                }
            }
            End::Ready => row.kind = quoted(&format!("{}!", word(&mut self.rng, 20))),
            End::Scheduled => row.run_at = self.future(),
            End::Refused => self.spoil(&mut row),
        }
        row
    }

    /// Over the limit, made by the server.
    fn large(&mut self) -> String {
        let size = self.rng.usize(1_100_000..1_500_000);
        match self.engine {
            Engine::Postgres => format!("('\"' || repeat('x', {size}) || '\"')::json"),
            Engine::MariaDb | Engine::MySql => format!("CONCAT('\"', REPEAT('x', {size}), '\"')"),
            Engine::Sqlite => format!("'\"' || hex(zeroblob({})) || '\"'", size / 2),
        }
    }

    /// What no engine takes.
    fn spoil(&mut self, row: &mut Row) {
        match self.rng.u8(..11) {
            0 => row.args = "'{\"label\":'".into(),
            1 => row.args = "'not JSON'".into(),
            2 => row.args = "''".into(),
            3 => row.args = "NULL".into(),
            4 => row.kind = "NULL".into(),
            5 => row.kind = "''".into(),
            6 => row.kind = quoted(&"k".repeat(129)),
            7 => row.queue = "'ends with a space '".into(),
            8 => row.priority = "40000".into(),
            9 => row.max_retries = "-1".into(),
            _ => row.run_at = "NULL".into(),
        }
    }
}

/// What became of all rows.
struct Outcome {
    /// From the start of the worker until the good rows were done.
    took: Duration,
    /// Until the bad ones that have to be run or set aside were done as well.
    all_took: Duration,
    /// Rows by where they ended, all of them as expected.
    ended: BTreeMap<End, usize>,
}

/// Writes so many good and bad rows in turns, runs a worker until nothing is left for it to do, and looks for every one.
async fn trial(db: &Db, good: usize, bad: usize, patience: Duration, seed: u64) -> Outcome {
    let mut rows = Rows { rng: Rng::with_seed(seed), engine: db.engine() };
    let mut ended: BTreeMap<End, usize> = BTreeMap::new();
    let mut expected: BTreeMap<i64, End> = BTreeMap::new();
    let (mut good_left, mut bad_left) = (good, bad);
    while good_left + bad_left > 0 {
        let chunk = good_left.min(400);
        db.enqueue_all((0..chunk).map(|_| Note::new("good"))).await;
        good_left -= chunk;
        for end in End::TAKEN {
            let chunk = bad_left.min(100);
            bad_left -= chunk;
            expected.extend(insert(db, &mut rows, end, chunk).await.map(|id| (id, end)));
        }
        for _ in 0..bad_left.min(4) {
            bad_left -= 1;
            let sql = format!("INSERT INTO queue_jobs ({COLUMNS}) VALUES {}", rows.row(End::Refused).values());
            assert!(db.pool().sql(&sql).await.is_err(), "seed {seed}: {sql}");
            *ended.entry(End::Refused).or_default() += 1;
        }
    }
    let begin = Instant::now();
    let worker = db.start(db.worker());
    let waiting = expected.values().filter(|end| matches!(end, End::Ready | End::Scheduled)).count() as i64;
    let mut took = None;
    loop {
        let done = db.probe.count(What::Ended, "good");
        took = took.or((done == good).then(|| begin.elapsed()));
        if took.is_some() && db.count("queue_jobs").await == waiting {
            break;
        }
        assert!(!worker.is_over(), "seed {seed}: the worker ended");
        assert!(begin.elapsed() < patience, "seed {seed}: {done} of {good} good rows, {:?}", db.counts().await);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let all_took = begin.elapsed();
    worker.stop().await;
    assert_eq!(db.count("queue_attempts WHERE outcome = 'panicked'").await, 0, "seed {seed}: a panic");
    let found = db.sql("SELECT id, state FROM queue_all").await;
    assert_eq!(found.len(), good + expected.len(), "seed {seed}: rows were lost");
    for row in found {
        let [Some(id), Some(state)] = &row[..] else { panic!("{row:?}") };
        let end = expected.remove(&id.parse().expect("a number")).unwrap_or(End::Completed);
        if end.state() != state {
            let args = if db.engine() == Engine::Postgres { "left(args::text, 200)" } else { "substr(args, 1, 200)" };
            let job = db.sql(format!("SELECT kind, queue, {args}, error FROM queue_all WHERE id = {id}")).await;
            panic!("seed {seed}: job {id} is {state}, not {end:?}: {job:?}");
        }
        *ended.entry(end).or_default() += 1;
    }
    assert!(expected.is_empty(), "seed {seed}: rows without a job: {expected:?}");
    *ended.get_mut(&End::Completed).expect("some") -= good;
    Outcome { took: took.expect("just seen"), all_took, ended }
}

/// Writes rows and returns their numbers.
async fn insert(db: &Db, rows: &mut Rows, end: End, count: usize) -> impl Iterator<Item = i64> {
    let last = db.int("SELECT COALESCE(MAX(id), 0) FROM queue_jobs").await;
    let mut sql = format!("INSERT INTO queue_jobs ({COLUMNS}) VALUES ");
    for number in 0..count {
        let _ = write!(sql, "{}{}", if number > 0 { ", " } else { "" }, rows.row(end).values());
    }
    let mut ids = Vec::new();
    if count > 0 {
        db.sql(sql).await;
        ids = db.column(format!("SELECT id FROM queue_jobs WHERE id > {last}")).await;
        assert_eq!(ids.len(), count);
    }
    ids.into_iter().map(|id| id.parse().expect("a number"))
}

fn seed() -> u64 {
    let given = std::env::var("QUEUE_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    given.unwrap_or_else(|| fastrand::u64(..))
}

async fn ends_where_the_contract_says(db: Db) {
    let seed = seed();
    let outcome = trial(&db, 1500, 1500, 4 * DEADLINE, seed).await;
    assert_eq!(outcome.ended.values().sum::<usize>(), 1500, "seed {seed}: {:?}", outcome.ended);
    assert!(outcome.ended.len() == 5, "seed {seed}: not every end: {:?}", outcome.ended);
}

/// The rate of good rows beside as many bad ones, and without them. A bad row that has to be run or set aside costs what a
/// job costs, so the rate of all of them is told too.
async fn rates(engine: Engine) {
    let count = std::env::var("QUEUE_TEST_BAD_ROWS").ok().and_then(|count| count.parse().ok()).unwrap_or(10_000usize);
    let patience = Duration::from_secs(1800);
    let mut rates = Vec::new();
    for bad in [0, count] {
        let Some(db) = Db::empty(engine).await else { return };
        db.migrate().await.expect("the schema");
        let Outcome { took, all_took, ended } = trial(&db, count, bad, patience, seed()).await;
        let ran = count + ended.get(&End::Completed).unwrap_or(&0) + ended.get(&End::Dead).unwrap_or(&0);
        let (good, all) = (count as f64 / took.as_secs_f64(), ran as f64 / all_took.as_secs_f64());
        println!(
            "{engine}: {count} good rows among {bad} bad ones: {good:.0} good ones a second, {all:.0} of all that ran; {ended:?}"
        );
        rates.push((good, all));
    }
    let ratios = (rates[1].0 / rates[0].0, rates[1].1 / rates[0].1);
    println!("{engine}: with bad rows to without: good ones {:.2}, all that ran {:.2}", ratios.0, ratios.1);
}

mod rates {
    use queue_test_support::Engine;

    macro_rules! figures {
        ($($name:ident $engine:ident),+) => {$(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            #[ignore = "prints figures; see the head of the file"]
            async fn $name() {
                super::rates(Engine::$engine).await;
            }
        )+};
    }
    figures!(sqlite Sqlite, postgres Postgres, mariadb MariaDb, mysql MySql);
}
