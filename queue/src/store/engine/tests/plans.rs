//! How the database runs the statements.

use super::*;
use crate::store::engine::statement::{Script, When, all, sql, topic};

on_each!(
    plans_do_not_follow_the_statistics,
    searches_read_ranges_of_the_primary_key,
    keys_are_looked_up,
    #[ignore = "a measurement"]
    rate,
);

/// A plan of PostgreSQL's is made once for a connection, when the table is empty, full, or was full before the last
/// vacuum, which then cannot tell a good way to a row from a bad one. Jobs are still looked up by their key or by their
/// lane.
async fn plans_do_not_follow_the_statistics<DB: TestDb>(db: Db<DB>) {
    if DB::KIND != crate::engine::Engine::Postgres {
        return;
    }
    let ended = r#"[{"id":1,"fence":1,"ran_us":1,"state":"completed","outcome":"failed","error":"e"}]"#;
    let cancelled = End { outcome: AttemptOutcome::Cancelled, ..End::completed(Hold { id: 1, fence: 1 }, 1, None) };
    let finished = DB::finish_list(&[cancelled]);
    let beat =
        [1.into(), 1.into(), r#"["a"]"#.into(), "[1]".into(), "[1]".into(), 1.into(), 0.into(), 1.into(), 1.into()];
    let claim = |kinds: Option<&'static str>| {
        let binds =
            [1.into(), "a".into(), "default".into(), 0.into(), 0.into(), 0.into(), 99.into(), 1.into(), 1.into()];
        binds.into_iter().chain([kinds.into()]).collect::<Vec<Bind<'_>>>()
    };
    let ask =
        r#"[{"ask":0,"kind":"a","queue":"default","priority":0,"take":9,"after_us":0,"after_id":0,"newest":false}]"#;
    let held = r#"[{"id":1,"fence":1,"worker_id":1,"fate":"ready","doubts":0,"losses":1,"error":"x"}]"#;
    let statements: [(&str, &[Bind<'_>]); 16] = [
        (DB::ATTEMPTS.started.first(), &[1.into(), held.into()]),
        (sql!("postgres", "claims", "claim"), &claim(None)),
        (sql!("postgres", "claims", "claim"), &claim(Some(r#"["a","b"]"#))),
        (sql!("postgres", "claims", "claim_many"), &[1.into(), ask.into(), 1.into()]),
        (
            sql!("postgres", "claims", "preview"),
            &[ask.into(), 9.into(), 9.into(), 0.into(), 0.into(), 0.into(), 0.into(), 9.into(), 0.into()],
        ),
        (sql!("postgres", "claims", "discover"), &[r#"[{"kind":"a","queue":"","priority":0}]"#.into(), 99.into()]),
        (DB::ATTEMPTS.finish.first(), &finished.behind(1)),
        (DB::ATTEMPTS.requeue.first(), &[1.into(), ended.into()]),
        (DB::ATTEMPTS.bury.first(), &[1.into(), ended.into()]),
        (DB::LEASES.heartbeat.first(), &beat),
        (DB::LEASES.holding, &[1.into()]),
        (DB::ATTEMPTS.still_held, &[1.into(), held.into()]),
        (DB::LEASES.forget_claims.expect("there are claim records").first(), &[]),
        (DB::LEASES.lost, &[100.into()]),
        (DB::LEASES.lock_lost, &[held.into()]),
        (DB::LEASES.rescue.first(), &[held.into()]),
    ];
    let claims = "INSERT INTO queue_claims (worker_id, job_ids)
                  SELECT 1, ARRAY(SELECT generate_series(n, n + 100)) FROM generate_series(1, 200) AS n";
    let vacuumed = "UPDATE pg_class SET reltuples = 0, relpages = pg_relation_size(oid) / 8192
                    WHERE relname LIKE 'queue%' AND relkind IN ('r', 'i')
                      AND relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'queue_jobs'::regclass)";
    let situations: [&[&'static str]; 4] = [
        &[],
        &["INSERT INTO queue_jobs (kind) SELECT 'a' FROM generate_series(1, 20000)", claims],
        &["ANALYZE"],
        &["DELETE FROM queue_jobs", vacuumed],
    ];
    for situation in situations {
        for sql in situation {
            db.sql(*sql).await;
        }
        let mut conn = db.pool.acquire().await.unwrap();
        conn.close_on_drop();
        for sql in DB::OPEN_LINE {
            DB::raw(&mut conn, sql).await.unwrap();
        }
        for (number, (sql, binds)) in statements.iter().enumerate() {
            let plan = plan_of::<DB>(&mut conn, number, sql, binds).await;
            let scans =
                plan.windows(2).filter(|lines| lines[0].contains("Scan") && lines[0].contains(" on queue_jobs"));
            let sound = scans.clone().all(|lines| {
                let by = |index: &str, condition: &str| lines[0].contains(index) && lines[1].contains(condition);
                by("queue_jobs_pkey", "Cond: (id = ")
                    || by("queue_jobs_cancelling", "Cond: (id = ")
                    || by("queue_jobs_order", "Cond: (kind = ")
                    || by("queue_jobs_order", "Cond: ((kind = ")
            });
            assert!(sound && scans.count() > 0, "{situation:?}\n{}", plan.join("\n"));
            // a pair that must be less ends no scan: it would read all of a lane
            assert!(!plan.iter().any(|line| line.contains("ROW(queue, priority) <")), "{}", plan.join("\n"));
        }
    }
}

/// How PostgreSQL would run a statement that is prepared once.
async fn plan_of<DB: TestDb>(conn: &mut DB::Connection, number: usize, sql: &str, binds: &[Bind<'_>]) -> Vec<String> {
    let of = |each: fn(&Bind<'_>) -> String| binds.iter().map(each).collect::<Vec<_>>().join(", ");
    let types = of(|bind| match bind {
        Bind::Int(_) => "bigint".into(),
        Bind::Ints(_) => "bigint[]".into(),
        Bind::Text(_) => "text".into(),
    });
    let values = of(|bind| match bind {
        Bind::Int(value) => value.map_or("NULL".into(), |value| value.to_string()),
        Bind::Ints(list) => format!("ARRAY{list:?}"),
        Bind::Text(value) => value.map_or("NULL".into(), |value| format!("'{value}'")),
    });
    let (types, values) = match binds.len() {
        0 => Default::default(),
        _ => (format!("({types})"), format!("({values})")),
    };
    let prepare = format!("PREPARE plan_{number} {types} AS\n{sql}").leak();
    DB::raw(conn, prepare).await.unwrap_or_else(|error| panic!("{prepare}: {error}"));
    let explain = format!("EXPLAIN EXECUTE plan_{number} {values}").leak();
    let rows = rows::<DB>(conn, explain, &[]).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    rows.iter().map(|row| row.text(0).unwrap()).collect()
}

/// What a search looks at is a range of ids in each table, whatever the statistics say: a plan for any values, and one
/// for these.
async fn searches_read_ranges_of_the_primary_key<DB: TestDb>(db: Db<DB>) {
    let slice = [15_000.into(), 100.into(), 0.into(), 100.into(), 100.into(), 100.into()];
    let (unset, text) = (Bind::Int(None), Bind::Text(None));
    let jobs = [
        14_000.into(),
        text,
        text,
        text,
        15_000.into(),
        unset,
        "x".into(),
        unset,
        unset,
        unset,
        unset,
        0.into(),
        unset,
        "x".into(),
        "u".into(),
        9.into(),
    ];
    let admin = DB::ADMIN;
    let statements: [(&str, &[Bind<'_>]); 5] = [
        (admin.slice_back, &slice),
        (admin.slice_on, &slice),
        (admin.jobs_hot, &jobs),
        (admin.jobs_over, &jobs),
        (admin.jobs_dead, &jobs),
    ];
    let (full, emptied): (&[&'static str], &[&'static str]) = match DB::KIND {
        crate::engine::Engine::Postgres => (
            &["INSERT INTO queue_jobs (kind) SELECT 'a' FROM generate_series(1, 20000)"],
            &["UPDATE pg_class SET reltuples = 0, relpages = pg_relation_size(oid) / 8192
               WHERE relname LIKE 'queue%' AND relkind IN ('r', 'i')
                 AND relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'queue_jobs'::regclass)"],
        ),
        crate::engine::Engine::MySql => (
            &["INSERT INTO queue_jobs (kind) WITH RECURSIVE n AS
               (SELECT 1 AS n UNION ALL SELECT n + 1 FROM n WHERE n < 1000)
               SELECT 'a' FROM n JOIN (SELECT 1 FROM n LIMIT 20) AS m"],
            &[],
        ),
        crate::engine::Engine::Sqlite => return,
    };
    let columns = "id, kind, queue, args, priority, attempt, fence, worker_id, enqueued_at, run_at";
    let ends = [
        format!("INSERT INTO queue_history ({columns}, state) SELECT {columns}, 'completed' FROM queue_jobs"),
        format!("INSERT INTO queue_dead ({columns}, error) SELECT {columns}, 'e' FROM queue_jobs"),
    ];
    for sql in full.iter().map(|sql| (*sql).to_owned()).chain(ends) {
        db.sql(sql).await;
    }
    if DB::KIND == crate::engine::Engine::MySql {
        let mut conn = db.pool.acquire().await.unwrap();
        for (sql, binds) in statements {
            let text: Vec<&str> = sql.lines().filter(|line| !line.starts_with("--")).collect();
            let explain = format!("EXPLAIN FORMAT=TRADITIONAL {}", text.join("\n")).leak();
            let rows = rows::<DB>(&mut conn, explain, binds).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
            // the way to the rows follows the table's name (on MySQL after its partitions)
            let cells = |row: &DB::Row| (2..=6).filter_map(|at| row.maybe_text(at).ok().flatten()).collect::<Vec<_>>();
            let ways: Vec<_> =
                rows.iter().map(cells).filter(|way| way.first().is_some_and(|it| it.starts_with("queue_"))).collect();
            assert!(
                ways.iter().all(|way| way.iter().any(|it| ["range", "eq_ref", "const"].contains(&&**it))),
                "{ways:?}"
            );
            assert!(!ways.is_empty(), "{sql}");
        }
        return;
    }
    for situation in [&[][..], &["ANALYZE"], emptied] {
        for sql in situation {
            db.sql(*sql).await;
        }
        let mut conn = db.pool.acquire().await.unwrap();
        conn.close_on_drop();
        for (mode, sql) in
            [(0, "SET plan_cache_mode = force_generic_plan"), (10, "SET plan_cache_mode = force_custom_plan")]
        {
            DB::raw(&mut conn, sql).await.unwrap();
            for (number, (sql, binds)) in statements.iter().enumerate() {
                let plan = plan_of::<DB>(&mut conn, mode + number, sql, binds).await;
                let is_of_jobs =
                    |line: &str| ["jobs", "history", "dead"].iter().any(|it| line.contains(&format!("on queue_{it}")));
                for lines in plan.windows(2).filter(|lines| lines[0].contains("Scan") && is_of_jobs(&lines[0])) {
                    // of a bitmap, the index is in another line
                    let way = ["_pkey", "Bitmap Heap Scan"].iter().any(|it| lines[0].contains(it));
                    assert!(way && lines[1].contains("Cond: ("), "{situation:?}\n{}", plan.join("\n"));
                }
                assert!(plan.iter().any(|line| line.contains("_pkey")), "{}", plan.join("\n"));
            }
        }
    }
}

/// Where jobs are named by their keys, MySQL and MariaDB look each up. With a handful of rows (or none, by statistics
/// of before they came) they would read the whole table instead, and lock jobs of others on the way.
async fn keys_are_looked_up<DB: TestDb>(db: Db<DB>) {
    if DB::KIND != crate::engine::Engine::MySql {
        return;
    }
    // enough that some ids are consecutive
    db.insert(&vec![job("a"); 32]).await;
    db.sql(
        "INSERT INTO queue_attempts (job_id, fence, attempt, worker_id, started_at, ended_at, outcome)
         SELECT id, 1, 1, 1, run_at, run_at, 'failed' FROM queue_jobs",
    )
    .await;
    db.sql(
        "INSERT INTO queue_history (id, kind, queue, state, args, priority, attempt, fence, worker_id, enqueued_at, \
         run_at)
         SELECT id, kind, queue, 'completed', args, priority, 1, 1, 1, enqueued_at, run_at FROM queue_jobs",
    )
    .await;
    let mut conn = db.pool.acquire().await.unwrap();
    let mut checked = 0;
    let files = [
        topic!("mysql", "claims"),
        topic!("mysql", "attempts"),
        topic!("mysql", "leases"),
        topic!("mysql", "retention"),
        topic!("mysql", "admin"),
    ];
    for (name, text) in files.into_iter().flat_map(all) {
        for (when, step) in Script::new(text).steps() {
            checked += lookups_of::<DB>(&mut conn, name, when, step).await;
        }
    }
    assert!(checked > 30, "{checked} lookups");
}

/// Explains a step. Returns how many lookups it has.
async fn lookups_of<DB: TestDb>(conn: &mut DB::Connection, name: &str, when: When, step: &str) -> usize {
    let in_runs = when == When::Runs || name.ends_with("_runs");
    if !in_runs && !step.contains("JSON_TABLE(") {
        return 0;
    }
    let statement: Vec<&str> = step.lines().filter(|line| !line.starts_with("--")).collect();
    let explain = format!("EXPLAIN FORMAT=TRADITIONAL {}", statement.join("\n")).leak();
    let bind = |place| match place {
        place if explain.contains(&format!("JSON_TABLE(${place}")) => "[]".into(),
        place if in_runs && explain.contains(&format!("AND ${place}")) => 32.into(),
        _ => 1.into(),
    };
    let binds: Vec<Bind<'_>> = (1..=18).map(bind).collect();
    let rows = rows::<DB>(conn, explain, &binds).await.unwrap_or_else(|error| panic!("{name}: {error}\n{step}"));
    // the way to the rows follows the table's name (on MySQL after its partitions)
    let cells = |row: &DB::Row| (2..=4).map(|cell| row.maybe_text(cell).ok().flatten()).collect::<Vec<_>>();
    let mut checked = 0;
    for row in rows.iter().map(cells) {
        let is_ours = row[0].as_deref().is_some_and(|alias| matches!(alias, "j" | "h" | "a" | "w" | "free"));
        // none: MySQL knows by itself that there is no such row
        let ways: Vec<_> = row[1..].iter().flatten().filter(|way| *way != "PRIMARY").collect();
        let looks_up = ways.iter().all(|way| match way.as_str() {
            "eq_ref" | "ref" | "const" => true,
            way => in_runs && way == "range",
        });
        assert!(!is_ours || looks_up, "{name}: {row:?}\n{step}");
        checked += usize::from(is_ours);
    }
    checked
}

/// Claim and finish in batches of 500, one worker:
/// `cargo test -p queue --release --all-features -- rate --ignored --nocapture`.
async fn rate<DB: TestDb>(db: Db<DB>) {
    const JOBS: usize = 50_000;
    let jobs: Vec<_> =
        (0..JOBS).map(|n| NewJob { args: format!("{{\"n\":{n},\"s\":\"{:032}\"}}", n), ..job("a") }).collect();
    let begin = Instant::now();
    db.insert(&jobs).await;
    let inserted = begin.elapsed();
    let worker = db.worker().await;
    let (mut claim, mut finish) = (Duration::ZERO, Duration::ZERO);
    let mut behind = None;
    let begin = Instant::now();
    loop {
        let start = Instant::now();
        let mut jobs = db.store.claim(worker, &[Ask { behind, ..ask("a", 500) }], None).await.unwrap();
        claim += start.elapsed();
        jobs.sort_by_key(|j| (j.run_at, j.id));
        let Some(last) = jobs.last() else { break };
        behind = Some((last.run_at, last.id.get()));
        let batch: Vec<_> = jobs.iter().map(plain).collect();
        let start = Instant::now();
        assert_eq!(db.store.end(worker, &batch).await.unwrap().len(), jobs.len());
        finish += start.elapsed();
    }
    let both = begin.elapsed();
    println!(
        "{}: insert {:.0}/s, claim+finish {:.0}/s (claim {:.2} ms, finish {:.2} ms per 500)",
        DB::ENGINE,
        JOBS as f64 / inserted.as_secs_f64(),
        JOBS as f64 / both.as_secs_f64(),
        claim.as_secs_f64() * 1e3 / 100.0,
        finish.as_secs_f64() * 1e3 / 100.0,
    );
}
