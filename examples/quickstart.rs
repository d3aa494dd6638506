//! Run it with
//!
//! ```text
//! cargo run --example quickstart
//! ```
//!
//! It runs five jobs on a temporary SQLite file. Two succeed, one fails twice before it succeeds, and one panics once.
//! One becomes a dead letter, which is corrected and sent back. It needs no server and ends after a few seconds.

use std::time::Duration;

use queue::admin::{Admin, Filter};
use queue::{Job, JobContext, JobError, JobState, Worker, job};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool};

/// A job is an async function. The macro adds `struct Greet { name: String }`, which you enqueue.
#[job]
async fn greet(ctx: JobContext, name: String) {
    say(&ctx, &format!("Hello, {name}!"));
}

/// The returned value is stored as the job's result.
#[job]
async fn add(ctx: JobContext, a: i64, b: i64) -> Result<i64, JobError> {
    say(&ctx, &format!("{a} + {b} = {}", a + b));
    Ok(a + b)
}

/// An error is a failure: the job is retried after its backoff, here up to three times.
#[job(max_retries = 3, backoff = fixed("500ms"))]
async fn fetch_rates(ctx: JobContext, bank: String) -> Result<(), String> {
    if ctx.attempt() < 3 {
        say(&ctx, "no answer");
        return Err(format!("{bank} does not answer"));
    }
    say(&ctx, "got the rates");
    Ok(())
}

/// A panic is a failure like any other. The worker continues.
#[job(max_retries = 1, backoff = fixed("500ms"))]
async fn resize_image(ctx: JobContext, width: u32) {
    if ctx.attempt() == 1 {
        say(&ctx, "panics");
        panic!("no pixels to make {width} of");
    }
    say(&ctx, "resized");
}

/// A job without retries left becomes a dead letter.
#[job(queue = "mail", max_retries = 1, backoff = fixed("500ms"))]
async fn send_invoice(ctx: JobContext, to: String) -> Result<(), String> {
    if !to.contains('@') {
        say(&ctx, "bad address");
        return Err(format!("`{to}` is not an address"));
    }
    say(&ctx, &format!("sent to {to}"));
    Ok(())
}

fn say(ctx: &JobContext, what: &str) {
    let name = format!("{} #{}", ctx.kind(), ctx.id());
    println!("   {name:<16} attempt {}: {what}", ctx.attempt());
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    // The worker stores the panic's message with the job. This line keeps Rust's own report out of the output below. Do
    // not copy it into a service: there you want the backtrace.
    std::panic::set_hook(Box::new(|_| {}));

    let folder = tempfile::tempdir()?;
    let file = SqliteConnectOptions::new().filename(folder.path().join("jobs.sqlite")).create_if_missing(true);
    let pool = SqlitePool::connect_with(file).await?;
    queue::migrate(&pool).await?;

    println!("1. Enqueue five jobs in one transaction, which could contain your own data as well.");
    let mut tx = pool.begin().await?;
    Greet::new("Ada").enqueue(&mut tx).await?;
    Add::new(19, 23).after(Duration::from_secs(1)).enqueue(&mut tx).await?;
    FetchRates::new("The bank").enqueue(&mut tx).await?;
    ResizeImage::new(640u32).enqueue(&mut tx).await?;
    let invoice = SendInvoice::new("ada(at)example.org").enqueue(&mut tx).await?;
    tx.commit().await?;

    println!("\n2. A worker runs them, and retries those that fail.");
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let worker = Worker::builder(&pool).concurrency(4).build()?;
    let worker = tokio::spawn(worker.run(async { drop(stopped.await) }));
    let admin = Admin::new(&pool);
    settled(&admin).await?;

    println!("\n3. The database has a record of each job and attempt.");
    tell(&admin).await?;

    println!("\n4. Correct the dead letter and send it back.");
    admin.edit(invoice, |invoice: &mut SendInvoice| invoice.to = "ada@example.org".into()).await?;
    admin.send_back(invoice).await?;
    settled(&admin).await?;

    println!("\n5. Stop the worker. All jobs are completed.");
    let _ = stop.send(());
    worker.await??;
    for stat in admin.stats().await? {
        println!("   {:<16} {} {}", stat.kind, stat.jobs, stat.state);
    }
    pool.close().await;
    Ok(())
}

/// Returns when no job waits or runs.
async fn settled(admin: &Admin) -> Result<(), queue::Error> {
    while admin.stats().await?.iter().any(|stat| !stat.state.is_final()) {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

/// Prints every job with the outcomes of its attempts.
async fn tell(admin: &Admin) -> Result<(), queue::Error> {
    for row in admin.jobs(&Filter::new()).await?.items {
        let Some(detail) = admin.job(row.id).await? else {
            continue;
        };
        let name = format!("{} #{}", row.kind, row.id);
        let result = detail.result.map(|json| format!(", result {json}")).unwrap_or_default();
        let mark = if row.state == JobState::Dead { "a dead letter" } else { row.state.as_str() };
        println!("   {name:<16} {mark}{result}");
        for attempt in detail.attempts {
            println!("   {:16}   attempt {}: {}", "", attempt.attempt, attempt.error.unwrap_or(attempt.outcome));
        }
    }
    Ok(())
}
