//! Run it with
//!
//! ```text
//! cargo run --example schedules
//! ```
//!
//! It shows when a nightly job runs in the two nights in which clocks change. Then a worker fires two schedules for
//! three seconds on a temporary SQLite file. It needs no server.

use std::time::Duration;

use queue::admin::Admin;
use queue::schedule::{Fold, Gap, Schedule, TickKind};
use queue::{JobContext, JobError, Worker, job};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool};

/// The worker writes this schedule into the database. It fires each second, whoever restarts in between.
#[job(schedule = "every 1s")]
async fn measure(ctx: JobContext) -> Result<(), JobError> {
    // the moment for which the job was due, also if it runs late
    if let Some(tick) = ctx.tick().await? {
        println!("   {} #{} stands for the tick at {}", ctx.kind(), ctx.id(), tick.at.format("%T"));
    }
    Ok(())
}

/// At half past two in Berlin. What was missed within six hours is made up for.
#[job(schedule(cron = "30 2 * * *", zone = "Europe/Berlin", missed = all("6h")))]
async fn close_the_books() {}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    println!("1. Clocks go from 2:00 to 3:00 on 29 March, and from 3:00 back to 2:00 on 25 October.");
    let nightly = Schedule::cron("30 2 * * * Europe/Berlin")?;
    let hourly = Schedule::cron("30 * * * * Europe/Berlin")?;
    preview("30 2 * * *", &nightly)?;
    preview("30 2 * * *, gap = skip, fold = both", &nightly.clone().gap(Gap::Skip).fold(Fold::Both))?;
    preview("30 2 * * *, fold = last", &nightly.fold(Fold::Last))?;
    preview("30 * * * *", &hourly)?;
    preview("30 * * * *, gap = shift, fold = first", &hourly.gap(Gap::Shift).fold(Fold::First))?;

    println!("\n2. A worker writes the declared schedules into the database, and fires them.");
    let folder = tempfile::tempdir()?;
    let file = SqliteConnectOptions::new().filename(folder.path().join("jobs.sqlite")).create_if_missing(true);
    let pool = SqlitePool::connect_with(file).await?;
    queue::migrate(&pool).await?;
    Worker::builder(&pool).build()?.run(tokio::time::sleep(Duration::from_millis(3_500))).await?;

    println!("\n3. The database has the schedules and their history.");
    let admin = Admin::new(&pool);
    for it in admin.schedules(None).await? {
        let next = it.next_at.map_or_else(|| "never".to_owned(), |next| next.to_rfc3339());
        println!("   {:<16} {} {}, next at {next}", it.name, it.expression, it.zone);
        for tick in admin.ticks(&it.name, None).await? {
            let job = tick.job.map(|id| format!(" as job #{id}")).unwrap_or_default();
            println!("   {:<16} {} {}{job}", "", tick.at.format("%T"), tick.outcome);
        }
    }
    pool.close().await;
    Ok(())
}

/// Prints the ticks of both nights from one to four o'clock, as the clock in Berlin shows them.
fn preview(what: &str, schedule: &Schedule) -> anyhow::Result<()> {
    println!("   {what}");
    for (night, from, until) in
        [("March", "2026-03-29T00:00:00Z", "2026-03-29T04:00"), ("October", "2026-10-24T23:00:00Z", "2026-10-25T04:00")]
    {
        let ticks = schedule.preview(from.parse()?).take_while(|tick| *tick.local.to_rfc3339() < *until);
        let ticks: Vec<String> = ticks
            .map(|tick| {
                let mark = match tick.kind {
                    TickKind::Normal => "",
                    TickKind::Shifted => " (shifted)",
                    TickKind::SecondOfTwo => " (again)",
                };
                format!("{}{mark}", tick.local.format("%H:%M%:z"))
            })
            .collect();
        println!("      {night:<8} {}", if ticks.is_empty() { "none".to_owned() } else { ticks.join(", ") });
    }
    Ok(())
}
