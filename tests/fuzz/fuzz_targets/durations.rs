//! A duration as the options write it: read, or refused with what to write instead.
#![no_main]

#[path = "../../../queue-macros/src/duration.rs"]
mod duration;

libfuzzer_sys::fuzz_target!(|text: &str| {
    match duration::parse(text) {
        Ok(duration) => assert!(!duration.is_zero() && duration.as_secs() <= 365 * 86_400),
        Err(error) => assert!(!error.is_empty()),
    }
});
