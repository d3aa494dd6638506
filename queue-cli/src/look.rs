//! The commands that look.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use queue::admin::{
    Admin, Attempt, Count, FailureGroup, Filter, JobDetail, JobRow, QueueInfo, Reason, Search, WorkerInfo,
};
use queue::{Error, JobId, JobState};
use serde_json::{Value, json};

use crate::audit;
use crate::failure::Failure;
use crate::findings::{self, World};
use crate::flow::{self, Flow};
use crate::screen::Screen;
use crate::text::{Look, Table, Tone, clean, count, cut, duration, first_line, jobs, quoted, thousands};

/// The most queues that are shown in the text of `status`.
const QUEUES: usize = 20;
/// The most attempts of a job that are shown.
const ATTEMPTS: usize = 20;

/// What `status` tells of a queue's jobs, before its flow.
const DEPTHS: [&str; 6] = ["QUEUE", ">READY", ">RUNNING", ">SCHEDULED", ">DEAD", "OLDEST"];

pub(crate) const NO_QUEUE: &str = "No queue has unfinished jobs or dead letters, and none is paused.\n";
pub(crate) const NO_ERROR: &str = "Nothing fails.\n";

/// What `status` tells.
#[derive(Debug, Clone)]
pub(crate) struct Status {
    pub(crate) world: World,
    pub(crate) queues: Vec<QueueInfo>,
    /// Of each queue in its order, those too that have no jobs now.
    pub(crate) flows: BTreeMap<String, Flow>,
    /// Why there are no flows.
    pub(crate) flowless: Option<String>,
}

impl Status {
    pub(crate) async fn read(admin: &Admin) -> Result<Self, Error> {
        let mut world = World::read(admin).await?;
        world.read_failing(admin).await?;
        sort(&mut world.workers);
        let flows = flow::read(admin).await.map_err(|error| clean(&error.to_string()));
        Ok(Self::new(world, flows))
    }

    pub(crate) fn new(world: World, flows: Result<BTreeMap<String, Flow>, String>) -> Self {
        let (mut flows, flowless) = match flows {
            Ok(flows) => (flows, None),
            Err(why) => (BTreeMap::new(), Some(format!("How much ends cannot be told: {why}"))),
        };
        let queues = world.queues();
        for it in &queues {
            flows.entry(it.queue.clone()).or_default();
        }
        Self { world, queues, flows, flowless }
    }

    pub(crate) fn queue(&self, name: &str) -> Option<&QueueInfo> {
        self.queues.iter().find(|it| it.queue == name)
    }

    /// The queues that wait longest, and how many others there are. If there are few, all of them by name.
    fn worst(&self) -> (Vec<(&String, &Flow)>, usize) {
        let mut names: Vec<_> = self.flows.iter().collect();
        let others = names.len().saturating_sub(QUEUES);
        if others > 0 {
            let urgency = |name: &str| self.queue(name).map(|it| (it.oldest_due, it.ready.jobs, it.dead.jobs));
            names.sort_by_key(|(name, _)| std::cmp::Reverse(urgency(name)));
            names.truncate(QUEUES);
        }
        (names, others)
    }

    /// A row for each of these flows.
    pub(crate) fn table<'a>(&self, flows: impl IntoIterator<Item = (&'a String, &'a Flow)>) -> Table {
        let mut table = Table::new(&[&DEPTHS[..], &Flow::TITLES].concat());
        for (name, flow) in flows {
            let (it, none) = (self.queue(name), Count::default());
            let counts = it.map_or([none; 4], |it| [it.ready, it.running, it.scheduled, it.dead]).map(count);
            let oldest = it.and_then(|it| it.oldest_due).map_or_else(|| "-".to_owned(), duration);
            let is_paused = it.is_some_and(|it| it.paused_at.is_some());
            let (tone, paused) = if is_paused { (Tone::Warn, ", paused") } else { (Tone::Plain, "") };
            let name = if name.is_empty() { "(others)" } else { name };
            let (oldest, flow) = (oldest + paused, flow.cells());
            let cells = [name].into_iter().chain(counts.iter().map(String::as_str)).chain([oldest.as_str()]);
            table.row(tone, &cells.chain(flow.iter().map(String::as_str)).collect::<Vec<_>>());
        }
        Flow::TITLES.iter().filter(|_| self.flowless.is_some()).for_each(|title| table.without(title));
        table
    }
}

pub(crate) async fn status(admin: &Admin, screen: &Screen) -> Result<(), Failure> {
    let status = Status::read(admin).await?;
    let (found, [alive, running, slots]) = (findings::status(&status.world), status.world.slots());
    if let Some(why) = &status.flowless {
        screen.say(&format!("{why}\n"));
    }
    if screen.json {
        let queue = |(name, flow): (&String, &Flow)| {
            let (it, none) = (status.queue(name), Count::default());
            let [ready, running, scheduled, dead] =
                it.map_or([none; 4], |it| [it.ready, it.running, it.scheduled, it.dead]);
            let mut object = json!({
                "queue": name, "ready": ready, "running": running, "scheduled": scheduled, "dead": dead,
                "oldest_due_s": it.and_then(|it| it.oldest_due).map(|age| age.as_secs_f64()),
                "paused": it.is_some_and(|it| it.paused_at.is_some()),
            });
            if status.flowless.is_none() {
                flow.add_to(&mut object);
            }
            object
        };
        return screen.object(&json!({
            "database": screen.database, "at": screen.look.now, "findings": found,
            "queues": status.flows.iter().map(queue).collect::<Vec<_>>(),
            "workers": {"alive": alive, "running": running, "slots": slots},
        }));
    }
    let mut out = screen.header() + "\n" + &screen.findings(&found);
    if found.is_empty() {
        out += &format!("  {} All well.\n", screen.look.paint(Tone::Good, "✓"));
    }
    if alive > 0 {
        let [alive, running, slots] = [alive, running, slots].map(thousands);
        let workers = format!("Workers alive: {alive}. Slots busy: {running} of {slots}.");
        out += &format!("\n  {}\n", screen.look.wrap(&workers, 2, 2));
    }
    let (worst, others) = status.worst();
    if !worst.is_empty() {
        out += &format!("\n{}", status.table(worst).lines(&screen.look, 2));
    }
    if others > 0 {
        out += &format!(
            "  These have waited longest. Queues beside them: {}. All: queue queues\n",
            thousands(others as u64)
        );
    }
    screen.out(&out)
}

/// What happened to the job last, or happens next.
fn moment(job: &JobRow) -> DateTime<Utc> {
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

/// Jobs as a table. What the search says of all of them is left out.
pub(crate) fn table(jobs: &[JobRow], search: &Search, screen: &Screen) -> String {
    let mut table = Table::new(&[">ID", "STATE", "KIND", "QUEUE", ">TRY", "WHEN", "ERROR"]);
    for job in jobs {
        let (id, attempt, time) = (job.id.to_string(), job.attempt.to_string(), screen.look.time(moment(job)));
        let error = first_line(job.error.as_deref().unwrap_or_default());
        table.row(tone(job.state), &[&id, job.state.as_str(), &job.kind, &job.queue, &attempt, &time, error]);
    }
    let same = [("STATE", "state"), ("KIND", "kind"), ("QUEUE", "queue")];
    same.iter().filter(|(_, name)| search.value(name).is_some()).for_each(|(title, _)| table.without(title));
    table.lines(&screen.look, 0)
}

pub(crate) async fn list(
    admin: &Admin,
    screen: &Screen,
    words: &[String],
    limit: u32,
    before: Option<JobId>,
) -> Result<(), Failure> {
    let search = Search::parse(&words.join(" "), screen.look.now)?;
    let filter = search.filter.clone().limit(limit);
    let page = admin.jobs(&before.map_or_else(|| filter.clone(), |before| filter.clone().before(before))).await?;
    match (screen.json, page.items.is_empty()) {
        (true, _) => page.items.iter().try_for_each(|job| screen.object(job))?,
        (_, false) => screen.out(&table(&page.items, &search, screen))?,
        (_, true) if page.complete => {
            let more = if before.is_some() { " more" } else { "" };
            screen.say(&format!("No{more} job matches.\n{}", slips(admin, &search).await?));
        }
        (_, true) => screen.say(&slips(admin, &search).await?),
    }
    if let Some(next) = page.next {
        let found = if page.items.is_empty() { "No job yet".to_owned() } else { jobs(page.items.len() as u64) };
        let back = page.back_to.map_or_else(String::new, |time| format!(" back to {}", screen.look.time(time)));
        let words: String = words.iter().map(|word| quoted(word) + " ").collect();
        let limit = if limit == 100 { String::new() } else { format!("--limit {limit} ") };
        screen.say(&format!(
            "{found}, searched{back} ({} looked at). Go on: queue list {words}{limit}--before {next}\n",
            jobs(page.searched),
        ));
    }
    Ok(())
}

/// Sentences about a kind and a queue of the search that nobody uses.
pub(crate) async fn slips(admin: &Admin, search: &Search) -> Result<String, Failure> {
    let (kind, queue) = (search.value("kind"), search.value("queue"));
    if kind.is_none() && queue.is_none() {
        return Ok(String::new());
    }
    let world = World::read(admin).await?;
    let [kinds, queues] = world.names();
    Ok(slip("kind", kind, &kinds) + &slip("queue", queue, &queues))
}

/// A sentence if no unfinished job, dead letter or worker has this name, with the one that was probably meant.
pub(crate) fn slip(what: &str, value: Option<&str>, known: &[&str]) -> String {
    let Some(value) = value.filter(|value| !known.contains(value)) else { return String::new() };
    let near = Search::nearest(value, known.iter().copied());
    let near = near.map_or_else(String::new, |near| format!(" Did you mean `{}`?", clean(near)));
    format!("No waiting job and no worker has the {what} `{}`.{near}\n", clean(value))
}

pub(crate) async fn show(admin: &Admin, screen: &Screen, id: JobId) -> Result<(), Failure> {
    let detail = admin.job(id).await?.ok_or(Error::NotFound(id))?;
    if screen.json {
        return screen.object(&detail);
    }
    screen.out(&(story(&detail, screen) + &audit::of_job(admin, screen, id).await))
}

/// Why all arguments are hidden.
const UNDECLARED: &str = "all arguments, until a worker tells which of this kind are secret";

/// A job as a page.
fn story(detail: &JobDetail, screen: &Screen) -> String {
    let (job, id) = (&detail.job, detail.job.id);
    let time = screen.look.time(moment(job));
    let stopping = if job.cancel_requested { ", told to stop" } else { "" };
    let (state, next) = match job.state {
        JobState::Scheduled => {
            let next = format!("queue retry {id}\nqueue reschedule {id} --in 1h\nqueue cancel {id}");
            (format!("{} {time}", if job.retrying { "its next attempt is due" } else { "due" }), next)
        }
        JobState::Ready => (format!("ready, due {time}"), format!("queue why {id}\nqueue cancel {id}")),
        JobState::Running => (format!("running, claimed {time}{stopping}"), format!("queue cancel {id}")),
        JobState::Dead => {
            let next = format!("queue send-back {id}\nqueue edit {id} --set NAME=VALUE\nqueue delete {id}");
            (format!("dead {time}"), next)
        }
        state => (format!("{state} {time}"), String::new()),
    };
    let pretty = |text: &String| {
        let value: Option<Value> = serde_json::from_str(text).ok();
        value.and_then(|value| serde_json::to_string_pretty(&value).ok()).unwrap_or_else(|| text.clone())
    };
    let tries = job.max_retries.map(|most| format!("{} of {}", job.attempt, u64::from(most) + 1));
    let fields = [
        ("kind", Some(job.kind.clone()), true),
        ("queue", Some(job.queue.clone()), true),
        ("priority", Some(job.priority.to_string()).filter(|_| job.priority != 0), true),
        ("attempts", tries, true),
        ("key", detail.unique_key.clone(), true),
        ("args", Some(pretty(&detail.args)), false),
        ("hidden", detail.hidden.is_none().then(|| UNDECLARED.to_owned()), true),
        ("meta", detail.meta.as_ref().map(pretty), false),
        ("result", detail.result.as_ref().map(pretty), false),
        ("error", job.error.clone(), true),
    ];
    let fields: String =
        fields.into_iter().filter_map(|(name, text, whole)| Some(screen.field(name, &text?, whole))).collect();
    let head = format!("job {id} · {}\n", screen.look.paint(tone(job.state), &state));
    let enqueued = format!("\n  enqueued {}\n", screen.look.time(job.enqueued_at));
    let gap = if next.is_empty() { "" } else { "\n" };
    head + &fields + &enqueued + &attempts(&detail.attempts, screen) + gap + &screen.field("next", &next, false)
}

/// The attempts in their order.
fn attempts(attempts: &[Attempt], screen: &Screen) -> String {
    let earlier = attempts.len().saturating_sub(ATTEMPTS);
    let mut table = Table::new(&["STARTED", ">TRY", "OUTCOME", ">TOOK", "WORKER", "ERROR"]);
    let mut before = "";
    for it in &attempts[earlier..] {
        let took = it.ended_at.map(|end| duration((end - it.started_at).to_std().unwrap_or_default()));
        let error = it.error.as_deref().map(first_line).unwrap_or_default();
        let told = if !error.is_empty() && error == before { "the same" } else { error };
        before = error;
        let worker = it.worker_name.clone().unwrap_or_else(|| format!("worker {}", it.worker));
        let tone = match it.outcome.as_str() {
            "completed" => Tone::Good,
            "failed" | "panicked" | "timed_out" | "undecodable" | "lost" => Tone::Bad,
            _ => Tone::Plain,
        };
        let (started, attempt) = (screen.look.time(it.started_at), it.attempt.to_string());
        let outcome = it.outcome.replace('_', " ");
        table.row(tone, &[&started, &attempt, &outcome, &took.unwrap_or_default(), &worker, told]);
    }
    match attempts.len() {
        0 => String::new(),
        1..=ATTEMPTS => table.lines(&screen.look, 2),
        _ => format!("  Earlier attempts: {earlier}. See --json.\n{}", table.lines(&screen.look, 2)),
    }
}

pub(crate) async fn why(admin: &Admin, screen: &Screen, id: JobId) -> Result<(), Failure> {
    let why = admin.why(id).await?;
    if screen.json {
        return screen.object(&why);
    }
    let command = match &why.reason {
        Reason::Dead { .. } => format!("queue show {id}\nqueue send-back {id}"),
        Reason::Retrying { .. } | Reason::NotDue { .. } => format!("queue retry {id}"),
        Reason::Paused { .. } => format!("queue resume {}", quoted(&why.queue)),
        Reason::Running { .. } | Reason::Stopping { .. } => format!("queue show {id}"),
        Reason::UnknownKind { .. } | Reason::UnservedQueue { .. } => "queue check".to_owned(),
        Reason::Locked => "queue doctor".to_owned(),
        Reason::NoWorker | Reason::WorkerLost { .. } | Reason::Busy { .. } => "queue workers".to_owned(),
        Reason::Behind { .. } => "queue status".to_owned(),
        _ => String::new(),
    };
    let head = format!("job {id} · {} · queue {}", clean(&why.kind), clean(&why.queue));
    let mut out = cut(&head, screen.look.width.unwrap_or(usize::MAX)) + "\n";
    out += &screen.field("because", &why.reason.to_string(), true);
    out += &screen.field("cure", why.cure.as_deref().unwrap_or_default(), true);
    out += &screen.field("command", &command, false);
    screen.out(&(out + &screen.field("known by", why.known_by, true)))
}

/// So many digits of a group tell it from others.
const DIGITS: usize = 8;

/// A group, as commands name it.
pub(crate) fn short(group: &str) -> &str {
    &group[..DIGITS]
}

pub(crate) async fn errors(admin: &Admin, screen: &Screen, group: Option<&str>) -> Result<(), Failure> {
    let mut failures = admin.failures().await?;
    let group = group.map(str::to_lowercase);
    failures.groups.retain(|it| group.as_ref().is_none_or(|group| it.group.starts_with(&**group)));
    if screen.json {
        return screen.object(&failures);
    }
    match (&failures.groups[..], group) {
        ([], Some(group)) => {
            let message = format!("nothing fails in a group `{}`", clean(&group));
            return Err(Failure::new(1, message).fix("queue errors"));
        }
        ([], None) => screen.say(NO_ERROR),
        ([one], Some(_)) => screen.out(&error(one, screen))?,
        (groups, _) => {
            screen.out(&groups_table(groups, &screen.look).lines(&screen.look, 0))?;
            screen.say("One of them: queue errors GROUP\n");
        }
    }
    if !failures.complete {
        screen.say("There are more failures than were looked at: older ones are not here.\n");
    }
    Ok(())
}

/// Whether a group is new, or has come back.
fn news(it: &FailureGroup) -> &'static str {
    match it.back_since {
        _ if it.is_new => "new",
        Some(_) => "back",
        None => "",
    }
}

/// The hours of a day, as bars.
fn bars(hours: &[u64]) -> String {
    let most = hours.iter().copied().max().unwrap_or(0).max(1);
    let bar = |count: u64| "▁▂▃▄▅▆▇█".chars().nth((count * 7).div_ceil(most) as usize);
    hours.iter().filter_map(|count| bar(*count)).collect()
}

/// "0+" would say nothing.
fn counted(number: Count) -> String {
    if number.jobs == 0 && number.or_more { "-".to_owned() } else { count(number) }
}

/// A row for each group.
pub(crate) fn groups_table(groups: &[FailureGroup], look: &Look) -> Table {
    let mut table = Table::new(&["GROUP", "NEW", "KIND", ">24 H", ">DEAD", ">RETRYING", "LAST", "ERROR"]);
    for it in groups {
        let (news, day) = (news(it), thousands(it.by_hour.iter().sum()));
        let [dead, retrying] = [it.dead, it.retrying].map(counted);
        let (tone, last) = (if it.dead.jobs > 0 { Tone::Bad } else { Tone::Warn }, look.time(it.last));
        let title = it.title.replace('\n', " · ");
        table.row(tone, &[short(&it.group), news, &it.kind, &day, &dead, &retrying, &last, &title]);
    }
    if groups.iter().all(|it| news(it).is_empty()) {
        table.without("NEW");
    }
    if groups.iter().flat_map(|it| it.by_hour).all(|attempts| attempts == 0) {
        table.without(">24 H");
    }
    table
}

/// A group as a page.
pub(crate) fn error(it: &FailureGroup, screen: &Screen) -> String {
    let group = short(&it.group);
    let next = match it.dead.jobs {
        0 => format!("queue list retrying group:{group}\nqueue retry --match 'retrying group:{group}' --first 1"),
        _ => format!(
            "queue list state:dead group:{group}\n\
             queue send-back --match 'group:{group}' --first 1\n\
             queue send-back --match 'group:{group}' --over 10m"
        ),
    };
    // "0+" would say nothing
    let retrying = match (it.retrying.jobs, it.retrying.or_more) {
        (0, true) => String::new(),
        _ => format!(", {} waiting for another attempt", count(it.retrying)),
    };
    let jobs = format!("{} dead{retrying}", count(it.dead));
    let mut when = format!("first {}, last {}", screen.look.time(it.first), screen.look.time(it.last));
    when += if it.is_new { "; new" } else { "" };
    if let Some(back) = it.back_since {
        when += &format!("; it has come back {}", screen.look.time(back));
    }
    let day = match it.by_hour.iter().sum() {
        0 => String::new(),
        1 => format!("{} 1 attempt", bars(&it.by_hour)),
        sum => format!("{} {} attempts", bars(&it.by_hour), thousands(sum)),
    };
    let head = format!("group {group} · {}", clean(&it.kind));
    let fields = [("jobs", jobs), ("failed", when), ("24 hours", day), ("error", it.error.clone())];
    let fields: String = fields.iter().map(|(name, text)| screen.field(name, text, true)).collect();
    let sample = screen.field("sample", &format!("queue show {}", it.sample), false);
    cut(&head, screen.look.width.unwrap_or(usize::MAX))
        + "\n"
        + &fields
        + &sample
        + "\n"
        + &screen.field("next", &next, false)
}

pub(crate) async fn why_all(admin: &Admin, screen: &Screen) -> Result<(), Failure> {
    let lines = admin.why_summary(&Filter::new()).await?;
    let nothing = "No job waits.\n";
    screen.list(&lines, nothing, &[">JOBS", "WAIT", "CURE"], |table, it| {
        let tone = if it.cure.is_some() { Tone::Warn } else { Tone::Plain };
        table.row(tone, &[&count(it.jobs), &it.reason, it.cure.as_deref().unwrap_or("-")]);
    })
}

/// What is told of a worker.
pub(crate) const WORKER: [&str; 7] = ["WORKER", "STATE", ">HOLDS", ">SLOTS", "SINCE", "QUEUES", "KINDS"];

/// The lost ones first, the ended ones last.
fn sort(workers: &mut [WorkerInfo]) {
    workers.sort_by_key(|it| (it.stopped_at.is_some(), it.alive, std::cmp::Reverse(it.id)));
}

/// Its state, and since when.
pub(crate) fn worker_state(it: &WorkerInfo) -> (Tone, &'static str, DateTime<Utc>) {
    match (it.stopped_at, it.alive) {
        (Some(stopped), _) => (Tone::Faint, "ended", stopped),
        (None, true) => (Tone::Plain, "alive", it.started_at),
        (None, false) => (Tone::Bad, "lost", it.heartbeat_at),
    }
}

pub(crate) fn worker_row(table: &mut Table, it: &WorkerInfo, look: &Look) {
    let (tone, state, since) = worker_state(it);
    let queues = served(it);
    let [running, slots] = [it.running, it.concurrency.into()].map(thousands);
    let (name, since) = (format!("{}:{}", it.host, it.pid), look.time(since));
    table.row(tone, &[&name, state, &running, &slots, &since, &queues, &it.kinds.join(", ")]);
}

/// A worker as a page.
#[cfg(feature = "top")]
pub(crate) fn worker(it: &WorkerInfo, screen: &Screen) -> String {
    let (_, state, _) = worker_state(it);
    let [started, heartbeat] = [it.started_at, it.heartbeat_at].map(|at| screen.look.time(at));
    let queues = served(it);
    let holds = format!("{} of {} slots are busy", thousands(it.running), thousands(it.concurrency.into()));
    let fields = [
        ("holds", holds),
        ("started", started),
        ("heartbeat", heartbeat),
        ("queues", queues),
        ("kinds", it.kinds.join(", ")),
    ];
    let fields: String = fields.iter().map(|(name, text)| screen.field(name, text, true)).collect();
    let head = format!("worker {}:{} · {state}", clean(&it.host), it.pid);
    let next = format!("queue list state:running worker:{}\nqueue workers", it.id);
    cut(&head, screen.look.width.unwrap_or(usize::MAX)) + "\n" + &fields + "\n" + &screen.field("next", &next, false)
}

pub(crate) async fn workers(admin: &Admin, screen: &Screen) -> Result<(), Failure> {
    let mut workers = admin.workers().await?;
    sort(&mut workers);
    screen.list(&workers, "No worker has run here.\n", &WORKER, |table, it| worker_row(table, it, &screen.look))
}

/// The queues that a worker serves, each with what it holds and may hold if it has a limit: "mail 8/8, reports".
fn served(it: &WorkerInfo) -> String {
    let one = |queue: &String| match it.limits.get(queue) {
        Some(most) => format!("{queue} {}/{most}", it.held.get(queue).unwrap_or(&0)),
        None => queue.clone(),
    };
    let named = if it.queues.is_empty() { it.limits.keys().collect::<Vec<_>>() } else { it.queues.iter().collect() };
    let all = it.queues.is_empty().then(|| "all".to_owned());
    all.into_iter().chain(named.into_iter().map(one)).collect::<Vec<_>>().join(", ")
}

pub(crate) async fn queues(admin: &Admin, screen: &Screen) -> Result<(), Failure> {
    const TITLES: [&str; 6] = ["QUEUE", ">READY", ">RUNNING", ">SCHEDULED", ">DEAD", "PAUSED"];
    screen.list(&admin.queues().await?, NO_QUEUE, &TITLES, |table, it| {
        let [ready, running, scheduled, dead] = [it.ready, it.running, it.scheduled, it.dead].map(count);
        let (tone, paused) = it.paused_at.map_or((Tone::Plain, "-".into()), |at| (Tone::Warn, screen.look.time(at)));
        table.row(tone, &[&it.queue, &ready, &running, &scheduled, &dead, &paused]);
    })
}

pub(crate) async fn schedules(admin: &Admin, screen: &Screen) -> Result<(), Failure> {
    const TITLES: [&str; 6] = ["NAME", "NEXT", "LAST", "EXPRESSION", "KIND", "NOTE"];
    let mut all = admin.schedules(None).await?;
    let mut size = all.len();
    // a full page
    while size >= 1_000 {
        let more = admin.schedules(all.last().map(|last| last.name.as_str())).await?;
        size = more.len();
        all.extend(more);
    }
    screen.list(&all, "There is no schedule.\n", &TITLES, |table, it| {
        let time = |time: Option<_>| time.map_or_else(|| "-".to_owned(), |time| screen.look.time(time));
        let (tone, note) = match (&it.error, it.paused_at, it.retired_at) {
            (Some(error), ..) => (Tone::Bad, first_line(error).to_owned()),
            (_, _, Some(at)) => (Tone::Faint, format!("removed {}", screen.look.time(at))),
            (_, Some(at), _) => (Tone::Warn, format!("paused {}", screen.look.time(at))),
            _ if !it.watched => (Tone::Warn, "no live worker knows its kind".to_owned()),
            _ => (Tone::Plain, String::new()),
        };
        let when = format!("{} {}", it.expression, it.zone);
        table.row(tone, &[&it.name, &time(it.next_at), &time(it.last_at), when.trim(), &it.kind, &note]);
    })
}
