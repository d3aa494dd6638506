//! The statements of jobs that use no feature, as they are sent: a feature must change none of them.
//!
//! A snapshot lists them for each engine, by their first words and a hash of the whole text. After an intended change,
//! run these tests with `QUEUE_TEST_UPDATE=1`, and read the difference.

use std::fmt::Write as _;
use std::sync::{LazyLock, Mutex};

use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;

use super::*;

/// sqlx logs each statement. Those of a snapshot are sent inside a span, which names the engine.
static SENT: LazyLock<Mutex<HashMap<String, Vec<String>>>> = LazyLock::new(Mutex::default);

struct StatementLog;

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for StatementLog {
    fn on_new_span(&self, attributes: &tracing::span::Attributes<'_>, id: &tracing::Id, context: Context<'_, S>) {
        if attributes.metadata().name() == "snapshot" {
            let mut engine = Text("engine", String::new());
            attributes.record(&mut engine);
            context.span(id).expect("it is new").extensions_mut().insert(engine);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        if event.metadata().target() != "sqlx::query" {
            return;
        }
        let Some(scope) = context.event_scope(event) else { return };
        for span in scope {
            if let Some(Text(_, engine)) = span.extensions().get::<Text>() {
                let (mut summary, mut text) = (Text("summary", String::new()), Text("db.statement", String::new()));
                event.record(&mut summary);
                event.record(&mut text);
                let text = if text.1.trim().is_empty() { summary.1 } else { text.1 };
                SENT.lock().unwrap().entry(engine.clone()).or_default().push(text.trim().to_owned());
            }
        }
    }
}

/// A field of this name.
struct Text(&'static str, String);

impl Visit for Text {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == self.0 {
            self.1 = value.to_owned();
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if field.name() == self.0 {
            self.1 = format!("{value:?}");
        }
    }
}

/// How statements begin that belong to a connection, not to a job. A pool may have to open one at any time.
const OF_CONNECTIONS: [&str; 8] = [
    "/* SQLx ping */",
    "PRAGMA ",
    "SET ",
    "SHOW VARIABLES",
    "ROLLBACK AND",
    "SELECT 1 FROM DUAL",
    "SELECT 1 WHERE",
    "SELECT set_config(name",
];

/// What was sent, section by section.
struct Snapshot {
    /// The span.
    server: &'static str,
    /// The file.
    engine: &'static str,
    text: String,
}

impl Snapshot {
    /// What was sent since the last time.
    fn sent(&self) -> Vec<String> {
        let mut sent = SENT.lock().unwrap().remove(self.server).unwrap_or_default();
        sent.retain(|statement| !OF_CONNECTIONS.iter().any(|begin| statement.starts_with(begin)));
        sent
    }

    fn section(&mut self, name: &str) {
        let sent = self.sent();
        writeln!(self.text, "{name}").unwrap();
        let mut seen = HashSet::new();
        for statement in sent.iter().filter(|statement| seen.insert(statement.as_str())) {
            let words: Vec<_> = statement.lines().filter(|line| !line.starts_with("--")).collect();
            let words = words.join(" ").split_whitespace().collect::<Vec<_>>().join(" ");
            writeln!(self.text, "    {:016x} {}", hash(statement), words.chars().take(72).collect::<String>()).unwrap();
        }
    }

    fn check(&self) {
        let path = format!("{}/src/store/engine/tests/statements/{}.txt", env!("CARGO_MANIFEST_DIR"), self.engine);
        if std::env::var_os("QUEUE_TEST_UPDATE").is_some() {
            std::fs::write(&path, &self.text).unwrap();
        }
        let before = std::fs::read_to_string(&path).unwrap_or_default();
        let differs = before.lines().zip(self.text.lines()).find(|(before, now)| before != now);
        assert!(
            before == self.text,
            "{path}: jobs without a feature send other statements than before. First difference: {differs:#?}. If this \
             is intended, run this test with QUEUE_TEST_UPDATE=1, and review the change of that file."
        );
    }
}

/// FNV-1a.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Sends each statement that a job can need, and compares.
async fn whole_life<DB: TestDb>(db: Db<DB>, server: &'static str, engine: &'static str) {
    let mut snapshot = Snapshot { server, engine, text: String::new() };
    snapshot.sent();
    let later = NewJob { delay_us: Some(0), ..job("a") };
    db.insert(&[job("a")]).await;
    snapshot.section("enqueue: one");
    db.insert(std::slice::from_ref(&later)).await;
    snapshot.section("enqueue: one, later");
    db.insert(&[job("a"), job("a"), job("a")]).await;
    snapshot.section("enqueue: alike");
    db.insert(&[job("a"), later, NewJob { priority: 3, ..job("a") }]).await;
    snapshot.section("enqueue: of several sorts");

    let worker = db.worker().await;
    snapshot.section("join");
    let holding = Holding { any: true, running: &[1], settled: &[1], check: true, again_in: LEASE };
    db.store.heartbeat(worker, LEASE, holding, &["a".to_owned()]).await.unwrap();
    snapshot.section("heartbeat");
    let scope = Scope { kinds: vec!["a".to_owned()], queues: vec![] };
    assert_eq!(db.store.discover(&scope, &[], 9, false).await.unwrap().heads.len(), 2);
    snapshot.section("discover");
    let newest = Ask { newest_first: true, ..ask("a", 1) };
    let urgent = Ask { lane: Lane { priority: 3, ..ask("a", 1).lane }, ..ask("a", 1) };
    let reach = Reach { most: 9, least: 9, before: None, until: None };
    db.store.preview(&[ask("a", 1)], reach).await.unwrap();
    snapshot.section("preview: one lane");
    db.store.preview(&[newest.clone(), urgent.clone()], reach).await.unwrap();
    snapshot.section("preview: several lanes");
    db.store.take_claim_lock().await.unwrap();
    db.store.release_claim_lock().await.unwrap();
    snapshot.section("claim lock");
    assert!(
        db.store.claim(worker, &[ask("a", 1)], Some(&scope.kinds)).await.unwrap().is_empty(),
        "another lane has jobs"
    );
    snapshot.section("claim: the only lane");
    let jobs = db.take(worker, 3).await;
    assert_eq!(jobs.len(), 3);
    snapshot.section("claim: one lane");
    assert_eq!(db.store.claim(worker, std::slice::from_ref(&newest), None).await.unwrap().len(), 1);
    snapshot.section("claim: newest first");
    assert_eq!(db.store.claim(worker, &[newest, urgent], None).await.unwrap().len(), 2);
    snapshot.section("claim: several lanes");
    db.store.args(worker, jobs[0].id.get(), 1).await.unwrap();
    snapshot.section("arguments of a held job");
    db.begin(worker, &jobs).await;
    snapshot.section("start");
    db.store.end(worker, &[plain(&jobs[0])]).await.unwrap();
    snapshot.section("finish");
    db.store.end(worker, &[back(&jobs[1])]).await.unwrap();
    snapshot.section("requeue");
    db.store.end(worker, &[buried(&jobs[2])]).await.unwrap();
    snapshot.section("bury");
    db.store.holding(worker).await.unwrap();
    snapshot.section("holding");
    db.expire(worker).await;
    let last = db.heartbeat(worker).await;
    snapshot.sent();
    assert!(db.store.declare_lost(worker, last, true).await.unwrap());
    snapshot.section("declare lost");
    assert_eq!(db.rescue(9).await.ready, 3);
    snapshot.section("rescue");

    let (id, all) = (jobs[1].id.get(), [1, 2, 3, 4, 5, 6, 7, 8]);
    db.store.run_now(&[id]).await.unwrap();
    snapshot.section("run now");
    db.store.reschedule(&[id], 0).await.unwrap();
    snapshot.section("reschedule");
    db.store.edit(id.into(), "{}", None).await.unwrap();
    snapshot.section("edit");
    db.store.cancel(&[id], "why").await.unwrap();
    snapshot.section("cancel");
    db.store.send_back(&[jobs[2].id.get()]).await.unwrap();
    snapshot.section("send back");
    tokio::time::sleep(Duration::from_millis(5)).await;
    db.store.purge(Duration::from_millis(1), 100, false).await.unwrap();
    snapshot.section("purge");
    db.store.delete(&all, None).await.unwrap();
    snapshot.section("delete");
    db.store.purge(Duration::from_millis(1), 10, true).await.unwrap();
    snapshot.section("purge workers");
    db.store.leave(worker, Duration::ZERO).await.unwrap();
    snapshot.section("leave");
    snapshot.check();
}

/// On a runtime of this thread alone, so that all its tasks run inside the span.
fn inside_a_span<F: Future<Output = ()>>(engine: &'static str, test: F) {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let subscriber = tracing_subscriber::registry().with(StatementLog);
        tracing::subscriber::set_global_default(subscriber).expect("no other test sets one");
    });
    let _span = tracing::info_span!("snapshot", engine).entered();
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
}

#[cfg(feature = "sqlite")]
#[test]
fn sqlite() {
    if is_selected("sqlite") {
        inside_a_span("sqlite", on_sqlite(|db| whole_life(db, "sqlite", "sqlite")));
    }
}

#[cfg(feature = "postgres")]
#[test]
fn postgres() {
    if is_selected("postgres") {
        let test = |db| whole_life(db, "postgres", "postgres");
        inside_a_span(
            "postgres",
            on_server::<sqlx::Postgres, _>("QUEUE_TEST_POSTGRES_URL", |o, name| o.database(name), test),
        );
    }
}

#[cfg(feature = "mysql")]
#[test]
fn mariadb() {
    if is_selected("mariadb") {
        let test = |db| whole_life(db, "mariadb", "mysql");
        inside_a_span(
            "mariadb",
            on_server::<sqlx::MySql, _>("QUEUE_TEST_MARIADB_URL", |o, name| o.database(name), test),
        );
    }
}

#[cfg(feature = "mysql")]
#[test]
fn mysql() {
    if is_selected("mysql") {
        let test = |db| whole_life(db, "mysql", "mysql");
        inside_a_span("mysql", on_server::<sqlx::MySql, _>("QUEUE_TEST_MYSQL_URL", |o, name| o.database(name), test));
    }
}
