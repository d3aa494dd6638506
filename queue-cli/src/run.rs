//! The commands that look after the database and the workers.

use std::io::IsTerminal as _;

use chrono::{TimeDelta, Utc};
use queue::Error;
use queue::admin::{Admin, Filter};
use serde_json::json;

use crate::Configure;
use crate::database::{Database, engine};
use crate::failure::Failure;
use crate::findings::{self, Finding, Severity, World};
use crate::screen::Screen;
use crate::text::{duration, quoted};

/// Clocks that differ by more make relative times misleading.
const DRIFT: TimeDelta = TimeDelta::seconds(2);

pub(crate) fn script(screen: &Screen, url: &str, from: i64) -> Result<(), Failure> {
    screen.out(&queue::migration::sql_from(engine(url)?, from))
}

/// Works until a signal.
pub(crate) async fn work(
    screen: &Screen,
    url: &str,
    connections: u32,
    configure: Option<Configure>,
) -> Result<(), Failure> {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "info,sqlx=warn".into());
    let colour = std::io::stderr().is_terminal() && screen.look.colour;
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(colour).with_target(false);
    // the program may have a subscriber already
    let _ = log.with_writer(std::io::stderr).try_init();
    // before anything can take long
    let signal = queue::shutdown_signal();
    let db = Database::open(url, connections).await?;
    let worker = configure.into_iter().fold(db.worker(), |builder, configure| configure(builder));
    // the program is wrong, not its words
    let worker = worker.build().map_err(|error| Failure::new(1, error.to_string()))?;
    let done = worker.run(signal).await;
    db.close().await;
    Ok(done?)
}

pub(crate) async fn migrate(db: &Database, screen: &Screen) -> Result<(), Failure> {
    screen.begin();
    db.migrate().await?;
    if screen.json { screen.object(&json!({"migrated": true})) } else { screen.out("The tables are up to date.\n") }
}

/// Prints what was found. Exit code 1 if something is wrong.
fn tell(screen: &Screen, found: &[Finding]) -> Result<(), Failure> {
    let wrong = found.iter().any(|finding| finding.severity != Severity::Ok);
    if screen.json {
        let found: Vec<_> = found.iter().filter(|finding| finding.severity != Severity::Ok).collect();
        screen.object(&json!({"database": screen.database, "at": screen.look.now, "findings": found}))?;
    } else {
        screen.out(&format!("{}\n{}", screen.header(), screen.findings(found)))?;
    }
    if wrong { Err(Failure::new(1, "")) } else { Ok(()) }
}

pub(crate) async fn check(admin: &Admin, screen: &Screen) -> Result<(), Failure> {
    let found = findings::unserved(&World::read(admin).await?);
    tell(screen, &or_fine(found, "Nothing waits that no live worker serves."))
}

fn or_fine(found: Vec<Finding>, fine: &str) -> Vec<Finding> {
    if found.is_empty() { vec![Finding::new(Severity::Ok, fine, "")] } else { found }
}

pub(crate) async fn doctor(db: &Database, screen: &Screen) -> Result<(), Failure> {
    let mut found = vec![Finding::new(Severity::Ok, "The database answers.", "")];
    match db.check().await {
        Ok(()) => found.push(Finding::new(Severity::Ok, "The schema fits this program.", "")),
        Err(error @ (Error::Schema(_) | Error::Config(_))) => {
            let fix = if matches!(error, Error::Schema(_)) { "queue migrate" } else { "" };
            found.push(Finding::new(Severity::Error, error.to_string(), fix));
            return tell(screen, &found);
        }
        Err(error) => return Err(error.into()),
    }
    found.extend(clock(&db.admin).await?);
    let world = World::read(&db.admin).await?;
    let [alive, running, slots] = world.slots();
    let workers = format!("Workers alive: {alive}. Slots busy: {running} of {slots}.");
    found.extend(or_fine(findings::served(&world), &workers));
    found.extend(or_fine(findings::lost(&world), "No worker is lost."));
    found.extend(or_fine(findings::late(&world), "No job has waited for a minute."));
    // those too that are empty
    let paused = world.queues().into_iter().filter_map(|it| Some((it.paused_at?, it.queue)));
    let paused = paused.map(|(at, queue)| {
        let message = format!("The queue `{queue}` was paused {}.", screen.look.time(at));
        Finding::new(Severity::Warning, message, format!("queue resume {}", quoted(&queue)))
    });
    found.extend(or_fine(paused.collect(), "No queue is paused."));
    tell(screen, &found)
}

/// How far the clock of this machine is from the database's.
async fn clock(admin: &Admin) -> Result<Option<Finding>, Failure> {
    let Some(job) = admin.jobs(&Filter::new().limit(1)).await?.items.pop() else { return Ok(None) };
    let before = Utc::now();
    // it may be deleted just now
    let Ok(why) = admin.why(job.id).await else { return Ok(None) };
    let after = Utc::now();
    let ahead = if why.at < before { before - why.at } else { (after - why.at).min(TimeDelta::zero()) };
    if ahead.abs() < DRIFT {
        return Ok(Some(Finding::new(Severity::Ok, "The clocks of this machine and the database agree.", "")));
    }
    let way = if ahead > TimeDelta::zero() { "ahead of" } else { "behind" };
    let far = duration(ahead.abs().to_std().unwrap_or_default());
    let message =
        format!("The clock here is {far} {way} the database's. Jobs follow the database's. Set this one by NTP.");
    Ok(Some(Finding::new(Severity::Warning, message, "queue status --utc")))
}
