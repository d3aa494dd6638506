//! What all pages share: the frame around them, their answers, and how they fail.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use askama::Template;
use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, LOCATION};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{Html as Page, IntoResponse, Response};
use chrono::{DateTime, Utc};
use queue::Error;
use queue::admin::{Actor, Admin, JobDetail};
use tokio::time::Instant;

use crate::access::{Hook, Rights, Visit};
use crate::assets;
use crate::frame::entries;
pub(crate) use crate::frame::{Fields, Frame, Screen};
use crate::looks::Looks;
use crate::text::{self, Html};
use crate::world::World;

/// A look at the database is fresh for so long on a page about what is going on, and for so much longer on any other
/// one. So the counts beside the screens cost next to nothing, however many people look.
const FRESH: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(15)];
/// After a database refused a change because it only reads, the dashboard offers none for so long.
const READS_ONLY: Duration = Duration::from_secs(60);

pub(crate) type LinkOf = Box<dyn Fn(&JobDetail) -> Option<String> + Send + Sync>;

/// The dashboard, shared by all requests.
pub(crate) struct Site {
    pub(crate) admin: Admin,
    pub(crate) look: Hook,
    pub(crate) instance: Option<(String, &'static str)>,
    pub(crate) links: Vec<(String, LinkOf)>,
    pub(crate) trace_url: Option<String>,
    pub(crate) looks: Arc<Looks<World>>,
    pub(crate) refused: Mutex<Option<Instant>>,
}

impl Site {
    fn reads_only(&self) -> bool {
        let at = *self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        at.is_some_and(|at| at.elapsed() < READS_ONLY)
    }

    /// The page of an error.
    pub(crate) async fn explain(self: &Arc<Self>, visit: Visit, problem: Problem) -> Response {
        if problem.reads_only {
            *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        }
        let ctx = Ctx { site: self.clone(), visit };
        // without the database there are no counts beside the screens
        let world = if problem.status.is_server_error() { None } else { ctx.world(false).await.ok() };
        let (frame, status) = (ctx.frame(world.as_deref(), Screen::None, "Not done"), problem.status);
        let page = Failed { frame, number: status.as_u16(), text: problem.text };
        let mut answer = ctx.page(&page).unwrap_or_else(|_| status.into_response());
        *answer.status_mut() = status;
        answer
    }
}

/// Why a page cannot be shown, or a change was not made. The text is for people.
#[derive(Debug, Clone)]
pub(crate) struct Problem {
    pub(crate) status: StatusCode,
    pub(crate) text: String,
    reads_only: bool,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, text: impl Into<String>) -> Self {
        Self { status, text: text.into(), reads_only: false }
    }

    pub(crate) fn unclear(text: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, text)
    }
}

/// Whether the database refuses changes: it is a replica, it was opened to be read, or its account lacks a right.
fn reads_only(error: &Error) -> bool {
    let Error::Database { source, .. } = error else { return false };
    source.as_database_error().is_some_and(|error| {
        let (code, message) = (error.code(), error.message());
        // by SQLSTATE; MySQL and SQLite have none of their own for this
        let refused = code.is_some_and(|code| matches!(code.as_ref(), "25006" | "42501" | "42000"));
        refused || ["readonly", "read-only"].iter().any(|word| message.contains(word))
    })
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let (reads_only, text) = (reads_only(&error), error.to_string());
        let status = match &error {
            Error::NotFound(_) | Error::NoSchedule(_) => StatusCode::NOT_FOUND,
            Error::Conflict { .. } | Error::KeyTaken { .. } | Error::Locked { .. } | Error::Duplicate { .. } => {
                StatusCode::CONFLICT
            }
            _ if reads_only => StatusCode::FORBIDDEN,
            Error::Database { .. } | Error::Schema(_) => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::UNPROCESSABLE_ENTITY,
        };
        Self { status, text, reads_only }
    }
}

/// The guard around all routes makes the page, because it knows who looks.
impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut answer = self.status.into_response();
        answer.extensions_mut().insert(self);
        answer
    }
}

pub(crate) type Answer = Result<Response, Problem>;

#[derive(Template)]
#[template(path = "failed.html")]
struct Failed {
    frame: Frame,
    number: u16,
    text: String,
}

/// A request and the dashboard that answers it.
#[derive(Clone)]
pub(crate) struct Ctx {
    pub(crate) site: Arc<Site>,
    pub(crate) visit: Visit,
}

impl FromRequestParts<Arc<Site>> for Ctx {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, site: &Arc<Site>) -> Result<Self, Problem> {
        let visit = parts.extensions.get::<Visit>().cloned();
        let unguarded = || Problem::new(StatusCode::FORBIDDEN, "nobody has said who looks");
        Ok(Self { site: site.clone(), visit: visit.ok_or_else(unguarded)? })
    }
}

/// The number in a path. An application may have nested the dashboard under a path with parameters of its own.
pub(crate) struct Id(pub(crate) i64);

impl FromRequestParts<Arc<Site>> for Id {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, site: &Arc<Site>) -> Result<Self, Problem> {
        let params = RawPathParams::from_request_parts(parts, site).await.ok();
        let id = params.iter().flatten().find_map(|(name, id)| id.parse().ok().filter(|_| name == "queue_web_id"));
        id.map(Self).ok_or_else(|| Problem::new(StatusCode::NOT_FOUND, "This is not the number of anything."))
    }
}

impl Ctx {
    pub(crate) fn admin(&self) -> &Admin {
        &self.site.admin
    }

    pub(crate) fn now(&self) -> DateTime<Utc> {
        self.visit.now
    }

    pub(crate) fn ago(&self, time: DateTime<Utc>) -> Html {
        text::time(time, self.now())
    }

    /// What is going on, as somebody has seen it a moment ago. `fresh`: the page is about that.
    pub(crate) async fn world(&self, fresh: bool) -> Result<Arc<World>, Problem> {
        let (admin, now) = (self.admin().clone(), self.now());
        let look = async move { World::read(&admin, now).await };
        Ok(self.site.looks.get(FRESH[usize::from(!fresh)], look).await?)
    }

    /// The administration in the name of whoever looks, for a change. What was seen before is out of date then.
    pub(crate) async fn acting(&self, rights: Rights, reason: &str) -> Result<Admin, Problem> {
        self.must(rights)?;
        self.site.looks.forget();
        let (actor, reason) = (Actor::new(&self.visit.viewer.name), reason.trim());
        Ok(self.admin().acting(if reason.is_empty() { actor } else { actor.reason(reason) }))
    }

    pub(crate) fn must(&self, rights: Rights) -> Result<(), Problem> {
        match self.visit.viewer.rights.include(rights) {
            true => Ok(()),
            false => Err(Problem::new(StatusCode::FORBIDDEN, "You may look at this, and not change it.")),
        }
    }

    /// The frame of a page. Without a world it has no counts.
    pub(crate) fn frame(&self, world: Option<&World>, screen: Screen, title: impl Into<String>) -> Frame {
        let (visit, reads_only) = (&self.visit, self.site.reads_only());
        let done = self.asked("done");
        Frame {
            base: visit.base.clone(),
            here: visit.here.clone(),
            title: title.into(),
            instance: self.site.instance.clone(),
            theme: visit.theme.unwrap_or_default(),
            who: visit.viewer.name.clone(),
            entries: entries(world, screen),
            find: String::new(),
            live: screen != Screen::None,
            at: Html(text::time(visit.now, visit.now).0.replacen("<time", "<time id=\"at\"", 1)),
            sampled: world.map(|world| self.ago(world.at)),
            notice: done.and_then(|done| crate::done::sentence(&done)),
            reads_only,
            rights: if reads_only { Rights::LOOK } else { visit.viewer.rights },
            css: assets::css(),
            js: assets::js(),
        }
    }

    /// What the query says.
    pub(crate) fn asked(&self, name: &str) -> Option<String> {
        self.query().get(name).map(str::to_owned)
    }

    pub(crate) fn query(&self) -> Fields {
        Fields::read(self.visit.here.split_once('?').map_or("", |(_, query)| query).as_bytes())
    }

    /// Leads to another page of the dashboard.
    pub(crate) fn go(&self, to: &str) -> Response {
        let to = local(to);
        // a nested router knows no slash at its end
        let slash = if self.visit.base.is_empty() || !(to.is_empty() || to.starts_with('?')) { "/" } else { "" };
        let to = format!("{}{slash}{to}", self.visit.base);
        let to = HeaderValue::from_str(&to).unwrap_or(HeaderValue::from_static("/"));
        (StatusCode::SEE_OTHER, [(LOCATION, to)]).into_response()
    }

    /// Leads back, with a line that says what happened.
    pub(crate) fn done(&self, to: &str, what: &str, number: u64) -> Response {
        let to = without_done(to);
        let sign = if to.contains('?') { '&' } else { '?' };
        self.go(&format!("{to}{sign}done={what}.{number}"))
    }

    /// Answers with a page, or says that it has not changed.
    pub(crate) fn page(&self, page: &impl Template) -> Answer {
        let broken = |error: askama::Error| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string());
        let page = text::clean(&page.render().map_err(broken)?);
        let tag = HeaderValue::from_str(&format!("\"{:016x}\"", assets::hash(still(&page)))).ok();
        if tag.is_some() && self.visit.if_none_match == tag {
            return Ok(StatusCode::NOT_MODIFIED.into_response());
        }
        let mut answer = Page(page).into_response();
        answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
        answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        tag.and_then(|tag| answer.headers_mut().insert(ETAG, tag));
        Ok(answer)
    }
}

/// A link of the dashboard, behind its base. One that we did not make must not lead elsewhere, nor end a header:
/// browsers skip spaces, and take `//` and `/\` for another host.
pub(crate) fn local(to: &str) -> String {
    let to: String = to.chars().filter(char::is_ascii_graphic).collect();
    to.trim_start_matches(['/', '\\']).to_owned()
}

fn without_done(to: &str) -> String {
    let (path, query) = to.split_once('?').unwrap_or((to, ""));
    let kept: Vec<&str> = query.split('&').filter(|it| !it.is_empty() && !it.starts_with("done=")).collect();
    if kept.is_empty() { path.to_owned() } else { format!("{path}?{}", kept.join("&")) }
}

/// The parts of a page that do not change by themselves: without the words of its times, and when it was made.
fn still(page: &str) -> impl Iterator<Item = u8> {
    page.split("</time>").flat_map(|part| {
        let (before, time) = part.split_once("<time").unwrap_or((part, ""));
        let exact = if time.starts_with(" id=") { "" } else { time.split_once('>').map_or("", |(tag, _)| tag) };
        before.bytes().chain(exact.bytes())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_the_same_as_long_as_only_time_passes() {
        let hash = |page: &str| assets::hash(still(page));
        let one = "<p><time id=\"at\" datetime=\"1\">4 s</time> a <time title=\"x\">1 s ago</time> b";
        assert_eq!(hash(one), hash(&one.replace("1 s ago", "2 s ago").replace("datetime=\"1\"", "datetime=\"2\"")));
        assert_ne!(hash(one), hash(&one.replace("title=\"x\"", "title=\"y\"")));
        assert_ne!(hash(one), hash(&one.replace(" b", " c")));
    }

    #[test]
    fn what_was_done_is_told_once() {
        assert_eq!(without_done("jobs?q=a&done=x.1"), "jobs?q=a");
        assert_eq!(without_done("jobs?done=x.1"), "jobs");
    }
}
