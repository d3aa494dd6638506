//! Who looks, what they may do, and what a browser may do with our pages.

use std::ops::BitOr;
use std::pin::Pin;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{OriginalUri, Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, COOKIE, HOST, ORIGIN, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use chrono::{DateTime, Utc};

use crate::site::{Problem, Site};

/// No inline script or style, nothing from elsewhere, and in nobody's frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
    connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// What somebody may do. Everybody who gets in may look.
///
/// ```
/// use queue_web::Rights;
///
/// let on_call = Rights::ACT_ON_MANY | Rights::EDIT;
/// assert!(on_call.include(Rights::ACT) && !on_call.include(Rights::DELETE));
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rights(u8);

impl Rights {
    /// Sees every screen, arguments and errors too. Changes nothing.
    pub const LOOK: Self = Self(0);
    /// Retries, sends back, reschedules and cancels one job. Pauses and resumes queues and schedules, fires a schedule, and stops
    /// an operation.
    pub const ACT: Self = Self(0b0001);
    /// [`ACT`](Self::ACT), also on all jobs that are checked or that match.
    pub const ACT_ON_MANY: Self = Self(0b0011);
    /// Edits arguments, and enqueues jobs.
    pub const EDIT: Self = Self(0b0100);
    /// Deletes one job. Many together need [`ACT_ON_MANY`](Self::ACT_ON_MANY), too.
    pub const DELETE: Self = Self(0b1000);
    /// All of these.
    pub const ALL: Self = Self(0b1111);

    /// Whether all of the others are among these.
    pub const fn include(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }
}

impl BitOr for Rights {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Somebody who looks at the dashboard.
///
/// ```
/// use queue_web::{Rights, Viewer};
///
/// let ada = Viewer::new("ada").may(Rights::ACT | Rights::EDIT);
/// # let _ = ada;
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Viewer {
    pub(crate) name: String,
    pub(crate) rights: Rights,
}

impl Viewer {
    /// Somebody who may look. Each change is on record under this name.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), rights: Rights::LOOK }
    }

    /// Adds rights.
    #[must_use]
    pub fn may(mut self, rights: Rights) -> Self {
        self.rights = self.rights | rights;
        self
    }
}

/// Says who sent a request: an `async fn(&Parts) -> Option<Viewer>`, or a closure that returns such a future. Every
/// such function implements it.
///
/// A closure with state of its own takes what it needs from the request before its future begins:
///
/// ```
/// use axum::http::request::Parts;
/// use queue_web::{LooksUp, Viewer};
///
/// fn accepts(_: impl for<'a> LooksUp<'a>) {}
///
/// async fn by_proxy(request: &Parts) -> Option<Viewer> {
///     Some(Viewer::new(request.headers.get("x-forwarded-user")?.to_str().ok()?))
/// }
/// accepts(by_proxy);
///
/// let admins = std::sync::Arc::new(vec!["ada".to_owned()]);
/// accepts(move |request: &Parts| {
///     let (admins, user) = (admins.clone(), request.extensions.get::<String>().cloned());
///     async move { user.filter(|user| admins.contains(user)).map(Viewer::new) }
/// });
/// ```
pub trait LooksUp<'a>: Send + Sync + 'static {
    /// What it returns.
    type Answer: Future<Output = Option<Viewer>> + Send + 'a;

    /// Who sent this request. `None`: nobody who may look.
    fn look_up(&self, request: &'a Parts) -> Self::Answer;
}

impl<'a, F, Answer> LooksUp<'a> for F
where
    F: Fn(&'a Parts) -> Answer + Send + Sync + 'static,
    Answer: Future<Output = Option<Viewer>> + Send + 'a,
{
    type Answer = Answer;

    fn look_up(&self, request: &'a Parts) -> Answer {
        self(request)
    }
}

type Answer<'a> = Pin<Box<dyn Future<Output = Option<Viewer>> + Send + 'a>>;
pub(crate) type Hook = Box<dyn for<'a> Fn(&'a Parts) -> Answer<'a> + Send + Sync>;

pub(crate) fn hook(look: impl for<'a> LooksUp<'a>) -> Hook {
    Box::new(move |request| Box::pin(look.look_up(request)))
}

/// What is known of a request before its handler runs.
#[derive(Debug, Clone)]
pub(crate) struct Visit {
    pub(crate) viewer: Viewer,
    /// Where the dashboard is, without a slash at the end.
    pub(crate) base: String,
    /// The path and the query behind the base, without a slash at the beginning.
    pub(crate) here: String,
    pub(crate) theme: Option<&'static str>,
    pub(crate) if_none_match: Option<HeaderValue>,
    pub(crate) now: DateTime<Utc>,
}

/// The prefix that an outer router took from the path.
fn base(parts: &Parts) -> String {
    let inner = parts.uri.path();
    let whole = parts.extensions.get::<OriginalUri>().map_or(inner, |whole| whole.0.path());
    let base = whole.strip_suffix(inner).unwrap_or(if inner == "/" { whole } else { "" });
    base.trim_end_matches('/').to_owned()
}

fn theme(headers: &HeaderMap) -> Option<&'static str> {
    let cookies = headers.get_all(COOKIE).iter().filter_map(|it| it.to_str().ok());
    let chosen = cookies.flat_map(|it| it.split(';')).find_map(|it| it.trim().strip_prefix("queue-theme="))?;
    ["light", "dark"].into_iter().find(|theme| *theme == chosen)
}

/// Whether a page of this origin sent the request. Browsers say so themselves; older ones name the origin.
pub(crate) fn is_from_here(parts: &Parts) -> bool {
    let text = |value: Option<&'_ HeaderValue>| value.and_then(|it| it.to_str().ok()).map(str::to_owned);
    if let Some(site) = parts.headers.get("sec-fetch-site") {
        return site == "same-origin";
    }
    let host = text(parts.headers.get(HOST)).or_else(|| parts.uri.authority().map(ToString::to_string));
    let origin = text(parts.headers.get(ORIGIN));
    let origin = origin.as_deref().and_then(|it| it.strip_prefix("https://").or_else(|| it.strip_prefix("http://")));
    origin.is_some_and(|origin| Some(origin) == host.as_deref())
}

/// Around every route: who is it, may the request change something, and how must the answer be treated.
pub(crate) async fn guard(State(site): State<Arc<Site>>, request: Request<Body>, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    let mut answer = match admit(&site, &parts).await {
        Ok(visit) => {
            parts.extensions.insert(visit.clone());
            let mut answer = next.run(Request::from_parts(parts, body)).await;
            match answer.extensions_mut().remove::<Problem>() {
                Some(problem) => site.explain(visit, problem).await,
                None => answer,
            }
        }
        Err(refusal) => refusal,
    };
    let headers = answer.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    answer
}

async fn admit(site: &Site, parts: &Parts) -> Result<Visit, Response> {
    let refused = |why: &'static str| (StatusCode::FORBIDDEN, why).into_response();
    let Some(viewer) = (site.look)(parts).await else {
        return Err(refused("You may not look at this dashboard. Sign in to its application first.\n"));
    };
    if !matches!(parts.method, Method::GET | Method::HEAD) && !is_from_here(parts) {
        let why = "This change was refused: it came from another site. Open the dashboard, and change it there.\n";
        return Err(refused(why));
    }
    Ok(Visit {
        viewer,
        base: base(parts),
        here: parts.uri.path_and_query().map_or("", |it| it.as_str()).trim_start_matches('/').to_owned(),
        theme: theme(&parts.headers),
        if_none_match: parts.headers.get("if-none-match").cloned(),
        now: Utc::now(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(headers: &[(&'static str, &str)]) -> Parts {
        let mut request = Request::builder().uri("/x");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).expect("a request").into_parts().0
    }

    #[test]
    fn only_pages_of_this_origin_change_something() {
        let host = ("host", "a.example:8080");
        for (headers, expected) in [
            (vec![("sec-fetch-site", "same-origin")], true),
            (vec![("sec-fetch-site", "same-site"), host, ("origin", "http://a.example:8080")], false),
            (vec![("sec-fetch-site", "cross-site")], false),
            (vec![("sec-fetch-site", "none")], false),
            (vec![host, ("origin", "https://a.example:8080")], true),
            (vec![host, ("origin", "http://a.example:8080")], true),
            (vec![host, ("origin", "http://a.example")], false),
            (vec![host, ("origin", "http://b.example:8080")], false),
            (vec![host, ("origin", "null")], false),
            (vec![host], false),
            (vec![("origin", "http://a.example")], false),
            (vec![], false),
        ] {
            assert_eq!(is_from_here(&parts(&headers)), expected, "{headers:?}");
        }
    }

    #[test]
    fn a_theme_is_one_of_two() {
        let of = |cookie| theme(&parts(&[("cookie", cookie)]).headers);
        assert_eq!(of("a=b; queue-theme=dark"), Some("dark"));
        assert_eq!(of("queue-theme=\"><b>"), None);
    }
}
