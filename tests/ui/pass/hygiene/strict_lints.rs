//! Nothing that is generated trips a lint of the user's crate.

#![deny(
    warnings,
    missing_docs,
    unreachable_pub,
    missing_debug_implementations,
    single_use_lifetimes,
    unused_qualifications,
    unused_results,
    elided_lifetimes_in_paths,
    unit_bindings,
    let_underscore_drop,
    non_local_definitions,
    private_interfaces,
    trivial_casts,
    unused_lifetimes,
    rust_2018_idioms,
    future_incompatible,
    nonstandard_style
)]
#![forbid(unsafe_code)]

use std::fmt::Error;

use queue::{JobContext, State, job};

/// Sends one mail.
#[job(timeout = "1s")]
pub async fn send_email(ctx: JobContext, State(name): State<String>, to: &str, copies: Option<u32>) -> Result<u32, Error> {
    println!("{ctx:?} {name} {to} {copies:?}");
    Ok(1)
}

/// Nobody uses this one here.
#[job(blocking)]
fn unused(to: Option<&str>) {
    println!("{to:?}");
}

#[job(schedule(every = "15m", args = Scheduled { to: "a".to_owned() }, queue = "q"))]
async fn scheduled(to: &str) {
    println!("{to}");
}

#[job(unique(by = to, until = "start", for = "1s", on_conflict = "reject"))]
async fn once(to: &str) {
    println!("{to}");
}

#[job(unique)]
async fn alone() {}

#[job(schedule = "@daily")]
async fn unused_too() {}

fn main() {
    println!("{:?}", SendEmail::new("a", None));
}
