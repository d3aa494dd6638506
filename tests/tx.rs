//! Handlers that take a `Tx`: the worker begins the transaction, completes the job in it, and commits.
//!
//! A program of its own: a worker on one database refuses the jobs that need another one.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use queue::admin::JobDetail;
use queue::testing::TestQueue;
use queue::{Job, JobContext, JobError, JobState, State, Tx, WorkerBuilder, job};
use queue_test_support::{Engine, sessions};
use queue_tests::jobs::Note;
use queue_tests::{Db, Probe, Step, What, eventually};
use serde_json::{Value, json};

/// The jobs and their tests, for one driver.
macro_rules! on_driver {
    ($driver:ident, $DB:ty, $pool:ident, [$charge:literal, $plain:literal, $eager:literal, $look:literal, $spoiled:literal, $ticked:literal],
        [$($module:ident $engine:ident),+]) => {
        mod $driver {
            use super::*;

            /// Writes an effect and a further job, and ends as it is told.
            #[job(name = $charge, max_retries = 2, backoff = fixed("10ms"), timeout = "8s")]
            pub(crate) async fn charge(
                ctx: JobContext,
                tx: &mut Tx<$DB>,
                State(probe): State<Probe>,
                label: String,
                end: Step,
            ) -> Result<Value, JobError> {
                let label = label.as_str();
                sqlx::query("INSERT INTO effects (label) VALUES ('x')").execute(&mut **tx).await?;
                Note::new(format!("{label} follows")).enqueue(&mut *tx).await?;
                let end = if ctx.attempt() == 1 { end } else { Step::Return(json!("again")) };
                probe.perform(&ctx, label, &[end]).await
            }

            /// Returns nothing.
            #[job(name = $plain)]
            pub(crate) async fn plain(tx: &mut queue::Tx<$DB>) {
                sqlx::query("INSERT INTO effects (label) VALUES ('x')").execute(&mut **tx).await.expect("an effect");
            }

            /// Fences itself early, and completes itself although the worker does.
            #[job(name = $eager, max_retries = 0)]
            pub(crate) async fn eager(ctx: &JobContext, tx: &mut Tx<$DB>, twice: bool) -> Result<(), JobError> {
                ctx.guard(&mut *tx).await?;
                if twice {
                    ctx.complete_in(&mut *tx, &()).await?;
                }
                Ok(())
            }

            /// Looks twice.
            #[job(name = $look)]
            pub(crate) async fn look(
                ctx: JobContext,
                tx: &mut Tx<$DB>,
                State(probe): State<Probe>,
            ) -> Result<Vec<i64>, JobError> {
                let mut seen = Vec::new();
                for label in ["first", "second"] {
                    probe.perform(&ctx, label, &[Step::hold(label)]).await?;
                    seen.push(sqlx::query_scalar("SELECT COUNT(*) FROM effects").fetch_one(&mut **tx).await?);
                }
                Ok(seen)
            }

            /// Its first attempt takes no error of the database for one.
            #[job(name = $spoiled, max_retries = 1, backoff = fixed("10ms"))]
            pub(crate) async fn spoiled(ctx: JobContext, tx: &mut Tx<$DB>, by: Vec<String>) -> Result<(), JobError> {
                sqlx::query("INSERT INTO effects (label) VALUES ('x')").execute(&mut **tx).await?;
                if ctx.attempt() == 1 {
                    for by in by {
                        let _ = sqlx::raw_sql(sqlx::AssertSqlSafe(by)).execute(&mut **tx).await;
                    }
                    let _ = Note::new("after").enqueue(&mut *tx).await;
                }
                Ok(())
            }

            /// Returns the schedule that enqueued it, asked for twice.
            #[job(name = $ticked, max_retries = 0)]
            pub(crate) async fn ticked(ctx: JobContext, tx: &mut Tx<$DB>) -> Result<[Option<String>; 2], JobError> {
                sqlx::query("INSERT INTO effects (label) VALUES ('x')").execute(&mut **tx).await?;
                let schedule = async || Ok::<_, JobError>(ctx.tick().await?.map(|tick| tick.schedule));
                Ok([schedule().await?, schedule().await?])
            }

            /// P18: The transaction is over before its handler is. `with`: what ends it, and how many effects that
            /// keeps.
            async fn completes_nothing_without_its_effects(db: Db) {
                db.sql("CREATE TABLE taken (id int PRIMARY KEY)").await;
                db.sql("INSERT INTO taken VALUES (1)").await;
                if db.engine() == Engine::Sqlite {
                    db.sql("CREATE TABLE refusing (id int UNIQUE ON CONFLICT ROLLBACK)").await;
                    db.sql("INSERT INTO refusing VALUES (1)").await;
                    db.sql(
                        "CREATE TRIGGER raising BEFORE INSERT ON taken WHEN NEW.id = 2 \
                         BEGIN SELECT RAISE(ROLLBACK, 'no'); END",
                    )
                    .await;
                }
                let after = "INSERT INTO effects (label) VALUES ('after')";
                let ends: &[(&[&str], i64)] = match db.engine() {
                    Engine::Sqlite => &[
                        (&["INSERT OR ROLLBACK INTO taken VALUES (1)"], 0),
                        (&["INSERT INTO refusing VALUES (1)", after], 0),
                        (&["INSERT INTO taken VALUES (2)", after, after], 0),
                        (&["ROLLBACK", after], 0),
                        (&["COMMIT", after], 0),
                        (&["ROLLBACK", "BEGIN", after], 0),
                    ],
                    Engine::Postgres => {
                        &[(&["ROLLBACK"], 0), (&["COMMIT"], 1), (&["ROLLBACK", "BEGIN", after], 0), (&["no SQL", after], 0)]
                    }
                    // these keep what was before them, and nothing behind them
                    _ => &[
                        (&["ROLLBACK", after], 0),
                        (&["COMMIT", after], 1),
                        (&["CREATE TABLE another (id int)", after], 1),
                        (&["TRUNCATE TABLE taken", after], 1),
                    ],
                };
                let worker = db.start(worker(&db));
                for (by, kept) in ends {
                    db.sql("DELETE FROM effects").await;
                    let id = db.enqueue(Spoiled::new(by.iter().map(|by| (*by).to_owned()).collect::<Vec<_>>())).await;
                    let detail = db.reaches(id, JobState::Completed).await;
                    assert_eq!(outcomes(&detail), [(1, "failed"), (2, "completed")], "{by:?}");
                    assert_eq!(db.count("effects").await, kept + 1, "{by:?}");
                    assert_eq!(db.count("effects WHERE label = 'after'").await, 0, "{by:?}");
                }
                worker.stop().await;
                // no job was enqueued, and the pool's connections commit as before
                assert_eq!(db.counts().await, (0, ends.len() as i64, 0));
                for _ in 0..20 {
                    db.sql("INSERT INTO effects (label) VALUES ('plain')").await;
                }
                assert_eq!(db.count("effects WHERE label = 'plain'").await, 20);
            }

            fn worker(db: &Db) -> WorkerBuilder {
                let worker = db.worker().only_registered().register::<Charge>().register::<Plain>();
                worker.register::<Eager>().register::<Look>().register::<Spoiled>().register::<Note>()
            }

            /// P18.
            async fn commits_on_ok(db: Db) {
                let worker = db.start(worker(&db));
                let id = db.enqueue(Charge::new("a", Step::Return(json!([7])))).await;
                let detail = db.reaches(id, JobState::Completed).await;
                assert_eq!((outcomes(&detail), detail.result.as_deref()), (vec![(1, "completed")], Some("[7]")));
                db.probe.wait_for(What::Ended, "a follows", 1).await;
                let id = db.enqueue(Plain::new()).await;
                assert_eq!(db.reaches(id, JobState::Completed).await.result, None);
                db.finished(3).await;
                if db.engine() != Engine::Sqlite {
                    eventually("no claim record", async || (db.count("queue_claims").await == 0).then_some(())).await;
                }
                worker.stop().await;
                assert_eq!((db.counts().await, db.count("effects").await), ((0, 3, 0), 2));
            }

            /// P18, P19.
            async fn rolls_back_on_everything_else(db: Db) {
                let worker = db.start(worker(&db));
                let ends = [
                    (Step::Fail("no".into()), "failed"),
                    (Step::Panic("no".into()), "panicked"),
                    (Step::deaf("never"), "timed_out"),
                ];
                for (n, (end, outcome)) in ends.into_iter().enumerate() {
                    let id = db.enqueue(Charge::new(n.to_string(), end)).await;
                    let detail = db.reaches(id, JobState::Completed).await;
                    assert_eq!(outcomes(&detail), [(1, outcome), (2, "completed")]);
                    assert_eq!(detail.result.as_deref(), Some("\"again\""));
                }
                db.finished(6).await;
                worker.stop().await;
                assert_eq!((db.counts().await, db.count("effects").await), ((0, 6, 0), 3));
            }

            /// P6, P18, P19.
            async fn a_stale_attempt_commits_nothing(db: Db) {
                if db.engine() == Engine::Sqlite {
                    return; // nobody can take the job while its transaction is open
                }
                let worker = db.start(worker(&db));
                let id = db.enqueue(Charge::new("a", Step::deaf("go"))).await;
                db.probe.wait_for(What::Started, "a", 1).await;
                db.sql(format!("UPDATE queue_jobs SET worker_id = 0, fence = fence + 1 WHERE id = {id}")).await;
                let detail = db.reaches(id, JobState::Completed).await;
                db.probe.release("go");
                db.probe.wait_for(What::Ended, "a", 2).await;
                db.probe.wait_for(What::Started, "a follows", 1).await;
                db.beats(2).await;
                worker.stop().await;
                assert_eq!((outcomes(&detail), db.count("effects").await), (vec![(2, "completed")], 1));
                assert_eq!(db.probe.count(What::Started, "a follows"), 1);
            }

            /// P16: So a unique job that it keeps has not ended before.
            async fn sees_what_others_commit(db: Db) {
                if db.engine() == Engine::Sqlite {
                    return; // nobody else writes while its transaction is open
                }
                let worker = db.start(worker(&db));
                let id = db.enqueue(Look::new()).await;
                db.probe.release("first");
                db.probe.wait_for(What::Started, "second", 1).await;
                db.sql("INSERT INTO effects (label) VALUES ('x')").await;
                db.probe.release("second");
                assert_eq!(db.reaches(id, JobState::Completed).await.result.as_deref(), Some("[0,1]"));
                worker.stop().await;
            }

            /// P9: The pool has one connection, and nobody waits long for it.
            async fn one_that_cannot_begin_is_no_attempt(db: Db) {
                let queue_tests::AnyPool::$pool(pool) = db.pool() else { unreachable!() };
                let options = sqlx::pool::PoolOptions::<$DB>::new().max_connections(1);
                // a slow machine opens its connection within this time, too
                let options = options.acquire_timeout(std::time::Duration::from_secs(2));
                let one = queue_tests::AnyPool::$pool(options.connect_lazy_with((*pool.connect_options()).clone()));
                let worker = db.worker_on(&one).only_registered().register::<Charge>().register::<Note>();
                let worker = db.start(worker);
                let first = db.enqueue(Charge::new("a", Step::deaf("go")).max_retries(0)).await;
                db.probe.wait_for(What::Started, "a", 1).await;
                if db.engine() == Engine::Sqlite {
                    db.probe.release("go"); // handlers have their turns, however long that takes
                }
                let mut ids = vec![first];
                for n in 0..20 {
                    let end = Step::Pause(20);
                    ids.push(db.enqueue(Charge::new(n.to_string(), end).max_retries(0)).await);
                }
                if db.engine() != Engine::Sqlite {
                    let released = "queue_attempts WHERE outcome = 'released' AND error LIKE '%cannot begin%'";
                    eventually("one cannot begin", async || (db.count(released).await > 0).then_some(())).await;
                    db.probe.release("go");
                }
                for id in ids {
                    db.reaches(id, JobState::Completed).await;
                }
                db.finished(42).await;
                worker.stop().await;
                assert_eq!((db.counts().await, db.count("effects").await), ((0, 42, 0), 21));
                assert_eq!(db.count("queue_attempts WHERE outcome NOT IN ('released', 'completed')").await, 0);
            }

            /// P29: The transaction holds the only connection of the pool.
            async fn a_handler_may_ask_for_its_tick(db: Db) {
                let queue_tests::AnyPool::$pool(pool) = db.pool() else { unreachable!() };
                let one = sqlx::pool::PoolOptions::<$DB>::new().max_connections(1);
                let one = queue_tests::AnyPool::$pool(one.connect_lazy_with((*pool.connect_options()).clone()));
                let yearly = queue::schedule::Schedule::cron("@yearly").unwrap();
                db.admin().schedule("yearly", yearly, Ticked::new()).await.unwrap();
                let worker = db.start(db.worker_on(&one).only_registered().register::<Ticked>());
                let plain = db.enqueue(Ticked::new()).await;
                let fired = db.admin().fire_schedule("yearly").await.unwrap();
                for (id, expected) in [(fired, r#"["yearly","yearly"]"#), (plain, "[null,null]")] {
                    assert_eq!(db.reaches(id, JobState::Completed).await.result.as_deref(), Some(expected));
                }
                worker.stop().await;
                assert_eq!(db.count("effects").await, 2);
            }

            /// P18, P39.
            async fn the_worker_alone_completes(db: Db) {
                let worker = db.start(worker(&db));
                let fenced = db.enqueue(Eager::new(false)).await;
                db.reaches(fenced, JobState::Completed).await;
                let twice = db.enqueue(Eager::new(true)).await;
                let detail = db.reaches(twice, JobState::Dead).await;
                let error = detail.job.error.unwrap_or_default();
                assert!(error.contains("called already"), "{error}");
                worker.stop().await;
            }

            /// P39.
            async fn a_worker_on_another_database_is_refused(db: Db) {
                let needed = stringify!($DB).rsplit("::").next().unwrap();
                let others: [WorkerBuilder; 3] = [
                    queue::Worker::builder(sqlx::PgPool::connect_lazy("postgres://nowhere/x").unwrap()),
                    queue::Worker::builder(sqlx::MySqlPool::connect_lazy("mysql://nowhere/x").unwrap()),
                    queue::Worker::builder(sqlx::SqlitePool::connect_lazy("sqlite://nowhere").unwrap()),
                ];
                let mut refused = 0;
                for other in others {
                    let Err(error) = other.only_registered().register::<Plain>().build() else { continue };
                    let text = format!("job `{}` takes `Tx<{needed}>`, but the worker is on", $plain);
                    assert!(error.to_string().contains(&text), "{error}");
                    refused += 1;
                }
                assert_eq!(refused, 2);
                drop(db);
            }

            /// P44.
            async fn a_test_queue_gives_one(db: Db) {
                let queue_tests::AnyPool::$pool(pool) = db.pool() else { unreachable!() };
                let states = |queue: TestQueue<queue::testing::OnPool>| queue.state(db.probe.clone());
                let mut queue = states(TestQueue::new(pool)).register::<Charge>();
                db.enqueue(Charge::new("a", Step::Fail("no".into()))).await;
                let drained = queue.drain().await.expect("an answer");
                assert_eq!(drained.retried, 1);
                // on a slow machine the retry is due before the drain is over
                let mut completed = drained.completed;
                assert_eq!(db.count("effects").await, i64::from(completed > 0));
                if completed == 0 {
                    tokio::time::sleep(std::time::Duration::from_millis(30)).await;
                    completed = queue.drain().await.expect("an answer").expect_ok().completed;
                }
                assert_eq!((completed, db.count("effects").await), (2, 1));
                // its worker dies after the commit: the job is over all the same
                db.enqueue(Plain::new()).await;
                queue.crash_before_end();
                let drained = queue.drain().await.expect("an answer");
                assert_eq!((drained.completed, drained.lost), (1, 0));
                assert_eq!((db.counts().await, db.count("effects").await), ((0, 3, 0), 2));
                // a handler without a row commits what it writes
                queue.perform(&Plain::new()).await.expect("performed");
                assert_eq!(db.count("effects").await, 3);

                let mut tx = pool.begin().await.unwrap();
                Plain::new().enqueue(&mut tx).await.unwrap();
                let error = TestQueue::within(&mut tx).state(db.probe.clone()).drain().await.unwrap_err();
                assert!(error.to_string().contains("works within a transaction"), "{error}");
                tx.rollback().await.unwrap();

                // and a test may call the function
                let mut tx = Tx::from(pool.begin().await.unwrap());
                plain(&mut tx).await;
                Tx::into_inner(tx).rollback().await.unwrap();
                assert_eq!(db.count("effects").await, 3);
            }

            $(mod $module {
                use super::*;
                on_driver!(@tests $engine, commits_on_ok, rolls_back_on_everything_else, a_stale_attempt_commits_nothing,
                    sees_what_others_commit, completes_nothing_without_its_effects, one_that_cannot_begin_is_no_attempt, the_worker_alone_completes, a_worker_on_another_database_is_refused,
                    a_test_queue_gives_one, a_handler_may_ask_for_its_tick);
            })+
        }
    };
    (@tests $engine:ident, $($name:ident),+) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                queue_tests::on(Engine::$engine, async |db: Db| {
                    db.sql("CREATE TABLE effects (label varchar(64) NOT NULL)").await;
                    super::$name(db).await;
                })
                .await;
            }
        )+
    };
}

on_driver!(on_postgres, sqlx::Postgres, Pg, ["charge_pg", "plain_pg", "eager_pg", "look_pg", "spoiled_pg", "ticked_pg"], [postgres Postgres]);
on_driver!(on_mysql, sqlx::MySql, MySql, ["charge_my", "plain_my", "eager_my", "look_my", "spoiled_my", "ticked_my"], [mariadb MariaDb, mysql MySql]);
on_driver!(on_sqlite, sqlx::Sqlite, Sqlite, ["charge_lite", "plain_lite", "eager_lite", "look_lite", "spoiled_lite", "ticked_lite"], [sqlite Sqlite]);

// SQLite in memory has one connection, which is all there is.
/// P29.
#[tokio::test]
async fn in_memory_a_handler_may_ask_for_its_tick() {
    let one = sqlx::sqlite::SqlitePoolOptions::new().max_connections(1).idle_timeout(None).max_lifetime(None);
    let pool = one.connect("sqlite::memory:").await.unwrap();
    queue::migrate(&pool).await.unwrap();
    sqlx::query("CREATE TABLE effects (label text)").execute(&pool).await.unwrap();
    let (admin, yearly) = (queue::admin::Admin::new(&pool), queue::schedule::Schedule::cron("@yearly").unwrap());
    admin.schedule("yearly", yearly, on_sqlite::Ticked::new()).await.unwrap();
    let id = admin.fire_schedule("yearly").await.unwrap();
    TestQueue::new(&pool).drain().await.unwrap().expect_ok();
    let job = admin.job(id).await.unwrap();
    assert_eq!(job.and_then(|job| job.result).as_deref(), Some(r#"["yearly","yearly"]"#));
}

/// Goes on after an error of the database.
#[job(name = "deadlocked", max_retries = 1, backoff = fixed("10ms"))]
async fn deadlocked(ctx: JobContext, tx: &mut Tx<sqlx::MySql>, State(probe): State<Probe>) -> Result<(), JobError> {
    sqlx::query("INSERT INTO effects (label) VALUES ('x')").execute(&mut **tx).await?;
    if ctx.attempt() == 1 {
        sqlx::query("UPDATE counters SET n = 1 WHERE id = 1").execute(&mut **tx).await?;
        probe.perform(&ctx, "deadlocked", &[Step::hold("go")]).await?;
        let defeated = sqlx::query("UPDATE counters SET n = 1 WHERE id = 2").execute(&mut **tx).await;
        assert!(defeated.expect_err("a deadlock").to_string().contains("Deadlock"));
        sqlx::query("INSERT INTO effects (label) VALUES ('after')").execute(&mut **tx).await?;
    }
    Ok(())
}

/// MySQL and MariaDB roll the whole transaction back, and the next statement begins another one.
async fn a_transaction_that_the_server_ended_completes_nothing(db: Db) {
    let queue_tests::AnyPool::MySql(pool) = db.pool() else { unreachable!() };
    db.sql("CREATE TABLE effects (label varchar(64) NOT NULL)").await;
    db.sql("CREATE TABLE counters (id int PRIMARY KEY, n int NOT NULL)").await;
    let rows: Vec<String> = (1..=300).map(|id| format!("({id}, 0)")).collect();
    db.sql(format!("INSERT INTO counters (id, n) VALUES {}", rows.join(", "))).await;
    // it has written more than the handler, so the server rolls the handler back
    let mut other = pool.begin().await.unwrap();
    let session: i64 =
        sqlx::query_scalar("SELECT CAST(CONNECTION_ID() AS SIGNED)").fetch_one(&mut *other).await.unwrap();
    sqlx::query("UPDATE counters SET n = n + 1 WHERE id > 1").execute(&mut *other).await.unwrap();

    let worker = db.start(db.worker_apart().await.only_registered().register::<Deadlocked>());
    let id = db.enqueue(Deadlocked::new()).await;
    db.probe.wait_for(What::Started, "deadlocked", 1).await;
    let waits = tokio::spawn(async move {
        sqlx::query("UPDATE counters SET n = 2 WHERE id = 1").execute(&mut *other).await.expect("it is the survivor");
        other.rollback().await.unwrap();
    });
    let waiting = sessions!("COUNT(*)", "info LIKE 'UPDATE counters%' AND id = ").to_owned() + &session.to_string();
    eventually("the other one waits", async || (db.int(&*waiting).await == 1).then_some(())).await;
    db.probe.release("go");
    let detail = db.reaches(id, JobState::Completed).await;
    waits.await.unwrap();
    worker.stop().await;
    assert_eq!((outcomes(&detail), db.count("effects").await), (vec![(1, "failed"), (2, "completed")], 1));
    let error = detail.attempts[0].error.as_deref().unwrap_or_default();
    assert!(error.contains("ended before the handler did: the database rolled it back"), "{error}");
}

/// P18.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deadlock_on_mariadb() {
    queue_tests::on(Engine::MariaDb, a_transaction_that_the_server_ended_completes_nothing).await;
}

/// P18.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deadlock_on_mysql() {
    queue_tests::on(Engine::MySql, a_transaction_that_the_server_ended_completes_nothing).await;
}

fn outcomes(detail: &JobDetail) -> Vec<(u32, &str)> {
    detail.attempts.iter().map(|attempt| (attempt.attempt, attempt.outcome.as_str())).collect()
}
