//! Types and modules with the names that the generated code uses.

#![allow(dead_code, non_camel_case_types)]

use queue::job;

macro_rules! own {
    ($($name:ident)*) => {
        $(
            #[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
            pub struct $name;
        )*
    };
}
own!(Option Result Vec Box Ok Err Some None Job JobError Send Default From Self_ __A0 Schedule Periodic Gap Unique UniqueUntil OnConflict Duration);

pub struct String;
pub trait Into {}
pub trait Serialize {}
pub trait Clone {}
mod core {}
mod std {}
mod serde_json {}

#[job(aliases = ["old"], priority = 3, max_retries = 2, timeout = "1s", backoff = fixed("1s"))]
pub async fn odd(
    option: Option,
    result: Result,
    vec: &[Vec],
    text: &str_,
    arguments: __A0,
) -> ::core::result::Result<Box, ::std::fmt::Error> {
    let _ = (option, result, vec, text, arguments);
    ::core::result::Result::Ok(Box)
}

#[job(schedule(cron = "@daily", gap = skip, args = Nightly { result: Result }, priority = 1))]
pub async fn nightly(result: Result) {
    let _ = result;
}

#[job(unique(by = unique, until = "start", for = "1s", on_conflict = "replace"))]
pub async fn once(unique: Unique) {
    let _ = unique;
}

type str_ = ::std::string::String;

fn main() {
    let _ = Odd::new(Option, Result, [Vec, Vec], "", __A0);
}
