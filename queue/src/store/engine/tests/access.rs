//! Connections, signals and the schema.

use super::*;

on_each!(
    a_dropped_operation_leaves_the_store_usable,
    only_a_silent_transaction_ends,
    watchers_hear_of_others,
    migrations_agree,
);

async fn a_dropped_operation_leaves_the_store_usable<DB: TestDb>(db: Db<DB>) {
    db.insert(&(0..200).map(|_| job("a")).collect::<Vec<_>>()).await;
    let worker = db.worker().await;
    for after in 0..40 {
        let _ =
            tokio::time::timeout(Duration::from_micros(after * 50), db.store.claim(worker, &[ask("a", 1)], None)).await;
        let _ = tokio::time::timeout(
            Duration::from_micros(after * 50),
            db.store.heartbeat(worker, LEASE, Holding::default(), &[]),
        )
        .await;
    }
    assert!(db.store.heartbeat(worker, LEASE, Holding::default(), &[]).await.unwrap().alive);
    assert!(!db.take(worker, 500).await.is_empty());
    db.store.leave(worker, Duration::ZERO).await.unwrap();
    db.sql("DELETE FROM queue_jobs").await;
}

/// A transaction of a worker that is cut off midway ends, though its connection stays open. A line on which nothing is
/// to be said does not.
async fn only_a_silent_transaction_ends<DB: TestDb>(db: Db<DB>) {
    let session = match DB::KIND {
        crate::engine::Engine::Postgres => "SELECT pg_backend_pid()::bigint",
        crate::engine::Engine::MySql => "SELECT CAST(CONNECTION_ID() AS SIGNED)",
        // no network is between
        _ => return,
    };
    let sessions = async || {
        let mut found = Vec::new();
        for from in [Via::Claims, Via::Ends, Via::Heartbeats] {
            let id = db.store.run(from, Mode::Read, "ask", session, |conn, sql| {
                async move { rows::<DB>(conn, sql, &[]).await?[0].int(0) }.boxed()
            });
            found.push(id.await.unwrap());
        }
        found
    };
    let before = sessions().await;
    let id = db.insert(&[job("a")]).await[0];
    let lock = Box::leak(format!("SELECT id FROM queue_jobs WHERE id = {id} FOR UPDATE").into_boxed_str());
    let locked = Arc::new(tokio::sync::Notify::new());
    let (store, held) = (db.store.clone(), (&*lock, locked.clone()));
    let cut_off = tokio::spawn(async move {
        let silent =
            store.run_within(COUNT_LIMIT, Via::Duties, Mode::Transaction, "hold", held, |conn, (lock, locked)| {
                async move {
                    rows::<DB>(conn, lock, &[]).await?;
                    locked.notify_one();
                    std::future::pending::<Result<(), sqlx::Error>>().await
                }
                .boxed()
            });
        silent.await.map(drop)
    });
    locked.notified().await;
    let began = Instant::now();
    let mut other = db.pool.begin().await.unwrap();
    assert_eq!(rows::<DB>(&mut other, lock, &[]).await.unwrap().len(), 1);
    assert!(began.elapsed() >= Duration::from_secs(6), "{:?}", began.elapsed());
    assert!(!cut_off.is_finished(), "its own limit ended it");
    assert_eq!(sessions().await, before);
    db.store.abandon();
    assert!(cut_off.await.unwrap().is_err());
    db.store.release().await;
}

/// A network that forgets, on the word, all connections that lead through it, and tells nobody. New ones work.
#[cfg(feature = "postgres")]
async fn forgetful(server: std::net::SocketAddr) -> (std::net::SocketAddr, Arc<tokio::sync::watch::Sender<u32>>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let word = Arc::new(tokio::sync::watch::Sender::new(0));
    let sender = word.clone();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let mut forget = sender.subscribe();
            tokio::spawn(async move {
                let mut server = tokio::net::TcpStream::connect(server).await.unwrap();
                tokio::select! {
                    _ = tokio::io::copy_bidirectional(&mut client, &mut server) => {}
                    _ = forget.changed() => {
                        // both ends stay open, until another word
                        let _ = forget.changed().await;
                    }
                }
            });
        }
    });
    (address, word)
}

/// A line that was cut without a word is missed before the end of a job needs it.
#[cfg(feature = "postgres")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_that_was_forgotten_is_missed_before_it_is_needed() {
    let test = async |db: Db<sqlx::Postgres>| {
        let options = db.pool.connect_options();
        let server = tokio::net::lookup_host((options.get_host(), options.get_port())).await.unwrap().next().unwrap();
        let (address, word) = forgetful(server).await;
        let options = options.as_ref().clone().host(&address.ip().to_string()).port(address.port());
        let through = PoolOptions::new().max_connections(2).connect_with(options).await.unwrap();
        let store = SqlStore::<sqlx::Postgres>::new(through);
        store.open().await.unwrap();
        let end = || store.run(Via::Ends, Mode::Write, "end", (), |_, ()| async { Ok(()) }.boxed());
        end().await.unwrap();
        word.send_replace(1);
        let missed = async {
            while store.line(Via::Ends).unwrap().lock().await.is_some() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(HANG, missed).await.expect("it is pinged");
        end().await.unwrap();
        store.release().await;
        word.send_replace(2);
    };
    on_server::<sqlx::Postgres, _>("QUEUE_TEST_POSTGRES_URL", |o, name| o.database(name), test).await;
}

/// Does what nobody should hear of, until nobody does: a signal for something before it may come late.
async fn silent(heard: &tokio::sync::Notify, what: impl AsyncFn()) {
    for _ in 0..20 {
        while tokio::time::timeout(Duration::from_millis(50), heard.notified()).await.is_ok() {}
        what().await;
        if tokio::time::timeout(Duration::from_millis(100), heard.notified()).await.is_err() {
            return;
        }
    }
    panic!("it is heard each time");
}

async fn watchers_hear_of_others<DB: TestDb>(db: Db<DB>) {
    if DB::KIND == crate::engine::Engine::MySql {
        return;
    }
    let heard = Arc::new(tokio::sync::Notify::new());
    let store = db.store.clone();
    let watcher = {
        let heard = heard.clone();
        tokio::spawn(async move { store.watch(&move || heard.notify_one()).await })
    };
    let worker = db.worker().await;
    let begun = async {
        while tokio::time::timeout(Duration::from_millis(50), heard.notified()).await.is_err() {
            db.insert(&[job("a")]).await;
        }
    };
    tokio::time::timeout(HANG, begun).await.expect("the watch begins");
    // a heartbeat wakes nobody
    silent(&heard, async || {
        db.store.heartbeat(worker, LEASE, Holding::default(), &[]).await.unwrap();
    })
    .await;
    for _ in 0..3 {
        db.insert(&[job("a")]).await;
        if DB::KIND == crate::engine::Engine::Postgres {
            db.sql("SELECT 1 FROM pg_notify('queue_jobs', '')").await;
        }
        tokio::time::timeout(HANG, heard.notified()).await.expect("heard in time");
    }
    if DB::KIND == crate::engine::Engine::Postgres {
        // what this process says itself it has told its own workers already
        let told = Arc::new(tokio::sync::Notify::new());
        let subscription = db.store.subscribe(told.clone());
        let soon = |told: Arc<tokio::sync::Notify>| async move {
            tokio::time::timeout(HANG, told.notified()).await.expect("told in time");
        };
        silent(&heard, async || {
            crate::enqueue::group::write(&db.pool, job("a")).await.unwrap();
            soon(told.clone()).await;
            crate::enqueue::group::write_all(db.pool.clone(), vec![job("a"), job("a")]).await.unwrap();
            soon(told.clone()).await;
        })
        .await;
        db.sql("SELECT 1 FROM pg_notify('queue_jobs', 'another')").await;
        soon(heard.clone()).await;
        // unless there are none that it tells
        drop(subscription);
        crate::enqueue::group::write(&db.pool, job("a")).await.unwrap();
        soon(heard.clone()).await;
        crate::enqueue::group::write_all(db.pool.clone(), vec![job("a"), job("a")]).await.unwrap();
        soon(heard).await;
    }
    watcher.abort();
}

async fn migrations_agree<DB: TestDb>(db: Db<DB>) {
    migrate::check(&db.store).await.unwrap();
    migrate::run(db.pool.clone()).await.unwrap();
    assert_eq!(db.int("SELECT COUNT(*) FROM queue_migrations").await, crate::store::schema::LATEST);
    for view in ["queue_all", "queue_stats"] {
        db.sql(format!("DROP VIEW {}", if view == "queue_all" { "queue_stats" } else { "queue_all" })).await;
    }
    for table in [
        "jobs",
        "history",
        "dead",
        "attempts",
        "workers",
        "heartbeats",
        "paused",
        "migrations",
        "schedules",
        "ticks",
        "schedulers",
        "apps",
        "unique_keys",
        "unique_jobs",
        "failures",
    ] {
        db.sql(format!("DROP TABLE queue_{table}")).await;
    }
    db.sql("DROP TABLE IF EXISTS queue_claims").await;
    let missing = migrate::check(&db.store).await.unwrap_err();
    assert!(matches!(missing, Error::Schema(_)), "{missing}");
    let ten = (0..10).map(|_| tokio::spawn(migrate::run(db.pool.clone())));
    for one in futures_util::future::join_all(ten).await {
        one.unwrap().unwrap();
    }
    assert_eq!(db.int("SELECT COUNT(*) FROM queue_migrations").await, crate::store::schema::LATEST);
    if !DB::DDL_IN_TRANSACTION {
        // stopped half way
        db.sql("DELETE FROM queue_migrations").await;
        db.sql("DROP TABLE queue_paused").await;
        migrate::run(db.pool.clone()).await.unwrap();
        migrate::check(&db.store).await.unwrap();
    }
    db.sql("DELETE FROM queue_migrations WHERE version > 1").await;
    db.sql("UPDATE queue_migrations SET version = 9, compatible_since = 1").await;
    migrate::check(&db.store).await.unwrap();
    migrate::run(db.pool.clone()).await.unwrap();
    db.sql("UPDATE queue_migrations SET version = 9, compatible_since = 9").await;
    assert!(matches!(migrate::check(&db.store).await, Err(Error::Schema(_))));
    assert!(matches!(migrate::run(db.pool.clone()).await, Err(Error::Schema(_))));
}
