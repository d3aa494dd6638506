//! An operator's command-line tool around [`Admin`]. Copy it into your service:
//!
//! ```text
//! DATABASE_URL=sqlite://jobs.sqlite cargo run --example admin -- stats
//! ```
//!
//! `examples/admin.sh` runs each command on a temporary database. The tool needs no job code, so one binary serves
//! every database (`--features postgres`, `--features mysql`).

use std::process::ExitCode;

use anyhow::Context;
use queue::admin::{Admin, Filter, JobRow};
use queue::{JobId, JobState};

const USAGE: &str = "usage: DATABASE_URL=… admin COMMAND
  stats               number of jobs by kind, queue and state, and the time of the oldest
  workers             worker processes
  running             running jobs, longest first
  retrying [KIND]     jobs that failed and are tried again: their last errors and next attempts
  dead [KIND]         the oldest dead letters, with their errors
  job ID              one job with its arguments and attempts
  send-back KIND [N]  run dead letters of this kind again, with all attempts: all of them, or the oldest N
  retry ID            run a scheduled job now, or a dead letter again
  cancel ID           cancel a job: a waiting one at once, a running one with its worker's next heartbeat
  pause QUEUE         stop claims from this queue; running jobs continue
  resume QUEUE";

/// Times are in UTC.
const TIME: &str = "%F %T";

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> anyhow::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    if words.is_empty() {
        anyhow::bail!(USAGE);
    }
    let admin = open(&std::env::var("DATABASE_URL").context("DATABASE_URL")?).await?;
    match words[..] {
        ["stats"] => stats(&admin).await?,
        ["workers"] => workers(&admin).await?,
        ["running"] => running(&admin).await?,
        ["retrying"] => retrying(&admin, Filter::new()).await?,
        ["retrying", kind] => retrying(&admin, Filter::new().kind(kind)).await?,
        ["dead"] => dead(&admin, Filter::new()).await?,
        ["dead", kind] => dead(&admin, Filter::new().kind(kind)).await?,
        ["job", id] => show(&admin, id.parse()?).await?,
        ["send-back", kind] => send_back(&admin, Filter::new().kind(kind)).await?,
        ["send-back", kind, most] => send_back(&admin, Filter::new().kind(kind).limit(most.parse()?)).await?,
        ["retry", id] => admin.retry(id.parse()?).await?,
        ["cancel", id] => admin.cancel(id.parse()?).await?,
        ["pause", queue] => admin.pause(queue).await?,
        ["resume", queue] => admin.resume(queue).await?,
        _ => anyhow::bail!(USAGE),
    }
    Ok(())
}

async fn open(url: &str) -> anyhow::Result<Admin> {
    Ok(match url.split(':').next() {
        Some("sqlite") => Admin::new(&sqlx::SqlitePool::connect(url).await?),
        #[cfg(feature = "postgres")]
        Some("postgres" | "postgresql") => Admin::new(&sqlx::PgPool::connect(url).await?),
        #[cfg(feature = "mysql")]
        Some("mysql" | "mariadb") => Admin::new(&sqlx::MySqlPool::connect(url).await?),
        _ => anyhow::bail!("DATABASE_URL names an engine that this program was not built for (see --features)"),
    })
}

async fn stats(admin: &Admin) -> anyhow::Result<()> {
    for it in admin.stats().await? {
        let retrying = if it.retrying > 0 { format!(", {} retrying", it.retrying) } else { String::new() };
        println!(
            "{:>9}  {:9}  {}, queue {}, since {}{retrying}",
            it.jobs,
            it.state.to_string(),
            it.kind,
            it.queue,
            it.oldest.format(TIME)
        );
    }
    for it in admin.queues().await? {
        if let Some(since) = it.paused_at {
            println!("queue {} is paused since {}", it.queue, since.format(TIME));
        }
    }
    Ok(())
}

async fn workers(admin: &Admin) -> anyhow::Result<()> {
    for it in admin.workers().await? {
        let life = if it.alive { "alive" } else { "gone" };
        let queues = if it.queues.is_empty() { "all queues".to_owned() } else { it.queues.join(", ") };
        println!("{:>6}  {life:5}  {}:{}, runs {} of {}, {queues}", it.id, it.host, it.pid, it.running, it.concurrency);
    }
    Ok(())
}

async fn running(admin: &Admin) -> anyhow::Result<()> {
    let mut filter = Filter::new().state(JobState::Running).limit(1000);
    let mut jobs = Vec::new();
    loop {
        let page = admin.jobs(&filter).await?;
        jobs.extend(page.items);
        let Some(next) = page.next else { break };
        filter = filter.after(next);
    }
    jobs.sort_by_key(|job| job.claimed_at);
    for job in jobs {
        let since = job.claimed_at.map_or_else(|| "?".to_owned(), |at| at.format(TIME).to_string());
        let worker = job.worker.unwrap_or_default();
        println!(
            "{:>9}  since {since}  {}, queue {}, attempt {}, worker {worker}",
            job.id, job.kind, job.queue, job.attempt
        );
    }
    Ok(())
}

async fn retrying(admin: &Admin, filter: Filter) -> anyhow::Result<()> {
    let page = admin.jobs(&filter.retrying()).await?;
    for job in &page.items {
        println!("{:>9}  next attempt {}", job.id, job.run_at.format(TIME));
        line(job);
    }
    if page.next.is_some() {
        println!("… and more");
    }
    Ok(())
}

async fn dead(admin: &Admin, filter: Filter) -> anyhow::Result<()> {
    let page = admin.jobs(&filter.state(JobState::Dead)).await?;
    page.items.iter().for_each(line);
    if page.next.is_some() {
        println!("… and more");
    }
    Ok(())
}

fn line(job: &JobRow) {
    let error = job.error.as_deref().unwrap_or_default().lines().next().unwrap_or_default();
    println!("{:>9}  {}, queue {}, attempt {}: {error}", job.id, job.kind, job.queue, job.attempt);
}

async fn show(admin: &Admin, id: JobId) -> anyhow::Result<()> {
    let Some(detail) = admin.job(id).await? else { anyhow::bail!("there is no job {id}") };
    line(&detail.job);
    println!("{}, enqueued {}, arguments {}", detail.job.state, detail.job.enqueued_at.format(TIME), detail.args);
    for it in &detail.attempts {
        let worker = it.worker_name.as_deref().unwrap_or("?");
        let error = it.error.as_deref().unwrap_or("-");
        println!("  {}  attempt {} {}, {worker}: {error}", it.started_at.format(TIME), it.attempt, it.outcome);
    }
    Ok(())
}

async fn send_back(admin: &Admin, filter: Filter) -> anyhow::Result<()> {
    println!("{} dead letters sent back", admin.send_back_all(&filter).await?);
    Ok(())
}
