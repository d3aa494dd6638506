//! The accounts of docs/security.md, created by the statements of that page: what each may do, and what is refused.
//!
//! Promise: P41.

use std::time::Duration;

use queue::admin::{Action, Filter};
use queue::unique::{Enqueued, OnConflict, UniqueUntil};
use queue::{Job, JobState};
use queue_test_support::Engine;
use queue_tests::jobs::{self, Hurried, Note, Play, Spreads};
use queue_tests::{AnyPool, Db, Step, What, eventually};
use serde_json::json;
use sqlx::mysql::{MySqlConnectOptions, MySqlPoolOptions};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use crate::producers::documented;

const PAGE: &str = include_str!("../../docs/security.md");

macro_rules! on_servers {
    ($($name:ident),+ $(,)?) => {
        conformance!(@engine postgres Postgres $($name)+);
        conformance!(@engine mariadb MariaDb $($name)+);
        conformance!(@engine mysql MySql $($name)+);
    };
}

on_servers! {
    a_worker_does_its_work_and_no_more,
    an_administrator_mends_and_no_more,
    a_handler_completes_and_no_more,
    a_producer_enqueues_and_no_more,
    a_producer_of_unique_jobs_has_keys_and_no_more,
    a_reader_looks_and_no_more,
    views_outlive_the_account_that_made_them,
    a_worker_that_does_not_see_all_rows_says_so,
}

/// An account of this test's own, as the page says.
struct Account {
    name: String,
    pool: AnyPool,
}

/// The statements of the page for an account, with names of this test's own. Without a password, which MySQL's default
/// plugin sends over TLS only.
fn statements(engine: Engine, headline: &str, role: &str, database: &str, account: &str) -> Vec<String> {
    let engine = if engine == Engine::Postgres { "PostgreSQL" } else { "MariaDB and MySQL" };
    let head = format!("```sql\n-- {engine}: {headline}\n");
    let (_, block) = PAGE.split_once(&head).unwrap_or_else(|| panic!("no such block: {head}"));
    let (block, _) = block.split_once("```").expect("the end of a block");
    let block = block.replace(&format!("shop_{}", if role == "administrator" { "admin" } else { role }), account);
    let block = block.replace("shop.", &format!("{database}.")).replace("'change me'", "''");
    block.split(';').map(|sql| sql.trim().to_owned()).filter(|sql| !sql.is_empty()).collect()
}

impl Account {
    async fn new(db: &Db, role: &str) -> Self {
        let postgres = db.engine() == Engine::Postgres;
        let database = db.value(if postgres { "SELECT current_database()" } else { "SELECT DATABASE()" }).await;
        let database = database.expect("a database");
        let name = format!("q{}_{role:.6}", &database[database.len() - 12..]);
        db.sql("CREATE TABLE orders (id integer)").await;
        for sql in statements(db.engine(), role, role, &database, &name) {
            db.sql(sql).await;
        }
        let url = db.engine().url().expect("the server's address");
        let (max, patience) = (8, Duration::from_secs(30));
        let pool = if postgres {
            let options = url.parse::<PgConnectOptions>().expect("an address").username(&name).database(&database);
            let pool = PgPoolOptions::new().max_connections(max).acquire_timeout(patience);
            AnyPool::Pg(pool.connect_with(options).await.expect("the account can connect"))
        } else {
            let server: MySqlConnectOptions = url.parse().expect("an address");
            let options = MySqlConnectOptions::new().host(server.get_host()).port(server.get_port()).username(&name);
            let pool = MySqlPoolOptions::new().max_connections(max).acquire_timeout(patience);
            AnyPool::MySql(pool.connect_with(options.database(&database)).await.expect("the account can connect"))
        };
        Self { name, pool }
    }

    /// Gives the account the rights of another block of the page.
    async fn also(&self, db: &Db, headline: &str, role: &str) {
        let postgres = db.engine() == Engine::Postgres;
        let database = db.value(if postgres { "SELECT current_database()" } else { "SELECT DATABASE()" }).await;
        for sql in statements(db.engine(), headline, role, &database.expect("a database"), &self.name) {
            db.sql(sql).await;
        }
    }

    async fn can(&self, sql: &str) {
        self.pool.sql(sql).await.unwrap_or_else(|error| panic!("{} may not {sql}: {error}", self.name));
    }

    /// For want of a right, not for some other fault.
    async fn cannot(&self, statements: &[&str]) {
        for sql in statements {
            let error = self.pool.sql(sql).await.err().unwrap_or_else(|| panic!("{} may {sql}", self.name));
            let code = error.as_database_error().and_then(|error| error.code()).unwrap_or_default().into_owned();
            // insufficient privilege; command, column or access denied
            assert!(["42501", "42000"].contains(&code.as_str()), "{sql}: {code} {error}");
            let text = error.to_string();
            assert!(["denied", "must be owner"].iter().any(|word| text.contains(word)), "{sql}: {text}");
        }
    }

    async fn drop(self, db: &Db) {
        match &self.pool {
            AnyPool::Pg(pool) => {
                pool.close().await;
                db.sql(format!("DROP OWNED BY {}", self.name)).await;
                db.sql(format!("DROP ROLE {}", self.name)).await;
            }
            _ => drop(db.sql(format!("DROP USER '{}'@'%'", self.name)).await),
        }
    }
}

/// Nobody but the owner may.
const SCHEMA: [&str; 6] = [
    "CREATE TABLE mine (id integer)",
    "ALTER TABLE queue_jobs ADD COLUMN mine integer",
    "CREATE INDEX mine ON queue_jobs (fence)",
    "DROP TABLE queue_jobs",
    "TRUNCATE TABLE queue_jobs",
    "SELECT * FROM orders",
];

async fn a_worker_does_its_work_and_no_more(db: Db) {
    let account = Account::new(&db, "worker").await;
    queue_tests::each!(AnyPool, &account.pool, pool => queue::migrate(pool).await).expect("nothing to migrate");
    // everything that can happen to a job, a lost worker's and a cancelled one's included
    let gone = db.fake_worker(-1000).await;
    for (label, retries) in [("lost", 3), ("lost at last", 0)] {
        let id = db.enqueue(Note::new(label).max_retries(retries)).await;
        db.hand_over(id, gone).await;
    }
    let completes =
        db.enqueue(Play::new("a", [Step::Fail("once".into()), Step::Snooze(1), Step::Return(json!(1))])).await;
    let dies = db.enqueue(Play::new("b", [Step::Panic("no".into())])).await;
    let cancels = db.enqueue(Play::new("c", [Step::Cancel("no need".into())])).await;
    let held = db.enqueue(Play::new("held", [Step::hold("never")])).await;
    let late = db.enqueue(Hurried::new("d", [Step::deaf("never")])).await;
    db.sql("INSERT INTO queue_jobs (kind, args) VALUES ('note', '{}')").await;
    db.enqueue(Spreads::new(2)).await;
    assert!(account.pool.enqueue_unique(Note::new("unique").unique_key("k")).await.expect("enqueued").is_new());
    let worker =
        jobs::with_states(account.pool.worker(), &db.probe, &account.pool).heartbeat(Duration::from_millis(100));
    let worker = db.start(worker.cancel_grace(Duration::from_millis(300)).decode_grace(Duration::from_millis(1)));
    db.probe.wait_for(What::Started, "held", 1).await;
    db.admin().cancel(held).await.expect("cancelled");
    for (id, state) in [
        (completes, JobState::Completed),
        (dies, JobState::Dead),
        (cancels, JobState::Cancelled),
        (held, JobState::Cancelled),
        (late, JobState::Dead),
    ] {
        db.reaches(id, state).await;
    }
    // a, c, held, the lost one, the unique one, and seven of a family; b, d, what did not decode, and what was lost at
    // last
    eventually("all are over", async || (db.counts().await == (0, 12, 4)).then_some(())).await;
    worker.stop().await;
    assert!(db.count("queue_tallies WHERE outcome = 'dead'").await > 0, "the last write of the worker");
    // history is removed
    let worker = jobs::with_states(account.pool.worker(), &db.probe, &account.pool);
    let worker = db.start(worker.retention(Duration::from_millis(500)));
    eventually("an empty history", async || (db.count("queue_history").await == 0).then_some(())).await;
    worker.stop().await;
    assert_eq!(db.count("queue_workers WHERE stopped_at IS NULL").await, 0);
    // what the sweep of keys does
    account.can("DELETE FROM queue_unique_keys WHERE job_id IN (SELECT job_id FROM queue_unique_jobs)").await;
    account.can("DELETE FROM queue_unique_jobs").await;
    // and of old tallies
    account.can("DELETE FROM queue_tallies WHERE span = 60").await;
    assert!(db.count("queue_failures").await > 0, "the last write of the worker");
    account.can("DELETE FROM queue_failures WHERE began_at < last_at").await;
    // how it looks for operations, and removes old ones
    account.can("SELECT id FROM queue_operations WHERE state = 'running' AND beat_at < ended_at").await;
    account.can("DELETE FROM queue_refusals WHERE operation_id IN (SELECT id FROM queue_operations)").await;
    account.can("DELETE FROM queue_operations WHERE id = 0").await;

    account.cannot(&SCHEMA).await;
    account
        .cannot(&[
            "UPDATE queue_dead SET error = 'x'",
            "DELETE FROM queue_dead",
            "SELECT args FROM queue_dead",
            "UPDATE queue_history SET error = 'x'",
            "SELECT result FROM queue_history",
            "SELECT error FROM queue_attempts",
            "INSERT INTO queue_paused (queue) VALUES ('x')",
            "DELETE FROM queue_paused",
            "UPDATE queue_operations SET state = 'done'",
            "SELECT details FROM queue_operations",
            "UPDATE queue_migrations SET version = 9",
            "DELETE FROM queue_migrations",
            "SELECT * FROM queue_all",
        ])
        .await;
    account.drop(&db).await;
}

async fn an_administrator_mends_and_no_more(db: Db) {
    let account = Account::new(&db, "administrator").await;
    let [dead, other] = [0, 1].map(|_| Play::new("x", [Step::Die("no".into()), Step::Complete]));
    let (dead, other) = (db.enqueue(dead).await, db.enqueue(other).await);
    let worker = db.start(db.worker());
    db.reaches(dead, JobState::Dead).await;
    db.reaches(other, JobState::Dead).await;
    worker.stop().await;
    let admin = account.pool.admin();
    let later = db.enqueue(Note::new("later").after(Duration::from_secs(3600))).await;
    let never = db.enqueue(Note::new("never")).await;
    assert_eq!(admin.jobs(&Filter::new()).await.expect("a page").items.len(), 4);
    assert_eq!(admin.job(dead).await.expect("an answer").expect("a job").attempts.len(), 1);
    assert!(admin.workers().await.expect("workers").len() == 1 && !admin.stats().await.expect("counts").is_empty());
    admin.gauges().await.expect("gauges");
    assert!(!admin.throughput(Duration::from_secs(600)).await.expect("tallies").tallies.is_empty());
    assert!(admin.failures().await.expect("groups").groups[0].is_new);
    assert_eq!(admin.ended(10).await.expect("ends").len(), 2);
    admin.edit_args(dead, &json!({"label": "x", "steps": []})).await.expect("edited");
    admin.send_back(dead).await.expect("sent back");
    admin.edit_args(dead, &json!({"label": "y", "steps": []})).await.expect("edited");
    admin.delete(other).await.expect("deleted");
    admin.reschedule(later, db.now().await + Duration::from_secs(7200)).await.expect("rescheduled");
    admin.retry(later).await.expect("made ready");
    admin.cancel(never).await.expect("cancelled");
    admin.delete(never).await.expect("deleted");
    let unique = db.enqueue(Play::new("x", [Step::Die("no".into())]).unique_key("k")).await;
    let worker = db.start(db.worker());
    db.reaches(unique, JobState::Dead).await;
    worker.stop().await;
    admin.send_back(unique).await.expect("sent back");
    let holder = admin.job_with_key("play", "k").await.expect("an answer").expect("a job");
    assert_eq!((holder.job.id, holder.unique_key.as_deref()), (unique, Some("k")));
    admin.pause("mail").await.expect("paused");
    assert_eq!(admin.queues().await.expect("queues").iter().filter(|queue| queue.paused_at.is_some()).count(), 1);
    admin.resume("mail").await.expect("resumed");
    let plan = admin.plan(Action::Delete, &Filter::new().kind("play")).await.expect("a plan");
    let done = plan.run().await.expect("deleted");
    assert!(done.changed > 0 && admin.operations(None).await.expect("records").len() > 5);
    assert!(admin.refusals(done.id, None).await.expect("refusals").is_empty());
    let begun = admin.plan(Action::Delete, &Filter::new()).await.expect("a plan").begin().await.expect("begun");
    assert!(admin.stop(begun.id).await.expect("stopped"));
    account.cannot(&SCHEMA).await;
    account.cannot(&["UPDATE queue_history SET error = 'x'", "UPDATE queue_attempts SET error = 'x'"]).await;
    account
        .cannot(&[
            "DELETE FROM queue_workers",
            "DELETE FROM queue_tallies",
            "DELETE FROM queue_failures",
            "DELETE FROM queue_operations",
            "UPDATE queue_heartbeats SET worker_id = 0",
            "UPDATE queue_migrations SET version = 9",
        ])
        .await;
    account.drop(&db).await;
}

async fn a_handler_completes_and_no_more(db: Db) {
    let account = Account::new(&db, "handler").await;
    // the jobs' pool is not the worker's
    let worker = jobs::with_states(db.pool().worker(), &db.probe, &account.pool);
    let worker = db.start(worker.heartbeat(Duration::from_millis(100)));
    for guard in [false, true] {
        let id = db.enqueue(crate::complete_in::Completes::new(guard)).await;
        assert_eq!(db.reaches(id, JobState::Completed).await.attempts.len(), 1);
    }
    worker.stop().await;
    account.cannot(&SCHEMA).await;
    account
        .cannot(&[
            "INSERT INTO queue_jobs (kind) VALUES ('note')",
            "UPDATE queue_jobs SET priority = 1",
            "SELECT result FROM queue_history",
            "DELETE FROM queue_history",
            "SELECT * FROM queue_dead",
            "UPDATE queue_workers SET stopped_at = NULL",
        ])
        .await;
    account.drop(&db).await;
}

async fn a_producer_enqueues_and_no_more(db: Db) {
    let account = Account::new(&db, "producer").await;
    let pool = &account.pool;
    pool.enqueue(Note::new("one")).await.expect("enqueued");
    pool.enqueue(Note::new("later").after(Duration::from_secs(60)).queue("mail").priority(3)).await.expect("enqueued");
    // alike, and in every way different
    pool.enqueue_all((0..2500).map(|n| Note::new(n.to_string()))).await.expect("enqueued");
    pool.enqueue_all((0..50).map(|n| Note::new("x").priority(n).max_retries(n as u32))).await.expect("enqueued");
    let mut tx = pool.begin().await;
    tx.enqueue(Note::new("in a transaction")).await.expect("enqueued");
    tx.enqueue_all((0..3).map(|_| Note::new("in it").after(Duration::from_secs(9)))).await.expect("enqueued");
    tx.commit().await;
    account.can("INSERT INTO queue_jobs (kind, args) VALUES ('note', '{\"label\":\"sql\"}')").await;
    account.can("INSERT INTO queue_jobs (kind, queue, priority, max_retries) VALUES ('bare', 'mail', 1, 0)").await;
    if db.engine() == Engine::Postgres {
        account.can("SELECT pg_notify('queue_jobs', '')").await;
    }
    assert_eq!(db.count("queue_jobs").await, 2558);
    account.cannot(&SCHEMA).await;
    account
        .cannot(&[
            "SELECT args FROM queue_jobs",
            "SELECT * FROM queue_jobs",
            "SELECT kind FROM queue_jobs",
            "SELECT * FROM queue_all",
            "SELECT * FROM queue_stats",
            "SELECT * FROM queue_history",
            "SELECT * FROM queue_dead",
            "SELECT * FROM queue_workers",
            "UPDATE queue_jobs SET priority = 1",
            "DELETE FROM queue_jobs",
            "INSERT INTO queue_jobs (kind, fence) VALUES ('note', 7)",
            "INSERT INTO queue_jobs (kind, attempt) VALUES ('note', 7)",
            "INSERT INTO queue_jobs (kind, worker_id) VALUES ('note', 7)",
            "INSERT INTO queue_jobs (kind, enqueued_at) VALUES ('note', '2020-01-01')",
            "INSERT INTO queue_dead (id) VALUES (7)",
            "INSERT INTO queue_history (id) VALUES (7)",
            "INSERT INTO queue_paused (queue) VALUES ('mail')",
            "INSERT INTO queue_workers (host) VALUES ('here')",
        ])
        .await;
    if db.engine() != Engine::Postgres {
        account.cannot(&["INSERT INTO queue_jobs (id, kind) VALUES (9223372036854775807, 'note')"]).await;
    }
    account.drop(&db).await;
}

async fn a_producer_of_unique_jobs_has_keys_and_no_more(db: Db) {
    let account = Account::new(&db, "producer").await;
    let pool = &account.pool;
    let refused = pool.enqueue(Note::new("a").unique_key("k")).await;
    assert!(refused.is_err() && db.count("queue_jobs").await == 0, "a producer of other jobs: {refused:?}");
    account.also(&db, "producer of unique jobs, after the statements for a producer", "producer").await;
    let unique = |label: &str| Note::new(label).unique_key("k").unique_until(UniqueUntil::Start);
    let first = pool.enqueue_unique(unique("a").unique_for(Duration::from_secs(60))).await.expect("enqueued");
    assert!(first.is_new());
    assert_eq!(pool.enqueue_unique(unique("b")).await.expect("kept"), Enqueued::Kept(first.id()));
    let replace = unique("c").on_conflict(OnConflict::Replace);
    assert_eq!(pool.enqueue_unique(replace).await.expect("replaced"), Enqueued::Replaced(first.id()));
    let debounced = unique("d").debounce(Duration::from_secs(5)).at_most(Duration::from_secs(9));
    assert_eq!(pool.enqueue_unique(debounced).await.expect("replaced"), Enqueued::Replaced(first.id()));
    let mut tx = pool.begin().await;
    assert_eq!(tx.enqueue_unique(unique("e")).await.expect("kept"), Enqueued::Kept(first.id()));
    let many = (0..20).map(|n| Note::new("many").unique_key(n.to_string()));
    assert!(tx.enqueue_all_unique(many).await.expect("enqueued").iter().all(|it| it.is_new()));
    tx.commit().await;
    let (_, new) = documented::enqueue(pool, db.engine(), "k").await;
    assert!(!new);
    let (_, new) = documented::enqueue(pool, db.engine(), "by SQL").await;
    assert!(new && db.count("queue_jobs").await == 22);
    account.cannot(&SCHEMA).await;
    account
        .cannot(&[
            "SELECT args FROM queue_jobs",
            "SELECT * FROM queue_all",
            "SELECT * FROM queue_dead",
            "UPDATE queue_jobs SET fence = 1",
            "UPDATE queue_jobs SET worker_id = 1",
            "DELETE FROM queue_jobs",
            "DELETE FROM queue_unique_keys",
            "DELETE FROM queue_unique_jobs",
            "UPDATE queue_unique_jobs SET job_id = 0",
            "INSERT INTO queue_jobs (kind, fence) VALUES ('note', 7)",
        ])
        .await;
    account.drop(&db).await;
}

async fn a_reader_looks_and_no_more(db: Db) {
    let account = Account::new(&db, "reader").await;
    db.enqueue(Note::new("a")).await;
    let tables = [
        "queue_jobs",
        "queue_history",
        "queue_dead",
        "queue_attempts",
        "queue_workers",
        "queue_heartbeats",
        "queue_paused",
        "queue_migrations",
        "queue_unique_keys",
        "queue_unique_jobs",
        "queue_operations",
        "queue_refusals",
        "queue_tallies",
        "queue_failures",
    ];
    for table in tables.into_iter().chain(["queue_all", "queue_stats"]) {
        account.can(&format!("SELECT * FROM {table}")).await;
    }
    account.pool.admin().jobs(&Filter::new()).await.expect("a page");
    assert_eq!(account.pool.admin().gauges().await.expect("gauges").depths[0].ready.jobs, 1);
    account.pool.admin().throughput(Duration::from_secs(600)).await.expect("tallies");
    let id = db.enqueue(Note::new("b").unique_key("k")).await;
    let detail = account.pool.admin().job(id).await.expect("an answer").expect("a job");
    assert_eq!(detail.unique_key.as_deref(), Some("k"));
    account.cannot(&SCHEMA).await;
    for table in tables {
        account.cannot(&[&format!("DELETE FROM {table}")]).await;
    }
    account
        .cannot(&[
            "INSERT INTO queue_jobs (kind) VALUES ('note')",
            "INSERT INTO queue_paused (queue) VALUES ('mail')",
            "UPDATE queue_jobs SET priority = 1",
            "UPDATE queue_dead SET error = 'x'",
        ])
        .await;
    assert!(account.pool.admin().pause("mail").await.is_err());
    assert!(account.pool.enqueue(Note::new("no")).await.is_err());
    account.drop(&db).await;
}

async fn views_outlive_the_account_that_made_them(db: Db) {
    if db.engine() == Engine::Postgres {
        return; // there an account that owns something cannot be dropped
    }
    let empty = db.another().await;
    let database = empty.value("SELECT DATABASE()").await.expect("a database");
    let name = format!("q{}_once", &database[database.len() - 12..]);
    db.sql(format!("CREATE USER '{name}'@'%'")).await;
    db.sql(format!("GRANT ALL ON {database}.* TO '{name}'@'%'")).await;
    let server: MySqlConnectOptions = db.engine().url().expect("an address").parse().expect("an address");
    let options = MySqlConnectOptions::new().host(server.get_host()).port(server.get_port()).username(&name);
    let pool = MySqlPoolOptions::new().max_connections(2).connect_with(options.database(&database)).await;
    let pool = pool.expect("the account can connect");
    queue::migrate(&pool).await.expect("migrated");
    pool.close().await;
    db.sql(format!("DROP USER '{name}'@'%'")).await;
    empty.enqueue(Note::new("a")).await;
    for view in ["queue_all", "queue_stats"] {
        assert_eq!(empty.count(view).await, 1, "{view}");
    }
}

/// P39.
async fn a_worker_that_does_not_see_all_rows_says_so(db: Db) {
    if db.engine() != Engine::Postgres {
        return; // the others have no row level security
    }
    let account = Account::new(&db, "worker").await;
    let refused = async || {
        let worker = db.worker_on(&account.pool).build().expect("built").run(std::future::ready(())).await;
        worker.err().map(|error| error.to_string())
    };
    assert_eq!(refused().await, None);
    for table in ["queue_migrations", "queue_jobs", "queue_unique_keys"] {
        db.sql(format!("ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")).await;
        let error = refused().await.expect("it sees no row");
        assert!(error.contains(&format!("row level security hides rows of `{table}`")), "{error}");
        let migrated = queue_tests::each!(AnyPool, &account.pool, pool => queue::migrate(pool).await);
        assert!(migrated.expect_err(table).to_string().contains("row level security"));
        db.sql(format!("CREATE POLICY part ON {table} FOR ALL TO {} USING (false)", account.name)).await;
        assert!(refused().await.is_some());
        db.sql(format!("CREATE POLICY all_rows ON {table} FOR ALL TO {} USING (true)", account.name)).await;
        assert_eq!(refused().await, None, "a policy shows all rows");
    }
    account.drop(&db).await;
}
