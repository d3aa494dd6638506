//! The commands that look.

use queue::admin::{Admin, Attempt, JobDetail, JobRow, Reason};
use queue::{JobId, JobState};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::findings::{self, World};
use crate::query::Query;
use crate::screen::Screen;
use crate::text::{Table, Tone, clean, count, cut, duration, exact, first_line, nearest, plain, quoted, thousands};

/// So many attempts of a job are shown.
const ATTEMPTS: usize = 20;

pub(crate) async fn world(admin: &Admin) -> Result<World, Failure> {
    Ok(World::new(&admin.gauges().await?, &admin.workers().await?))
}

pub(crate) async fn status(admin: &Admin, screen: &Screen) -> Result<(), Failure> {
    let world = world(admin).await?;
    let (found, queues, (running, slots)) = (findings::status(&world), world.queues(), world.slots());
    if screen.json {
        let workers = json!({"alive": world.alive(), "running": running, "slots": slots});
        return screen.object(&json!({
            "database": screen.database, "at": screen.look.now, "findings": found, "queues": queues, "workers": workers,
        }));
    }
    let mut out = screen.header() + "\n";
    out += &screen.findings(&found);
    if found.is_empty() {
        out += &format!("  {} All well.\n", screen.look.paint(Tone::Good, "✓"));
    }
    let alive = world.alive();
    if alive > 0 {
        let workers =
            if alive == 1 { "1 worker is alive".into() } else { format!("{} workers are alive", thousands(alive)) };
        let workers = format!("{workers}, {} of {} slots are busy.", thousands(running), thousands(slots));
        out += &format!("\n  {}\n", screen.look.wrap(&workers, 2, 2));
    }
    if !queues.is_empty() {
        let mut table = Table::new(&["QUEUE", ">READY", ">RUNNING", ">SCHEDULED", ">DEAD", "OLDEST"]);
        for queue in queues {
            let oldest = queue.oldest_due_s.and_then(|age| std::time::Duration::try_from_secs_f64(age).ok());
            let oldest =
                oldest.map_or_else(|| "-".to_owned(), |age| duration(std::time::Duration::from_secs(age.as_secs())));
            let counts = [queue.ready, queue.running, queue.scheduled, queue.dead].map(count);
            let [ready, running, scheduled, dead] = counts;
            let dead = (if queue.dead.jobs > 0 { Tone::Warn } else { Tone::Plain }, dead);
            let last = if queue.paused { (Tone::Warn, format!("{oldest}, paused")) } else { plain(oldest) };
            table.row([plain(queue.queue), plain(ready), plain(running), plain(scheduled), dead, last]);
        }
        out += &format!("\n{}", table.lines(&screen.look, 2));
    }
    screen.out(&out)
}

/// What happened to the job last, or happens next.
fn moment(job: &JobRow) -> chrono::DateTime<chrono::Utc> {
    match job.state {
        JobState::Running => job.claimed_at.unwrap_or(job.run_at),
        state if state.is_final() => job.finished_at.unwrap_or(job.run_at),
        _ => job.run_at,
    }
}

fn tone(state: JobState) -> Tone {
    match state {
        JobState::Dead => Tone::Bad,
        JobState::Running => Tone::Good,
        JobState::Completed | JobState::Cancelled => Tone::Faint,
        _ => Tone::Plain,
    }
}

/// Jobs as a table. What the query says of all of them is left out.
pub(crate) fn table(jobs: &[JobRow], query: &Query, screen: &Screen) -> String {
    let mut table = Table::new(&[">ID", "STATE", "KIND", "QUEUE", ">TRY", "WHEN", "ERROR"]);
    for job in jobs {
        table.row([
            plain(job.id.to_string()),
            (tone(job.state), job.state.to_string()),
            plain(&job.kind),
            plain(&job.queue),
            plain(job.attempt.to_string()),
            plain(screen.look.time(moment(job))),
            plain(first_line(job.error.as_deref().unwrap_or_default())),
        ]);
    }
    let same = [("STATE", query.state.is_some()), ("KIND", query.kind.is_some()), ("QUEUE", query.queue.is_some())];
    let same = same.into_iter().filter(|(_, same)| *same);
    same.fold(table, |table, (title, _)| table.without(title)).lines(&screen.look, 0)
}

pub(crate) async fn list(
    admin: &Admin,
    screen: &Screen,
    words: &[String],
    limit: u32,
    after: Option<JobId>,
) -> Result<(), Failure> {
    let query = Query::parse(words, screen.look.now).map_err(|error| Failure::usage(error, None))?;
    let mut filter = query.filter().limit(limit);
    if let Some(after) = after {
        filter = filter.after(after);
    }
    let page = admin.jobs(&filter).await?;
    if screen.json {
        screen.objects(&page.items)?;
    } else if !page.items.is_empty() {
        screen.out(&table(&page.items, &query, screen))?;
    }
    if page.items.is_empty() && !screen.json {
        let more = if after.is_some() { " more" } else { "" };
        screen.say(&format!("No{more} job matches.\n{}", slips(admin, &query).await?));
    }
    if let Some(next) = page.next {
        let words: Vec<String> = words.iter().map(|word| quoted(word) + " ").collect();
        let limit = if limit == 100 { String::new() } else { format!("--limit {limit} ") };
        screen.say(&format!("There are more: queue list {}{limit}--after {next}\n", words.concat()));
    }
    Ok(())
}

/// A kind or queue of the query that nobody uses, and the one that was probably meant.
pub(crate) async fn slips(admin: &Admin, query: &Query) -> Result<String, Failure> {
    if query.kind.is_none() && query.queue.is_none() {
        return Ok(String::new());
    }
    let world = world(admin).await?;
    let slip = |what, value: &Option<String>, known: Vec<&str>| slip(what, value.as_deref()?, &known);
    let both = [slip("kind", &query.kind, world.names(true)), slip("queue", &query.queue, world.names(false))];
    Ok(both.into_iter().flatten().collect())
}

/// A sentence if no unfinished job, dead letter or worker has this name.
pub(crate) fn slip(what: &str, value: &str, known: &[&str]) -> Option<String> {
    if known.contains(&value) {
        return None;
    }
    let near = nearest(value, known.iter().copied());
    let near = near.map_or_else(String::new, |near| format!(" Did you mean `{}`?", clean(near)));
    Some(format!("No waiting job and no worker has the {what} `{}`.{near}\n", clean(value)))
}

async fn job(admin: &Admin, id: JobId) -> Result<JobDetail, Failure> {
    Ok(admin.job(id).await?.ok_or(queue::Error::NotFound(id))?)
}

pub(crate) async fn show(admin: &Admin, screen: &Screen, id: JobId) -> Result<(), Failure> {
    let detail = job(admin, id).await?;
    if screen.json {
        return screen.object(&detail);
    }
    screen.out(&story(&detail, screen))
}

/// A job as a page.
fn story(detail: &JobDetail, screen: &Screen) -> String {
    let (job, look) = (&detail.job, &screen.look);
    let mut state = match job.state {
        JobState::Scheduled if job.retrying => format!("its next attempt is due {}", look.time(job.run_at)),
        JobState::Scheduled => format!("due {}", look.time(job.run_at)),
        JobState::Ready => format!("ready, due {}", look.time(job.run_at)),
        JobState::Running => format!("running, claimed {}", look.time(moment(job))),
        state => format!("{state} {}", look.time(moment(job))),
    };
    if job.cancel_requested {
        state += ", told to stop";
    }
    let line = |name: &str, text: &str| {
        format!("  {} {}\n", look.paint(Tone::Faint, &format!("{name:9}")), look.wrap(text, 12, 12))
    };
    let mut out = format!("job {} · {}\n", job.id, look.paint(tone(job.state), &state));
    out += &line("kind", &clean(&job.kind));
    out += &line("queue", &clean(&job.queue));
    if job.priority != 0 {
        out += &line("priority", &job.priority.to_string());
    }
    if let Some(retries) = job.max_retries {
        out += &line("attempts", &format!("{} of {}", job.attempt, u64::from(retries) + 1));
    }
    if let Some(key) = &detail.unique_key {
        out += &line("key", &clean(key));
    }
    out += &value("args", Some(&detail.args), screen);
    out += &value("meta", detail.meta.as_ref(), screen);
    out += &value("result", detail.result.as_ref(), screen);
    if let Some(error) = &job.error {
        let lines = error.lines().map(|line| look.wrap(&clean(line.trim_end()), 12, 12));
        let name = look.paint(Tone::Faint, "error    ");
        out += &format!("  {name} {}\n", lines.collect::<Vec<_>>().join("\n            "));
    }
    out += &format!("\n  enqueued {}\n", look.time(job.enqueued_at));
    out += &attempts(&detail.attempts, screen);
    let id = job.id;
    let next = match job.state {
        JobState::Dead => format!("queue send-back {id}\nqueue edit {id} --set NAME=VALUE\nqueue delete {id}"),
        JobState::Scheduled => format!("queue retry {id}\nqueue reschedule {id} --in 1h\nqueue cancel {id}"),
        JobState::Ready => format!("queue why {id}\nqueue cancel {id}"),
        JobState::Running => format!("queue why {id}\nqueue cancel {id}"),
        _ => return out,
    };
    out + "\n" + &commands("next", &next, screen)
}

/// Commands below each other.
fn commands(name: &str, commands: &str, screen: &Screen) -> String {
    let lines = commands.lines().enumerate().map(|(at, command)| {
        let name = screen.look.paint(Tone::Faint, &format!("{:9}", if at == 0 { name } else { "" }));
        format!("  {name} {}\n", clean(command))
    });
    lines.collect()
}

/// JSON text in lines, or the text itself.
fn value(name: &str, text: Option<&String>, screen: &Screen) -> String {
    let Some(text) = text else { return String::new() };
    let value: Option<Value> = serde_json::from_str(text).ok();
    let pretty = value.and_then(|value| serde_json::to_string_pretty(&value).ok()).unwrap_or_else(|| text.clone());
    let lines = pretty.lines().enumerate().map(|(at, line)| {
        let name = screen.look.paint(Tone::Faint, &format!("{:9}", if at == 0 { name } else { "" }));
        let line = clean(line);
        let line = screen.look.width.map_or_else(|| line.clone(), |width| cut(&line, width.saturating_sub(12).max(1)));
        format!("  {name} {line}\n")
    });
    lines.collect()
}

/// The attempts in their order.
fn attempts(attempts: &[Attempt], screen: &Screen) -> String {
    let earlier = attempts.len().saturating_sub(ATTEMPTS);
    let mut table = Table::new(&["STARTED", ">TRY", "OUTCOME", ">TOOK", "WORKER", "ERROR"]);
    let mut before = "";
    for attempt in &attempts[earlier..] {
        let took = attempt
            .ended_at
            .map_or_else(String::new, |end| duration((end - attempt.started_at).to_std().unwrap_or_default()));
        let error = attempt.error.as_deref().map(first_line).unwrap_or_default();
        let told = if !error.is_empty() && error == before { "the same" } else { error };
        before = error;
        let worker = attempt.worker_name.clone().unwrap_or_else(|| format!("worker {}", attempt.worker));
        let tone = match attempt.outcome.as_str() {
            "completed" => Tone::Good,
            "failed" | "panicked" | "timed_out" | "undecodable" | "lost" => Tone::Bad,
            _ => Tone::Plain,
        };
        table.row([
            plain(screen.look.time(attempt.started_at)),
            plain(attempt.attempt.to_string()),
            (tone, attempt.outcome.replace('_', " ")),
            plain(took),
            plain(worker),
            plain(told),
        ]);
    }
    let skipped = if earlier > 0 {
        format!("  {} earlier attempts: see --json\n", thousands(earlier as u64))
    } else {
        String::new()
    };
    if attempts.is_empty() { String::new() } else { skipped + &table.lines(&screen.look, 2) }
}

pub(crate) async fn why(admin: &Admin, screen: &Screen, id: JobId) -> Result<(), Failure> {
    let why = admin.why(id).await?;
    if screen.json {
        return screen.object(&why);
    }
    let command = match &why.reason {
        Reason::Dead { .. } => Some(format!("queue show {id}\nqueue send-back {id}")),
        Reason::Retrying { .. } | Reason::NotDue { .. } => Some(format!("queue retry {id}")),
        Reason::Paused { .. } => Some(format!("queue resume {}", quoted(&why.queue))),
        Reason::Running { .. } | Reason::Stopping { .. } => Some(format!("queue show {id}")),
        Reason::UnknownKind { .. } | Reason::UnservedQueue { .. } => Some("queue check".to_owned()),
        Reason::NoWorker | Reason::WorkerLost { .. } | Reason::Busy { .. } => Some("queue workers".to_owned()),
        Reason::Behind { .. } | Reason::Unexplained { .. } => Some("queue status".to_owned()),
        _ => None,
    };
    let line = |name: &str, text: &str| {
        let name = screen.look.paint(Tone::Faint, &format!("{name:9}"));
        format!("  {name} {}\n", screen.look.wrap(&clean(text), 12, 12))
    };
    let head = format!("job {id} · {} · queue {}", clean(&why.kind), clean(&why.queue));
    let mut out = screen.look.width.map_or_else(|| head.clone(), |width| cut(&head, width)) + "\n";
    out += &line("because", &why.reason.to_string());
    out += &why.cure.as_deref().map_or_else(String::new, |cure| line("cure", cure));
    out += &command.map_or_else(String::new, |command| commands("command", &command, screen));
    out += &line("known by", why.known_by);
    screen.out(&out)
}

pub(crate) async fn workers(admin: &Admin, screen: &Screen) -> Result<(), Failure> {
    let mut workers = admin.workers().await?;
    if screen.json {
        return screen.objects(&workers);
    }
    if workers.is_empty() {
        screen.say("No worker has run here.\n");
        return Ok(());
    }
    workers.sort_by_key(|it| (it.stopped_at.is_some(), it.alive, std::cmp::Reverse(it.id)));
    let mut table = Table::new(&["WORKER", "STATE", ">HOLDS", ">SLOTS", "SINCE", "QUEUES", "KINDS"]);
    for it in workers {
        let (state, since) = match (it.stopped_at, it.alive) {
            (Some(stopped), _) => ((Tone::Faint, "ended"), stopped),
            (None, true) => ((Tone::Good, "alive"), it.started_at),
            (None, false) => ((Tone::Bad, "lost"), it.heartbeat_at),
        };
        table.row([
            plain(format!("{}:{}", it.host, it.pid)),
            (state.0, state.1.to_owned()),
            plain(thousands(it.running)),
            plain(thousands(it.concurrency.into())),
            plain(screen.look.time(since)),
            plain(if it.queues.is_empty() { "all".to_owned() } else { it.queues.join(", ") }),
            plain(it.kinds.join(", ")),
        ]);
    }
    screen.out(&table.lines(&screen.look, 0))
}

pub(crate) async fn queues(admin: &Admin, screen: &Screen) -> Result<(), Failure> {
    let queues = admin.queues().await?;
    if screen.json {
        return screen.objects(&queues);
    }
    if queues.is_empty() {
        screen.say("No queue has jobs that wait or run, and none is paused.\n");
        return Ok(());
    }
    let mut table = Table::new(&["QUEUE", ">READY", ">RUNNING", ">SCHEDULED", ">RETRYING", "PAUSED"]);
    for it in queues {
        let [ready, running, scheduled, retrying] = [it.ready, it.running, it.scheduled, it.retrying].map(thousands);
        let paused = it.paused_at.map_or_else(|| plain("-"), |at| (Tone::Warn, screen.look.time(at)));
        table.row([plain(it.queue), plain(ready), plain(running), plain(scheduled), plain(retrying), paused]);
    }
    screen.out(&table.lines(&screen.look, 0))
}

pub(crate) async fn schedules(admin: &Admin, screen: &Screen) -> Result<(), Failure> {
    let mut all = admin.schedules(None).await?;
    // a page is full only if there are many
    while let Some(last) = all.last().filter(|_| all.len() % 1_000 == 0).map(|last| last.name.clone()) {
        let more = admin.schedules(Some(&last)).await?;
        if more.is_empty() {
            break;
        }
        all.extend(more);
    }
    if screen.json {
        return screen.objects(&all);
    }
    if all.is_empty() {
        screen.say("There is no schedule.\n");
        return Ok(());
    }
    let mut table = Table::new(&["NAME", "NEXT", "LAST", "EXPRESSION", "KIND", "NOTE"]);
    for it in all {
        let time = |time: Option<_>| time.map_or_else(|| "-".to_owned(), |time| screen.look.time(time));
        let note = match (&it.error, it.paused_at, it.retired_at) {
            (Some(error), ..) => (Tone::Bad, first_line(error).to_owned()),
            (_, _, Some(at)) => (Tone::Faint, format!("removed {}", exact(at))),
            (_, Some(at), _) => (Tone::Warn, format!("paused {}", screen.look.time(at))),
            _ if !it.watched => (Tone::Warn, "no live worker knows its kind".to_owned()),
            _ => plain(""),
        };
        let when = format!("{} {}", it.expression, it.zone);
        let (next, last) = (time(it.next_at), time(it.last_at));
        table.row([plain(it.name), plain(next), plain(last), plain(when.trim()), plain(it.kind), note]);
    }
    screen.out(&table.lines(&screen.look, 0))
}
