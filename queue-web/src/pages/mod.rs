//! The screens. Each is a value that is made from what `Admin` returns, and a template that shows it.

pub(crate) mod edit;
pub(crate) mod enqueue;
pub(crate) mod failures;
pub(crate) mod job;
pub(crate) mod jobs;
pub(crate) mod operations;
pub(crate) mod overview;
pub(crate) mod plan;
pub(crate) mod queues;
pub(crate) mod schedules;
pub(crate) mod workers;

use std::time::Duration;

use askama::Template;
use axum::http::HeaderValue;
use axum::http::header::SET_COOKIE;

use crate::site::{Answer, Ctx, Frame, Screen};

/// Without its seconds, if it has minutes: how long a window is, is told in passing.
pub(crate) fn minutes(window: Duration) -> Duration {
    if window.as_secs() < 60 { window } else { Duration::from_secs(window.as_secs() / 60 * 60) }
}

#[derive(Template)]
#[template(path = "keys.html")]
struct Keys {
    frame: Frame,
}

pub(crate) async fn keys(ctx: Ctx) -> Answer {
    let world = ctx.world(false).await?;
    ctx.page(&Keys { frame: ctx.frame(Some(&world), Screen::None, "Keys") })
}

/// Keeps the colours that somebody chose. They are the only thing that a cookie holds.
pub(crate) async fn theme(ctx: Ctx) -> Answer {
    let path = if ctx.visit.base.is_empty() { "/" } else { &ctx.visit.base };
    let cookie = match ctx.asked("to").as_deref() {
        Some(theme @ ("light" | "dark")) => {
            format!("queue-theme={theme}; Path={path}; Max-Age=31536000; SameSite=Strict; HttpOnly")
        }
        _ => format!("queue-theme=; Path={path}; Max-Age=0; SameSite=Strict; HttpOnly"),
    };
    let mut answer = ctx.go(&ctx.asked("from").unwrap_or_default());
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        answer.headers_mut().insert(SET_COOKIE, cookie);
    }
    Ok(answer)
}
