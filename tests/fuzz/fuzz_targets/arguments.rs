//! Arguments as a row may hold them: what is measured against the limits agrees with the decoder.
#![no_main]
#![allow(dead_code, reason = "parts of another crate")]

#[path = "../../../queue/src/limits.rs"]
mod limits;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    assert_eq!(limits::bytes_in_json(&text) + 2, serde_json::to_string(&text).expect("text").len());
    let depth = limits::depth(&text);
    match serde_json::from_str::<serde_json::Value>(&text) {
        Ok(value) => {
            assert!(depth <= limits::MAX_ARGS_DEPTH);
            assert_eq!(depth, limits::depth(&value.to_string()).max(depth));
        }
        Err(error) => assert!(depth > limits::MAX_ARGS_DEPTH || !error.to_string().contains("recursion limit")),
    }
});
