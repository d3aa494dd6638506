//! One job: why is it in this state, what moves it on, and where did its time go?

use std::fmt::Write as _;
use std::time::Duration;

use askama::Template;
use axum::body::Bytes;
use chrono::{DateTime, Utc};
use queue::admin::{Attempt, JobDetail, Reason, Search, Word};
use queue::{Error, JobState};

use crate::access::Rights;
use crate::pages::edit::fields;
use crate::pages::jobs::{attempts, sign};
use crate::pages::operations::{self, Line};
use crate::site::{Answer, Ctx, Fields, Frame, Id, Problem, Screen};
use crate::text::{Html, Sign, between, cut, duration, encoded, first_line};

/// The most attempts that are shown.
const ATTEMPTS: usize = 20;
/// A value is shown up to this length, and all arguments together up to the second.
const VALUE: usize = 4_000;
const VALUES: usize = 40_000;
/// So much of an error is shown: as much as is kept.
const ERROR: usize = 9_000;

struct Tried {
    number: u32,
    sign: Sign,
    outcome: String,
    started: String,
    ago: Html,
    took: String,
    worker: String,
    worker_id: i64,
    error: String,
    bar: Html,
}

#[derive(Template)]
#[template(path = "job.html")]
struct Page {
    frame: Frame,
    id: i64,
    kind: String,
    kind_search: String,
    queue: String,
    queue_search: String,
    priority: i16,
    sign: Sign,
    state: JobState,
    is_retrying: bool,
    /// The queue to resume, if that is why the job waits.
    held_by: Option<String>,
    reason: String,
    cure: String,
    known_by: &'static str,
    links: Vec<(String, String)>,
    story: String,
    tried: Vec<Tried>,
    earlier: usize,
    axis: Vec<String>,
    error: String,
    args: Vec<(String, String)>,
    raw_args: String,
    /// Whether it is known which arguments are secret.
    is_declared: bool,
    meta: Vec<(String, String)>,
    result: Option<String>,
    attempts: String,
    key: Option<String>,
    enqueued: Html,
    due: Html,
    ended: Option<Html>,
    touched: Vec<Line>,
}

/// The values of an object by name, or the whole text.
fn shown(json: &str) -> (Vec<(String, String)>, String) {
    match fields(json).filter(|_| json.len() <= VALUES) {
        Some(fields) => {
            (fields.into_iter().map(|(name, value)| (cut(&name, 200), cut(value, VALUE))).collect(), String::new())
        }
        None => (Vec::new(), cut(json, VALUE)),
    }
}

fn outcome(it: &Attempt) -> Sign {
    match it.outcome.as_str() {
        "completed" => Sign::new("completed", ""),
        "running" => Sign::new("running", ""),
        "lost" | "unstarted" => Sign::new("lost", ""),
        "cancelled" | "snoozed" | "released" => Sign::new("cancelled", ""),
        _ => Sign::new("failed", ""),
    }
}

/// The attempts on one scale of time: how long each ran, and how long the job waited before it.
fn tried(detail: &JobDetail, from: DateTime<Utc>, until: DateTime<Utc>, ctx: &Ctx) -> Vec<Tried> {
    let whole = between(from, until).as_secs_f64().max(0.001);
    let place = |time: DateTime<Utc>| (between(from, time).as_secs_f64() / whole * 600.0).min(600.0);
    let earlier = detail.attempts.len().saturating_sub(ATTEMPTS);
    let mut waits_from = from;
    let one = |it: &Attempt| {
        let (sign, ended) = (outcome(it), it.ended_at.unwrap_or(until));
        let class = match sign.class {
            "completed" | "running" | "cancelled" => "f1",
            "lost" => "f3",
            _ => "f2",
        };
        let (start, end) = (place(it.started_at), place(ended));
        let (wide, mut bar) = ((end - start).max(4.0), String::from("<path class=\"g\" d=\"M0 19.5H600\"/>"));
        let waited = place(waits_from);
        if start - waited > 1.0 {
            let _ = write!(bar, "<path class=\"gap\" d=\"M{waited:.1} 10H{start:.1}\"/>");
        }
        let x = start.min(600.0 - wide);
        let _ = write!(bar, "<rect class=\"{class}\" x=\"{x:.1}\" y=\"4\" width=\"{wide:.1}\" height=\"12\"/>");
        waits_from = ended;
        Tried {
            number: it.attempt,
            sign,
            outcome: it.outcome.replace('_', " "),
            started: it.started_at.format("%T").to_string(),
            ago: ctx.ago(it.started_at),
            took: it.ended_at.map_or_else(|| "–".to_owned(), |end| duration(between(it.started_at, end))),
            worker: it.worker_name.clone().unwrap_or_else(|| format!("worker {}", it.worker)),
            worker_id: it.worker,
            error: cut(first_line(it.error.as_deref().unwrap_or_default()), 300),
            bar: Html(bar),
        }
    };
    detail.attempts[earlier..].iter().map(one).collect()
}

/// Five times between the two. Within seconds they would look alike: the first one, and what has passed since.
fn axis(from: DateTime<Utc>, until: DateTime<Utc>) -> Vec<String> {
    let whole = between(from, until);
    let at = |part: u32| from + whole * part / 4;
    if whole < Duration::from_secs(10) {
        let passed = |part: u32| format!("+{}", duration(whole * part / 2));
        let mut axis = vec![from.format("%T").to_string(), passed(1), passed(2)];
        axis.dedup();
        return axis;
    }
    let form = match whole.as_secs() / 86_400 {
        0 => "%T",
        // a quarter of it is no whole day
        1..5 => "%a %H:%M",
        _ => "%b %d",
    };
    (0..=4).map(|part| at(part).format(form).to_string()).collect()
}

/// The links of the application, and that to the trace.
fn links(detail: &JobDetail, ctx: &Ctx) -> Vec<(String, String)> {
    let trace = ctx.site.trace_url.as_ref().and_then(|url| {
        let id = trace_id(detail.meta.as_deref()?)?;
        Some(("Trace".to_owned(), url.replace("{trace_id}", &id)))
    });
    let own = ctx.site.links.iter().filter_map(|(label, url)| Some((label.clone(), url(detail)?)));
    let is_safe = |url: &str| {
        ["https://", "http://"].iter().any(|begin| url.starts_with(begin))
            || url.starts_with('/') && !url.starts_with("//")
    };
    trace.into_iter().chain(own).filter(|(_, url)| is_safe(url)).collect()
}

/// The second part of a `traceparent`, if it is one.
fn trace_id(meta: &str) -> Option<String> {
    let meta: serde_json::Value = serde_json::from_str(meta).ok()?;
    let id = meta["traceparent"].as_str()?.split('-').nth(1)?;
    (id.len() == 32 && id.bytes().all(|it| it.is_ascii_hexdigit())).then(|| id.to_owned())
}

/// What each outcome of the attempts says together: "6 min 38 s from enqueue to end; ran 34 s of it".
fn story(detail: &JobDetail, until: DateTime<Utc>) -> String {
    let ran = detail.attempts.iter().map(|it| between(it.started_at, it.ended_at.unwrap_or(until))).sum();
    let whole = duration(between(detail.job.enqueued_at, until));
    let end = if detail.job.state.is_final() { "end" } else { "now" };
    format!("{whole} from enqueue to {end}; ran {} of it", duration(ran))
}

pub(crate) async fn show(ctx: Ctx, Id(id): Id) -> Answer {
    let world = ctx.world(false).await?;
    let detail = ctx.admin().job(id.into()).await?.ok_or(Error::NotFound(id.into()))?;
    let job = &detail.job;
    let error = job.error.clone().unwrap_or_default();
    let mut is_held = false;
    let (reason, cure, known_by) = match job.state {
        JobState::Completed => ("it has completed".to_owned(), String::new(), ""),
        JobState::Cancelled => ("it was cancelled".to_owned(), String::new(), ""),
        JobState::Dead => {
            let tries = if job.attempt == 1 {
                "its attempt failed".to_owned()
            } else {
                format!("{} attempts failed", job.attempt)
            };
            let cure =
                "It stays until you act. Send it back when the cause is gone: then it has all its retries again.";
            (format!("it is dead: {tries}, and no retry is left or would help"), cure.to_owned(), "")
        }
        _ => {
            let why = ctx.admin().why(job.id).await?;
            is_held = matches!(why.reason, Reason::Paused { .. });
            (why.reason.to_string(), why.cure.unwrap_or_default(), why.known_by)
        }
    };
    // an account from before there were records
    let touched = ctx.admin().operations_on(job.id).await.unwrap_or_default();
    let until = job.finished_at.unwrap_or_else(|| ctx.now());
    let ((args, raw_args), (meta, raw_meta)) = (shown(&detail.args), shown(detail.meta.as_deref().unwrap_or("{}")));
    let meta = if raw_meta.is_empty() { meta } else { vec![("meta".to_owned(), raw_meta)] };
    let kind = cut(&job.kind, 120);
    let page = Page {
        frame: ctx.frame(Some(&world), Screen::Jobs, format!("Job {id}, {}: {kind}", sign(job).word)),
        id,
        kind_search: encoded(&Word::new("kind", &job.kind).to_string()),
        kind,
        queue: cut(&job.queue, 120),
        queue_search: encoded(&Word::new("queue", &job.queue).to_string()),
        priority: job.priority,
        sign: sign(job),
        state: job.state,
        is_retrying: job.retrying,
        held_by: is_held.then(|| job.queue.clone()),
        reason: sentence(&cut(&reason, 600)),
        cure: sentence(&cut(&cure, 600)),
        known_by,
        links: links(&detail, &ctx),
        story: story(&detail, until),
        tried: tried(&detail, job.enqueued_at, until, &ctx),
        earlier: detail.attempts.len().saturating_sub(ATTEMPTS),
        axis: axis(job.enqueued_at, until),
        error: cut(&error, ERROR),
        args,
        raw_args,
        is_declared: detail.hidden.is_some(),
        meta,
        result: detail.result.as_ref().map(|result| cut(result, VALUE)),
        attempts: attempts(job),
        key: detail.unique_key.as_ref().map(|key| cut(key, 600)),
        enqueued: ctx.ago(job.enqueued_at),
        due: ctx.ago(job.run_at),
        ended: job.finished_at.map(|at| ctx.ago(at)),
        touched: operations::lines(&touched, &ctx),
    };
    ctx.page(&page)
}

impl Page {
    fn waits(&self) -> bool {
        matches!(self.state, JobState::Scheduled | JobState::Ready)
    }

    fn can_edit(&self) -> bool {
        self.state == JobState::Dead || self.waits()
    }
}

/// With a capital letter, unless it begins with a name such as `web-1:871`.
fn sentence(text: &str) -> String {
    let first = text.split_whitespace().next().unwrap_or_default();
    if !first.chars().all(|letter| letter.is_alphabetic() || ",;".contains(letter)) {
        return text.to_owned();
    }
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().collect::<String>() + chars.as_str())
}

/// What takes a moment and can be undone by another one. The rest goes through a plan.
pub(crate) async fn act(ctx: Ctx, Id(id): Id, body: Bytes) -> Answer {
    let form = Fields::read(&body);
    let admin = ctx.acting(Rights::ACT, form.text("reason")).await?;
    let deed = form.text("do");
    match deed {
        "retry" => admin.retry(id.into()).await?,
        "send_back" => admin.send_back(id.into()).await?,
        "reschedule" => {
            let after = Search::span(form.text("after").trim()).and_then(|span| ctx.now().checked_add_signed(span));
            let after = after.ok_or_else(|| Problem::unclear("Say when it is due: write 30s, 20m or 2h."))?;
            admin.reschedule(id.into(), after).await?;
        }
        _ => return Err(Problem::unclear("Say what to do: retry, send back or reschedule.")),
    }
    Ok(ctx.done(&format!("jobs/{id}"), deed, 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_found_in_the_metadata() {
        let meta = r#"{"traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}"#;
        assert_eq!(trace_id(meta).as_deref(), Some("4bf92f3577b34da6a3ce929d0e0e4736"));
        for wrong in ["{}", "[", r#"{"traceparent":"00-../../x-00-01"}"#, r#"{"traceparent":7}"#] {
            assert_eq!(trace_id(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_sentence_begins_with_a_capital_letter_and_a_name_as_it_is() {
        assert_eq!(sentence("its queue is paused"), "Its queue is paused");
        assert_eq!(sentence("web-1:871 has had it"), "web-1:871 has had it");
        assert_eq!(sentence(""), "");
    }

    #[test]
    fn no_two_labels_of_the_axis_are_alike() {
        let at = |ms| DateTime::from_timestamp_millis(ms).expect("a time");
        assert_eq!(axis(at(500), at(760)), ["00:00:00", "+0.1 s", "+0.2 s"]);
        assert_eq!(axis(at(0), at(40_000)), ["00:00:00", "00:00:10", "00:00:20", "00:00:30", "00:00:40"]);
        assert_eq!(axis(at(0), at(8 * 86_400_000)), ["Jan 01", "Jan 03", "Jan 05", "Jan 07", "Jan 09"]);
        for ms in [
            0,
            1,
            2,
            3,
            90,
            150,
            260,
            999,
            1_000,
            1_500,
            2_100,
            3_000,
            9_999,
            10_000,
            86_500_000,
            400_000_000,
            432_000_000,
        ] {
            let mut axis = axis(at(0), at(ms));
            let all = axis.len();
            axis.sort();
            axis.dedup();
            assert_eq!(axis.len(), all, "{ms}: {axis:?}");
        }
    }

    #[test]
    fn an_object_is_shown_by_name_and_anything_else_whole() {
        let (fields, raw) = shown(r#"{"z":1.10,"a":{"x":[1]}}"#);
        assert_eq!(fields, [("z".to_owned(), "1.10".to_owned()), ("a".to_owned(), r#"{"x":[1]}"#.to_owned())]);
        assert_eq!(raw, "");
        assert_eq!(shown("[1]"), (Vec::new(), "[1]".to_owned()));
        let large = format!("{{\"a\":\"{}\"}}", "x".repeat(1_000_000));
        assert!(shown(&large).1.len() < VALUE + 10);
    }
}
