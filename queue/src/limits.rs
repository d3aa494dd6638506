//! Limits on what others hand to a worker, and how texts are measured against them. docs/security.md explains each
//! limit.

use std::time::Duration;

/// The largest arguments that are accepted, in bytes of JSON: 1 MiB. A row with more, inserted by SQL, never reaches a
/// handler: it goes to the dead letters at its first attempt.
pub const MAX_ARGS_BYTES: usize = 1024 * 1024;
/// Longer arguments do not come with the claim: they are fetched when the attempt begins. So a claim of a thousand jobs
/// is at most 16 MB, whatever producers put into them.
pub(crate) const ARGS_AT_CLAIM_BYTES: usize = 16 * 1024;
/// How deeply arguments may nest, including the object that holds them: the limit of the decoder. The databases may
/// accept less (MariaDB 31 levels, MySQL 100).
pub const MAX_ARGS_DEPTH: usize = 127;
/// Longer results, in bytes of JSON, are not kept. The job still completes.
pub(crate) const MAX_RESULT_BYTES: usize = 1024 * 1024;
/// Error texts are cut to this many bytes.
pub(crate) const MAX_ERROR_BYTES: usize = 8 * 1024;
/// The longest name of a kind or queue, in bytes.
pub(crate) const MAX_NAME_BYTES: usize = 128;
/// The first and the last second that every engine can store, in microseconds since 1970.
pub(crate) const YEAR_1: i64 = -62_135_596_800_000_000;
pub(crate) const END_OF_9999: i64 = 253_402_300_799_000_000;
/// The first second of the last year that every engine can store. Computing with it stays in range.
pub(crate) const START_OF_9999: i64 = 253_370_764_800_000_000;

/// How deeply JSON nests: 1 for `{}`, 0 for a number.
pub(crate) fn depth(json: &str) -> usize {
    let (mut depth, mut deepest, mut in_text, mut escaped) = (0usize, 0, false, false);
    for byte in json.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_text => escaped = true,
            b'"' => in_text = !in_text,
            b'[' | b'{' if !in_text => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' if !in_text => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// Checks the size of arguments. The error goes on after "the arguments".
pub(crate) fn check_args(args: &str) -> Result<(), String> {
    let (size, depth) = (args.len(), depth(args));
    if size > MAX_ARGS_BYTES {
        return Err(format!("are {size} bytes of JSON, the limit is {MAX_ARGS_BYTES}"));
    }
    if depth > MAX_ARGS_DEPTH {
        return Err(format!("nest {depth} levels deep, the limit is {MAX_ARGS_DEPTH}"));
    }
    Ok(())
}

/// Whether a result may be stored. If not, logs why.
pub(crate) fn may_be_kept(json: &str) -> bool {
    if json.len() > MAX_RESULT_BYTES {
        tracing::warn!(bytes = json.len(), "the result is over 1 MiB and was not kept");
        return false;
    }
    let depth = depth(json);
    if depth > MAX_ARGS_DEPTH {
        tracing::warn!(depth, "the result nests more than {MAX_ARGS_DEPTH} levels and was not kept");
    }
    depth <= MAX_ARGS_DEPTH
}

/// How many bytes a text takes inside a JSON string.
pub(crate) fn bytes_in_json(text: &str) -> usize {
    let grows = |byte: u8| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 8 | 12 => 1,
        0..32 => 5, // \u0000
        _ => 0,
    };
    text.len() + text.bytes().map(grows).sum::<usize>()
}

/// Microseconds, at most 100 years: the time type of every engine can add that to the current time.
pub(crate) fn micros(duration: Duration) -> i64 {
    const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);
    i64::try_from(duration.min(CENTURY).as_micros()).unwrap_or(i64::MAX)
}

/// Cuts an error text to [`MAX_ERROR_BYTES`].
pub(crate) fn cut(mut text: String) -> String {
    if text.len() > MAX_ERROR_BYTES {
        const MARK: &str = " ... (cut)";
        let mut end = MAX_ERROR_BYTES - MARK.len();
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push_str(MARK);
    }
    text
}

/// Writes every other character as `\u{…}`, for a database that is not in Unicode.
pub(crate) fn ascii(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut all, char| {
        match char {
            '\0'..='\x7f' => all.push(char),
            _ => all.extend(char.escape_unicode()),
        }
        all
    })
}

/// The same JSON in ASCII.
pub(crate) fn ascii_json(json: &str) -> String {
    json.chars().fold(String::with_capacity(json.len()), |mut all, char| {
        match char {
            '\0'..='\x7f' => all.push(char),
            _ => char.encode_utf16(&mut [0; 2]).iter().for_each(|unit| all += &format!("\\u{unit:04x}")),
        }
        all
    })
}

/// Checks the name of a kind or queue. The error says why it cannot be used.
pub(crate) fn check_name(what: &str, name: &str) -> Result<(), String> {
    check(&format!("{what} name"), name, MAX_NAME_BYTES)
}

fn check(what: &str, text: &str, most: usize) -> Result<(), String> {
    if text.is_empty() {
        Err(format!("the {what} is empty"))
    } else if text.len() > most {
        Err(format!("the {what} is {} bytes long, at most {most} are allowed: {text:?}", text.len()))
    } else if text.chars().any(char::is_control) {
        Err(format!("the {what} has control characters: {text:?}"))
    } else if text.trim() != text {
        Err(format!("the {what} begins or ends with white space: {text:?}"))
    } else {
        Ok(())
    }
}

/// The most bytes of the key of a unique job.
pub(crate) const MAX_UNIQUE_KEY_BYTES: usize = 255;

/// Checks the key of a unique job. The error says why it cannot be used.
pub(crate) fn check_key(key: &str) -> Result<(), String> {
    check("unique key", key, MAX_UNIQUE_KEY_BYTES)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    #[test]
    fn depth_counts_what_holds_something() {
        for (json, levels) in [
            ("1", 0),
            ("{}", 1),
            (r#"[1,[2],{"a":[3]}]"#, 3),
            (r#""[[[""#, 0),
            (r#"["\"[[",[]]"#, 2),
            (r#"["\\",[]]"#, 2),
        ] {
            assert_eq!(depth(json), levels, "{json}");
        }
    }

    #[test]
    fn the_decoder_takes_the_limit_and_no_more() {
        let nested = |levels| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert!(serde_json::from_str::<Value>(&nested(MAX_ARGS_DEPTH)).is_ok());
        assert!(serde_json::from_str::<Value>(&nested(MAX_ARGS_DEPTH + 1)).is_err());
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf =
            prop_oneof![Just(Value::Null), any::<i64>().prop_map(Value::from), any::<String>().prop_map(Value::from)];
        leaf.prop_recursive(8, 64, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::btree_map(any::<String>(), inner, 0..6)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    fn levels(value: &Value) -> usize {
        match value {
            Value::Array(list) => 1 + list.iter().map(levels).max().unwrap_or(0),
            Value::Object(map) => 1 + map.values().map(levels).max().unwrap_or(0),
            _ => 0,
        }
    }

    proptest! {
        #[test]
        fn depth_is_that_of_the_value(value in value()) {
            prop_assert_eq!(depth(&value.to_string()), levels(&value));
            prop_assert_eq!(depth(&serde_json::to_string_pretty(&value).unwrap()), levels(&value));
        }

        #[test]
        fn depth_takes_any_text(text in any::<String>()) {
            prop_assert!(depth(&text) <= text.len());
        }

        #[test]
        fn bytes_in_json_are_those_of_the_serializer(text in any::<String>(), control in "[\u{0}-\u{7f}]*") {
            for text in [text, control] {
                prop_assert_eq!(bytes_in_json(&text) + 2, serde_json::to_string(&text).unwrap().len());
            }
        }
    }
}
