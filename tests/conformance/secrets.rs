//! The password in a database's address is printed nowhere: not in errors, `Debug`, or the log at any level, nor by the
//! programs of this repository when the address is wrong or the server refuses it.
//!
//! Promise: P40.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::Duration;

use queue::Job;
use queue::admin::Filter;
use queue_test_support::Engine;
use queue_tests::jobs::{self, Note};
use queue_tests::{AnyPool, Db, What};
use sqlx::mysql::{MySqlConnectOptions, MySqlPoolOptions};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use crate::logs::captured;

conformance!(@engine postgres Postgres is_not_told_at_work is_not_told_when_refused);
conformance!(@engine mariadb MariaDb is_not_told_at_work is_not_told_when_refused);
conformance!(@engine mysql MySql is_not_told_when_refused);

const PASSWORD: &str = "pl4nted-p4ssw0rd";

fn pool(engine: Engine, url: &str) -> Result<AnyPool, sqlx::Error> {
    let (max, patience) = (8, Duration::from_secs(2));
    Ok(match engine {
        Engine::Postgres => AnyPool::Pg(
            PgPoolOptions::new()
                .max_connections(max)
                .acquire_timeout(patience)
                .connect_lazy_with(url.parse::<PgConnectOptions>()?),
        ),
        _ => AnyPool::MySql(
            MySqlPoolOptions::new()
                .max_connections(max)
                .acquire_timeout(patience)
                .connect_lazy_with(url.parse::<MySqlConnectOptions>()?),
        ),
    })
}

/// `scheme://user:password@host:port/database`, of the test's server.
fn url(engine: Engine, user: &str, database: &str) -> String {
    let url = engine.url().expect("the server's address");
    let (scheme, rest) = url.split_once("://").expect("a scheme");
    let host = rest.split('/').next().expect("a host").rsplit('@').next().expect("a host");
    format!("{scheme}://{user}:{PASSWORD}@{host}/{database}")
}

fn without_password(text: &str) {
    let lines: Vec<_> = text.lines().filter(|line| line.contains(PASSWORD)).collect();
    assert!(lines.is_empty(), "{lines:?}");
}

async fn is_not_told_at_work(db: Db) {
    let postgres = db.engine() == Engine::Postgres;
    let database = db.value(if postgres { "SELECT current_database()" } else { "SELECT DATABASE()" }).await;
    let database = database.expect("a database");
    let user = format!("s{}", &database[database.len() - 12..]);
    if postgres {
        db.sql(format!("CREATE ROLE {user} LOGIN SUPERUSER PASSWORD '{PASSWORD}'")).await;
    } else {
        db.sql(format!("CREATE USER '{user}'@'%' IDENTIFIED BY '{PASSWORD}'")).await;
        db.sql(format!("GRANT ALL ON {database}.* TO '{user}'@'%'")).await;
    }
    let url = url(db.engine(), &user, &database);
    let log = captured(db.engine(), "trace", async move |other: Db| {
        let pool = pool(other.engine(), &url).expect("an address");
        let mut told = String::new();
        pool.migrate().await.expect("nothing to do");
        pool.enqueue(Note::new("a")).await.expect("enqueued");
        let builder = jobs::with_states(pool.worker(), &other.probe, &pool);
        let worker = builder.build().expect("a worker");
        let _ = write!(told, "{worker:?} {worker:#?} {:?}", Note::new("a").after(Duration::ZERO));
        let worker = queue_tests::Running::start(worker);
        other.probe.wait_for(What::Ended, "a", 1).await;
        let mut tx = pool.begin().await;
        tx.enqueue(Note::new("b")).await.expect("enqueued");
        tx.commit().await;
        other.probe.wait_for(What::Ended, "b", 1).await;
        let _ = write!(told, "{:?}", pool.admin().workers().await.expect("workers"));
        worker.stop().await;
        without_password(&told);
        match &pool {
            AnyPool::Pg(pool) => pool.close().await,
            AnyPool::MySql(pool) => pool.close().await,
            AnyPool::Sqlite(_) => {}
        }
    })
    .await;
    assert!(log.contains("worker.started") && log.contains("sqlx"), "{log}");
    without_password(&log);
    db.sql(if postgres { format!("DROP ROLE {user}") } else { format!("DROP USER '{user}'@'%'") }).await;
}

async fn is_not_told_when_refused(db: Db) {
    let log = captured(db.engine(), "trace", async |db: Db| {
        let good = url(db.engine(), "nobody_of_this_name", "nothing_of_this_name");
        let (host, _) = good.rsplit_once('@').expect("a host");
        let mut told = String::new();
        for url in [
            good.clone(),
            format!("{host}@127.0.0.1:1/nowhere"),
            format!("{host}@no-such-host.invalid/nowhere"),
            format!("{host}@127.0.0.1:99999999/nowhere"),
            format!("{host}@127.0.0.1:port/nowhere"),
            format!("{host}@[/nowhere"),
            format!("{good}?sslmode=nonsense&ssl-mode=nonsense"),
            format!("{good}?sslmode=verify-full&ssl-mode=VERIFY_IDENTITY"),
        ] {
            let pool = match pool(db.engine(), &url) {
                Ok(pool) => pool,
                Err(error) => {
                    let _ = writeln!(told, "{error} {error:?} {error:#?}");
                    continue;
                }
            };
            let worker = jobs::with_states(pool.worker(), &db.probe, &pool).build().expect("no I/O so far");
            let admin = pool.admin();
            let errors = [
                pool.migrate().await.expect_err("refused"),
                pool.enqueue(Note::new("a")).await.expect_err("refused"),
                pool.enqueue_all([Note::new("a"), Note::new("b")]).await.expect_err("refused"),
                worker.run(std::future::pending::<()>()).await.expect_err("refused"),
                admin.stats().await.expect_err("refused"),
                admin.jobs(&Filter::new()).await.expect_err("refused"),
            ];
            for error in errors {
                let _ = writeln!(told, "{error} {error:?} {error:#?}");
                let mut source = std::error::Error::source(&error);
                while let Some(cause) = source {
                    let _ = writeln!(told, "{cause} {cause:?}");
                    source = cause.source();
                }
            }
        }
        assert!(told.contains("cannot enqueue `note`"), "{told}");
        without_password(&told);
    })
    .await;
    without_password(&log);
}

/// The programs of this repository that were built with the tests: what is set in which variable, and their words.
#[test]
fn programs_do_not_tell_it() {
    let tests = std::env::current_exe().expect("this program");
    let folder = tests.parent().and_then(|deps| deps.parent()).expect("the folder of what is built").to_owned();
    let worker = PathBuf::from(env!("CARGO_BIN_EXE_queue-test-worker"));
    let programs: [(PathBuf, &str, &[&str]); 6] = [
        (worker, "QUEUE_WORKER_URL", &[]),
        (tests.clone(), "QUEUE_TEST_POSTGRES_URL", &["start::postgres::says_what_it_serves", "--exact"]),
        (tests, "QUEUE_TEST_MYSQL_URL", &["start::mysql::says_what_it_serves", "--exact"]),
        (folder.join("examples/producers"), "DATABASE_URL", &["work"]),
        (folder.join("shop-worker"), "DATABASE_URL", &[]),
        (folder.join("queue-bench"), "BENCH_URL", &["drain"]),
    ];
    let (built, missing): (Vec<_>, Vec<_>) = programs.iter().partition(|(program, ..)| program.is_file());
    missing.iter().for_each(|(program, ..)| println!("skipped: {} was not built", program.display()));
    assert!(built.len() >= 3, "too few programs were built");
    // all at once, since most of them wait half a minute for a server
    thread::scope(|scope| {
        for &(program, variable, words) in &built {
            for scheme in ["postgres", "mysql", "sqlite", "oracle"] {
                for host in ["127.0.0.1:1", "127.0.0.1:port", "[", "no such host"] {
                    let url = format!("{scheme}://somebody:{PASSWORD}@{host}/shop");
                    scope.spawn(move || does_not_tell(Command::new(program).args(*words).env(variable, &url), &url));
                }
            }
        }
    });
}

fn does_not_tell(command: &mut Command, url: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let command =
        command.env("QUEUE_TEST_ENGINES", "postgres,mysql").env("RUST_LOG", "trace").env("RUST_BACKTRACE", "1");
    let command = command.env("QUEUE_WORKER_RECORDS", folder.path().join("records")).current_dir(folder.path());
    let output = command.output().expect("it runs");
    let text = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    assert!(!output.status.success(), "{command:?} accepts {url}: {text}");
    without_password(&text);
}
