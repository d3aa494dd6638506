#![no_implicit_prelude]
#![deny(warnings)]
#![forbid(unsafe_code)]

#[::queue::job(blocking, timeout = "1s", backoff = exponential("1s"), aliases = ["old"])]
pub fn text(ctx: ::queue::JobContext, s: ::queue::State<u8>, a: &str, b: ::std::option::Option<u32>) -> ::std::result::Result<u32, ::std::fmt::Error> {
    let _ = (ctx, s, a, b);
    ::std::result::Result::Ok(1)
}

#[::queue::job(unique(by = (a, b), until = "start", for = "1s", on_conflict = "replace"))]
pub async fn once(a: &str, b: u32) {
    let _ = (a, b);
}

#[::queue::job(unique)]
pub async fn alone() {}

#[::queue::job(schedule(cron = "@daily", zone = "UTC", missed = all("6h"), jitter = "1s", queue = "q", priority = 1))]
pub async fn nothing() {}

fn main() {
    let _ = Text::new("a", 1);
    let _ = (Nothing, Alone);
    let _ = Once::new("a", 1);
}
