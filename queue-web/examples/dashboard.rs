//! An application with its worker and the dashboard, on SQLite in a temporary file:
//!
//! ```sh
//! cargo run -p queue-web --example dashboard
//! ```
//!
//! Some of its jobs fail, some become dead letters, one queue is paused and one has no worker. Everybody may do
//! everything: it listens on this machine alone.

use std::time::Duration;

use axum::Router;
use axum::response::Redirect;
use axum::routing::get;
use queue::admin::{Actor, Admin};
use queue::schedule::Schedule;
use queue::{Job as _, JobError, Worker, enqueue_all, job};
use queue_web::{Colour, Dashboard};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions};
use tokio::net::TcpListener;
use tokio::time::sleep;

/// Some addresses do not exist, and the relay is sometimes busy.
#[job(queue = "mail", max_retries = 2, backoff = exponential("2s", max = "30s"))]
async fn send_invoice(to: String, invoice: u64, amount_cents: u64) -> Result<u64, JobError> {
    sleep(Duration::from_millis(40 + invoice % 7 * 20)).await;
    match invoice % 40 {
        3 => Err(JobError::dead(format!("550 5.1.1 no such user {to}"))),
        7 | 8 => Err(JobError::retry(format!("421 4.7.0 too many connections from 192.0.2.{}", invoice % 200))),
        _ => Ok(amount_cents),
    }
}

#[job(queue = "media", max_retries = 0)]
async fn resize_image(image: u64, widths: Vec<u32>) -> Result<(), JobError> {
    sleep(Duration::from_millis(300 * widths.len() as u64)).await;
    if image % 25 == 4 {
        return Err(JobError::dead(format!("unsupported colour space \"CMYK-{image}\"\ncaused by: no decoder")));
    }
    Ok(())
}

#[job(queue = "reports", timeout = "2s", max_retries = 5, backoff = fixed("20m"))]
async fn export_report(year: u32) -> Result<(), JobError> {
    sleep(Duration::from_secs(if year.is_multiple_of(2) { 60 } else { 1 })).await;
    Ok(())
}

#[job(queue = "billing", unique(by = (account)))]
async fn charge(account: u64, cents: i64) {
    let _ = (account, cents);
}

/// Nobody serves this queue.
#[job(queue = "archive")]
async fn archive(bucket: String) {
    let _ = bucket;
}

#[job(queue = "reports", schedule = "0 9 * * MON-FRI Europe/Berlin")]
async fn daily_report() {}

#[job(queue = "reports", schedule = "every 1m")]
async fn clean_up() {
    sleep(Duration::from_millis(500)).await;
}

type Failed = Box<dyn std::error::Error + Send + Sync>;

async fn produce(pool: sqlx::SqlitePool) -> Result<(), Failed> {
    for second in 0_u64.. {
        let invoices = (0..8).map(|n| second * 8 + n).map(|invoice| {
            SendInvoice::new(format!("customer-{invoice}@example.org"), invoice, 1_000 + invoice * 17 % 90_000)
        });
        enqueue_all(&pool, invoices).await?;
        ResizeImage::new(second, vec![320_u32, 1_280]).enqueue(&pool).await?;
        if second % 20 == 0 {
            ExportReport::new(2_000 + u32::try_from(second / 20 % 30)?).enqueue(&pool).await?;
        }
        if second < 12 {
            Charge::new(4_000 + second, 129_900).enqueue(&pool).await?;
            Archive::new(format!("photos-{second}")).enqueue(&pool).await?;
        }
        sleep(Duration::from_secs(1)).await;
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Failed> {
    let place = tempfile::tempdir()?;
    let options = SqliteConnectOptions::new().filename(place.path().join("jobs.sqlite")).create_if_missing(true);
    let options = options.journal_mode(SqliteJournalMode::Wal);
    let pool = SqlitePoolOptions::new().max_connections(8).connect_with(options).await?;
    queue::migrate(&pool).await?;

    let admin = Admin::new(&pool);
    admin.acting(Actor::new("grace").reason("INC-421: charges twice")).pause("billing").await?;
    admin.schedule("shop-7-prices", Schedule::cron("*/10 8-20 * * * Europe/London")?, Archive::new("prices")).await?;
    admin.acting(Actor::new("ada").reason("the price feed is wrong")).pause_schedule("shop-7-prices").await?;

    let worker = Worker::builder(&pool).concurrency(16);
    let worker =
        ["mail", "media", "reports", "billing"].into_iter().fold(worker, |it, queue| it.queue(queue, 8)).build()?;
    let work = tokio::spawn(worker.run(queue::shutdown_signal()));
    tokio::spawn(produce(pool.clone()));

    let dashboard = Dashboard::new(admin)
        .instance("example", Colour::Green)
        .link("Invoice", |job| {
            let args: serde_json::Value = serde_json::from_str(&job.args).ok()?;
            Some(format!("https://shop.example.org/invoices/{}", args["invoice"].as_u64()?))
        })
        .trace_url("https://traces.example.org/{trace_id}")
        .open_to_everybody();
    let app = Router::new().route("/", get(async || Redirect::to("/jobs"))).nest("/jobs", dashboard);
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:7878".to_owned());
    let listener = TcpListener::bind(&address).await?;
    println!("http://{}/jobs", listener.local_addr()?);
    axum::serve(listener, app).with_graceful_shutdown(queue::shutdown_signal()).await?;
    work.await??;
    Ok(())
}
