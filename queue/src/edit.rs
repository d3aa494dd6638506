//! Changes of a job's arguments: a few fields, or the type's own value.

use std::panic::catch_unwind;

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::error::Error;
use crate::fields::{fields, merge};
use crate::limits::check_args;
use crate::registry::known;
use crate::secrets::Values;
use crate::store::view::JobDetail;

/// The arguments after a change of some fields, or why there can be none.
pub(crate) fn edited(detail: &JobDetail, patch: &str) -> Result<String, String> {
    let args = merge(&detail.args, patch)?;
    check(detail, &args).map_err(|error| error.to_string())?;
    Ok(args)
}

/// The fields that differ.
pub(crate) fn changed_fields(old: &str, new: &str) -> Map<String, Value> {
    let [old, mut new] = [old, new].map(|json| serde_json::from_str::<Map<_, _>>(json).unwrap_or_default());
    new.retain(|name, value| old.get(name) != Some(value));
    new
}

/// Refuses arguments that the job cannot have.
pub(crate) fn check(detail: &JobDetail, args: &str) -> Result<(), Error> {
    let (id, kind) = (detail.job.id, &detail.job.kind);
    if !args.trim_start().starts_with('{') && detail.args.trim_start().starts_with('{') {
        return Err(Error::config(format!(
            "the new arguments of job {id} are not a JSON object, and its present ones are: give one field for each \
             argument, for example {{\"to\": \"ada@example.org\"}}"
        )));
    }
    check_args(args).map_err(|why| Error::config(format!("the new arguments of job {id} {why}")))?;
    misfit(kind, args).map_or(Ok(()), |why| {
        Err(Error::config(format!("the new arguments of job {id} do not fit `{}`: {why}", kind.escape_debug())))
    })
}

/// Why the type that this program has for a kind cannot be read from these arguments. `None`: it can, or there is no
/// such type.
pub(crate) fn misfit(kind: &str, args: &str) -> Option<String> {
    let job = known(kind)?;
    match catch_unwind(|| (job.decodes)(args)) {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(located(job.secrets, args, &error)),
        Err(_) => Some("reading them panicked".to_owned()),
    }
}

/// The error, with the field whose value it is about. It may quote that value, unless it is secret.
pub(crate) fn located(secrets: &[&str], args: &str, error: &serde_json::Error) -> String {
    let lines = args.split_inclusive('\n').take(error.line().saturating_sub(1));
    let at = lines.map(str::len).sum::<usize>() + error.column();
    let place = |value: &RawValue| value.get().as_ptr().addr() - args.as_ptr().addr();
    let is_at = |(_, value): &(String, &RawValue)| (place(value) + 1..=place(value) + value.get().len()).contains(&at);
    let field = fields(args).ok().and_then(|fields| fields.0.into_iter().find(is_at));
    let error = Values::of(secrets, args).redact(error.to_string());
    field.map_or_else(|| error.clone(), |(name, _)| format!("`{}`: {error}", name.escape_debug()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde::Deserialize;
    use serde_json::{Map, Value, json};

    use super::*;

    #[test]
    fn other_fields_keep_every_byte() {
        let args =
            "{ \"z\" : 340282366920938463463374607431768211455,\n \"a\":{\"x\":1,\"y\":1.10e3}, \"\\u006e\":[] }";
        let merged = |patch| merge(args, patch).expect("objects");
        assert_eq!(merged("{}"), args);
        assert_eq!(merged(r#"{"n": "🙂"}"#), args.replace("[]", "\"🙂\""));
        assert_eq!(merged(r#"{"a":{"w":0.10}}"#), args.replace(r#"{"x":1,"y":1.10e3}"#, r#"{"w":0.10}"#));
        let added = merged(r#"{ "new" : 1.0 , "z": -0, "\"ü": null }"#);
        let expected = args.replace("340282366920938463463374607431768211455", "-0");
        assert_eq!(added, expected.replace("[] }", r#"[],"new":1.0,"\"ü":null }"#));
        assert_eq!(merge("{}", r#"{"a":1,"b":2}"#).as_deref(), Ok(r#"{"a":1,"b":2}"#));
        assert_eq!(merge(" { } ", r#"{"a":1}"#).as_deref(), Ok(r#" {"a":1 } "#));
    }

    #[test]
    fn what_is_no_object_is_refused() {
        for (args, patch, why) in [
            ("[1]", "{}", "present arguments"),
            ("", "{}", "present arguments"),
            ("{}", "[1]", "the change is not a JSON object"),
            ("{}", "{\"a\":}", "the change is not a JSON object"),
            ("{}", "{} x", "the change is not a JSON object"),
            ("{}", r#"{"a":1,"\u0061":2}"#, "names `a` twice"),
        ] {
            let error = merge(args, patch).expect_err(args);
            assert!(error.contains(why), "{error}");
        }
    }

    #[derive(Debug, Deserialize)]
    #[allow(dead_code, reason = "it is only read")]
    struct Letter {
        to: String,
        size: u8,
        lines: Vec<u8>,
        stamp: Option<Stamp>,
    }

    #[derive(Debug, Deserialize)]
    #[allow(dead_code, reason = "it is only read")]
    struct Stamp {
        cents: u8,
    }

    #[test]
    fn an_error_names_its_field() {
        for (args, begin) in [
            (r#"{"to":7,"size":1,"lines":[]}"#, "`to`: invalid type: integer `7`, expected a string"),
            (r#"{"to":"a","size":300,"lines":[]}"#, "`size`: invalid value: integer `300`"),
            ("{\"to\":\"ü\",\n \"size\" : 1,\n\"lines\":[1,\n -1]}", "`lines`: invalid value: integer `-1`"),
            (r#"{"to":"a","size":1,"lines":[],"stamp":{}}"#, "`stamp`: missing field `cents`"),
            (r#"{"to":"a","size":1}"#, "missing field `lines`"),
            ("[1]", "invalid type: integer `1`, expected a string"),
        ] {
            let error = serde_json::from_str::<Letter>(args).expect_err(args);
            let told = located(&[], args, &error);
            assert!(told.starts_with(begin), "{told}");
        }
    }

    fn object() -> impl Strategy<Value = Map<String, Value>> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(|number| json!(number)),
            any::<String>().prop_map(Value::from),
        ];
        let value = leaf.prop_recursive(3, 16, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-c]", inner, 0..3)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        });
        let name = prop_oneof!["[a-d]", any::<String>()];
        prop::collection::btree_map(name, value, 0..6).prop_map(|map| map.into_iter().collect())
    }

    /// As it is written, compactly or with spaces.
    fn text(object: &Map<String, Value>, pretty: bool) -> String {
        let written = if pretty { serde_json::to_string_pretty(object) } else { serde_json::to_string(object) };
        written.expect("it serializes")
    }

    proptest! {
        #[test]
        fn it_is_the_union_and_the_patch_wins(old in object(), new in object(), pretty in any::<[bool; 2]>()) {
            let merged = merge(&text(&old, pretty[0]), &text(&new, pretty[1])).expect("objects");
            let mut expected = old.clone();
            expected.extend(new.clone());
            let read = |json: &str| serde_json::from_str::<Map<String, Value>>(json).expect("an object");
            prop_assert_eq!(read(&merged), read(&text(&expected, false)));
            // again, it changes nothing
            prop_assert_eq!(merge(&merged, &text(&new, pretty[1])).expect("objects"), merged);
        }

        #[test]
        fn the_order_and_the_text_of_the_others_stay(old in object(), new in object(), pretty in any::<bool>()) {
            let (args, patch) = (text(&old, pretty), text(&new, false));
            let merged = merge(&args, &patch).expect("objects");
            let (before, after) = (fields(&args).expect("an object").0, fields(&merged).expect("an object").0);
            for ((name, value), (name_after, value_after)) in before.iter().zip(&after) {
                prop_assert_eq!(name, name_after);
                if !new.contains_key(name) {
                    prop_assert_eq!(value.get(), value_after.get());
                }
            }
            let added: Vec<_> = after[before.len()..].iter().map(|(name, _)| name.as_str()).collect();
            let missing: Vec<_> = new.keys().map(String::as_str).filter(|name| !old.contains_key(*name)).collect();
            prop_assert_eq!(added, missing);
        }

        #[test]
        fn any_text_is_merged_or_refused(args in "\\PC{0,30}", patch in "\\PC{0,30}") {
            let _ = merge(&args, &patch);
        }
    }
}
