//! The input is an attribute, a line break and a function. The macro must return code or a message and never panic, and
//! what it does not refuse must be valid code. A macro's crate cannot be linked, so its files are compiled into this
//! one.
#![no_main]
#![allow(dead_code, unexpected_cfgs, unused_imports, reason = "parts of another crate")]

#[path = "../../../queue-macros/src/attr.rs"]
mod attr;
#[path = "../../../queue-macros/src/backoff.rs"]
mod backoff;
#[path = "../../../queue-macros/src/check.rs"]
mod check;
#[path = "../../../queue-macros/src/duration.rs"]
mod duration;
#[path = "../../../queue-macros/src/entry.rs"]
mod entry;
#[path = "../../../queue-macros/src/errors.rs"]
mod errors;
#[path = "../../../queue-macros/src/expand.rs"]
mod expand;
#[path = "../../../queue-macros/src/fallback.rs"]
mod fallback;
#[path = "../../../queue-macros/src/generate.rs"]
mod generate;
#[path = "../../../queue-macros/src/known.rs"]
mod known;
#[path = "../../../queue-macros/src/model.rs"]
mod model;
#[path = "../../../queue-macros/src/names.rs"]
mod names;
#[path = "../../../queue-macros/src/renames.rs"]
mod renames;
#[path = "../../../queue-macros/src/stored.rs"]
mod stored;
#[path = "../../../queue-macros/src/tokens.rs"]
mod tokens;
#[path = "../../../queue-macros/src/types.rs"]
mod types;
#[path = "../../../queue-macros/src/unique.rs"]
mod unique;
#[path = "../../../queue-macros/src/unique_check.rs"]
mod unique_check;

libfuzzer_sys::fuzz_target!(|text: &str| {
    let (options, function) = text.split_once('\n').unwrap_or((text, "async fn send_email(to: String) {}"));
    let (Ok(options), Ok(function)) = (options.parse(), function.parse()) else { return };
    let code = generate::generate(options, function);
    if !code.to_string().contains("compile_error") {
        syn::parse2::<syn::File>(code).expect("code that can be compiled");
    }
});
