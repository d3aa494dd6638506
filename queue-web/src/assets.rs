//! The style sheet and the script. Their names hold what is in them, so a browser may keep them for ever.

use std::sync::LazyLock;

use axum::extract::RawPathParams;
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse as _, Response};

use crate::site::{Answer, Problem};

const CSS: &str = include_str!("../assets/queue.css");
const JS: &str = include_str!("../assets/queue.js");

static NAMES: LazyLock<[String; 2]> =
    LazyLock::new(|| [("css", CSS), ("js", JS)].map(|(ext, text)| format!("queue-{:016x}.{ext}", hash(text.bytes()))));

pub(crate) fn css() -> &'static str {
    &NAMES[0]
}

pub(crate) fn js() -> &'static str {
    &NAMES[1]
}

/// FNV-1a: two processes of one version name the same file alike.
pub(crate) fn hash(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

pub(crate) async fn show(params: RawPathParams) -> Answer {
    let name = params.iter().find(|(name, _)| *name == "queue_web_file").map_or("", |(_, file)| file);
    let file = |kind: &'static str, text: &'static str| -> Response {
        let kept = "public, max-age=31536000, immutable";
        ([(CONTENT_TYPE, kind), (CACHE_CONTROL, kept)], text).into_response()
    };
    match name {
        name if name == css() => Ok(file("text/css; charset=utf-8", CSS)),
        name if name == js() => Ok(file("text/javascript; charset=utf-8", JS)),
        _ => Err(Problem::new(StatusCode::NOT_FOUND, "There is no such file. Load the page again.")),
    }
}
