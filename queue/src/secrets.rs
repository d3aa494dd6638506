//! Secret arguments: whose they are, and how their values are taken out of texts.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::fields::{fields, merge};

/// What is shown in the place of a secret value.
pub const MARK: &str = "••••";

/// Its `Debug` is the mark.
pub struct Hidden;

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MARK)
    }
}

/// The kinds of which it is known which of their arguments are secret.
#[derive(Debug, Default)]
pub(crate) struct Secrets(BTreeMap<String, BTreeSet<String>>);

impl Secrets {
    /// Adds what one program declares. A secret of any of them is one.
    pub(crate) fn add<'a>(&mut self, kind: &str, names: impl IntoIterator<Item = &'a str>) {
        self.0.entry(kind.to_owned()).or_default().extend(names.into_iter().map(str::to_owned));
    }

    /// Adds what the row of a worker says.
    pub(crate) fn add_row(&mut self, kinds: &str) {
        for (kind, names) in kinds_of(kinds) {
            self.add(&kind, names.iter().map(String::as_str));
        }
    }

    /// The secret arguments of a kind. `None`: nobody has declared it.
    pub(crate) fn of(&self, kind: &str) -> Option<Vec<String>> {
        self.0.get(kind).map(|names| names.iter().cloned().collect())
    }

    /// The kind of which an argument is a known secret, among all kinds or of this one.
    pub(crate) fn kind_with(&self, name: &str, kind: Option<&str>) -> Option<&str> {
        let mut kinds = self.0.iter().filter(|(is, _)| kind.is_none_or(|kind| kind == *is));
        // arguments may be a list, and have numbers for names
        let is_place = name.parse::<usize>().is_ok();
        kinds.find(|(_, names)| names.contains(name) || is_place && !names.is_empty()).map(|(kind, _)| kind.as_str())
    }
}

/// The kinds as the row of a worker has them: a list, with the secret arguments in an object at its end.
pub(crate) fn row_of(kinds: &[String], secrets: &BTreeMap<String, Vec<String>>) -> String {
    let mut row: Vec<Value> = kinds.iter().map(|kind| Value::from(kind.as_str())).collect();
    if !secrets.is_empty() {
        row.push(secrets.iter().map(|(kind, names)| (kind.clone(), Value::from(names.clone()))).collect());
    }
    Value::from(row).to_string()
}

/// The kinds in the row of a worker, with the secret arguments of each.
pub(crate) fn kinds_of(row: &str) -> BTreeMap<String, Vec<String>> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Entry {
        Kind(String),
        Secrets(BTreeMap<String, Vec<String>>),
    }
    let mut kinds = BTreeMap::new();
    for entry in serde_json::from_str::<Vec<Entry>>(row).unwrap_or_default() {
        match entry {
            Entry::Kind(kind) => drop(kinds.entry(kind).or_default()),
            Entry::Secrets(secrets) => kinds.extend(secrets),
        }
    }
    kinds
}

/// The arguments with the mark in the place of each secret. `None`: all are secret. Every other byte stays.
pub(crate) fn mask(args: &str, secrets: Option<&[String]>) -> String {
    if secrets.is_some_and(<[_]>::is_empty) {
        return args.to_owned();
    }
    let mark = Value::from(MARK);
    // what is no object has no names to go by
    let Ok(fields) = fields(args) else { return mark.to_string() };
    let names = fields.0.into_iter().map(|(name, _)| name);
    let hidden = names.filter(|name| secrets.is_none_or(|secrets| secrets.contains(name)));
    let marks: serde_json::Map<_, _> = hidden.map(|name| (name, mark.clone())).collect();
    merge(args, &Value::from(marks).to_string()).unwrap_or_else(|_| mark.to_string())
}

/// The first secret in which new arguments have the mark for a value.
pub(crate) fn marked(args: &str, secrets: Option<&[String]>) -> Option<String> {
    let has_mark = |json: &str| serde_json::from_str(json).is_ok_and(|value: Value| value.to_string().contains(MARK));
    match fields(args) {
        Ok(fields) => {
            let is_secret = |name: &String| secrets.is_none_or(|secrets| secrets.contains(name));
            fields.0.into_iter().find(|(name, value)| is_secret(name) && has_mark(value.get())).map(|(name, _)| name)
        }
        Err(_) => (secrets != Some(&[]) && has_mark(args)).then(|| "the whole".to_owned()),
    }
}

/// The secret values of one job, by their first bytes, in each form in which a text may repeat them.
#[derive(Default)]
pub(crate) struct Values(HashMap<[u8; LEAST], Vec<String>>);

/// Shorter values stay in texts: any text may have them by chance.
const LEAST: usize = 4;

impl Values {
    /// Those in the arguments of these names.
    pub(crate) fn of(secrets: &[impl AsRef<str>], args: &str) -> Self {
        let mut values = Self::default();
        if secrets.is_empty() {
            return values;
        }
        match fields(args) {
            Ok(fields) => {
                let is_secret = |name: &str| secrets.iter().any(|secret| secret.as_ref() == name);
                let secret = fields.0.into_iter().filter(|(name, _)| is_secret(name));
                secret.for_each(|(_, value)| values.add_leaves(value.get()));
            }
            Err(_) => values.add_leaves(args),
        }
        values
    }

    /// All strings and numbers in a value as it is written.
    fn add_leaves(&mut self, json: &str) {
        match json.trim_start().as_bytes().first() {
            Some(b'{') => {
                fields(json).into_iter().flat_map(|it| it.0).for_each(|(_, value)| self.add_leaves(value.get()));
            }
            Some(b'[') => {
                let list: Vec<&RawValue> = serde_json::from_str(json).unwrap_or_default();
                list.into_iter().for_each(|value| self.add_leaves(value.get()));
            }
            Some(b'"') => {
                let text: String = serde_json::from_str(json).unwrap_or_else(|_| json.trim_matches('"').to_owned());
                let escaped = [Value::from(text.as_str()).to_string(), format!("{text:?}")];
                escaped.iter().for_each(|quoted| self.add(&quoted[1..quoted.len() - 1], text.chars().count()));
                self.add(&text, text.chars().count());
            }
            Some(b'-' | b'0'..=b'9') => {
                let float = json.parse().map(|number: f64| [format!("{number}"), format!("{number:?}")]);
                for text in float.into_iter().flatten().chain([json.to_owned()]) {
                    self.add(text.trim_start_matches('-'), text.bytes().filter(u8::is_ascii_digit).count());
                }
            }
            _ => {}
        }
    }

    fn add(&mut self, text: &str, size: usize) {
        if let (Some(first), true) = (text.as_bytes().first_chunk(), size >= LEAST && text != MARK) {
            let same = self.0.entry(*first).or_default();
            if !same.iter().any(|other| other == text) {
                same.push(text.to_owned());
            }
        }
    }

    /// The text with the mark in the place of each value.
    pub(crate) fn redact(&self, text: String) -> String {
        if self.0.is_empty() {
            return text;
        }
        let (bytes, mut redacted, mut end) = (text.as_bytes(), String::new(), 0);
        for (at, first) in bytes.array_windows::<LEAST>().enumerate() {
            let Some(values) = self.0.get(first) else { continue };
            let here = values.iter().filter(|value| bytes[at..].starts_with(value.as_bytes()));
            let Some(longest) = here.map(String::len).max() else { continue };
            if at >= end {
                redacted += &text[end..at];
                redacted += MARK;
            }
            // two of them may overlap
            end = end.max(at + longest);
        }
        if end == 0 { text } else { redacted + &text[end..] }
    }

    /// The same for a JSON, which stays one.
    pub(crate) fn redact_json(&self, json: String) -> String {
        let redacted = self.redact(json);
        // a number cannot be replaced by the mark
        match serde_json::from_str::<&RawValue>(&redacted) {
            Ok(_) => redacted,
            Err(_) => Value::from(MARK).to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn redacted(args: &Value, text: impl Into<String>) -> String {
        Values::of(&["s"], &args.to_string()).redact(text.into())
    }

    #[test]
    fn a_text_repeats_no_secret() {
        let args =
            json!({"s": {"pan": "4111 1111", "cvc": "123", "list": [9999, -1234.5, true, null, 12]}, "open": "4711"});
        for (text, expected) in [
            ("declined: 4111 1111, 4711", "declined: ••••, 4711"),
            ("4111 11114111 1111", "••••••••"),
            ("123 and 12 stay", "123 and 12 stay"),
            ("99999 or -1234.5", "•••• or -••••"),
            ("ü4111 1111ü", "ü••••ü"),
            ("", ""),
        ] {
            assert_eq!(redacted(&args, text), expected, "{text}");
        }
        assert_eq!(Values::of(&[""; 0], &args.to_string()).redact("4111 1111".into()), "4111 1111");
    }

    #[test]
    fn an_escaped_secret_is_one() {
        let secret = "a\"b\\c\nd'é\u{202e}";
        let args = json!({ "s": secret });
        let deeper = Value::from(Value::from(secret).to_string()).to_string();
        for text in [secret.to_owned(), format!("{secret:?}"), format!("Err({:?})", json!([secret]))] {
            assert!(
                !redacted(&args, text.clone()).contains("a\\") && !redacted(&args, text.clone()).contains("a\""),
                "{text}"
            );
        }
        assert!(redacted(&args, deeper).contains("c"), "twice escaped is not promised");
    }

    #[test]
    fn a_number_is_found_as_it_is_written_and_as_it_is_printed() {
        for written in ["1e5", "4111.50", "-41110", "340282366920938463463374607431768211455"] {
            let values = Values::of(&["s"], &format!("{{\"s\":{written}}}"));
            let printed = written.parse::<f64>().map(|number| format!("{number} {number:?}")).expect("a number");
            let text = values.redact(format!("{written} {printed}"));
            assert!(!text.contains("411") && !text.contains("100000") && !text.contains("3402"), "{text}");
        }
    }

    #[test]
    fn a_result_stays_json() {
        let values = Values::of(&["s"], r#"{"s":["4111\"1",12345]}"#);
        let json = |json: &str| values.redact_json(json.to_owned());
        assert_eq!(json(r#"{"paid":"4111\"1","n":1}"#), r#"{"paid":"••••","n":1}"#);
        assert_eq!(json(r#"{"n":12345}"#), r#""••••""#);
        assert_eq!(json("[1]"), "[1]");
    }

    #[test]
    fn arguments_keep_all_but_the_secrets() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let args = "{ \"n\" : 1.10,\n \"s\":{\"a\":[1]}, \"\\u0073\":2 }";
        assert_eq!(mask(args, Some(&names(&["s"]))), "{ \"n\" : 1.10,\n \"s\":\"••••\", \"\\u0073\":\"••••\" }");
        assert_eq!(mask(args, Some(&[])), args);
        assert_eq!(mask(args, None), "{ \"n\" : \"••••\",\n \"s\":\"••••\", \"\\u0073\":\"••••\" }");
        assert_eq!(mask("[1,2]", Some(&names(&["s"]))), "\"••••\"");
        assert_eq!((mask("[1]", Some(&[])).as_str(), mask("{}", None).as_str()), ("[1]", "{}"));
        let marked = |args, secrets: &[&str]| marked(args, Some(&names(secrets)));
        assert_eq!(marked(r#"{"n":"••••","s":1}"#, &["s"]), None);
        assert_eq!(marked(r#"{"n":1,"s":["\u2022\u2022\u2022\u2022"]}"#, &["s"]).as_deref(), Some("s"));
        assert_eq!(super::marked(r#"{"n":"x••••"}"#, None).as_deref(), Some("n"));
        assert!(marked(r#"["••••"]"#, &["s"]).is_some() && marked(r#"["••••"]"#, &[]).is_none());
    }

    #[test]
    fn all_programs_together_say_what_is_secret() {
        let mut secrets = Secrets::default();
        secrets.add("charge", ["card"]);
        secrets.add_row(r#"["charge","note",{"charge":["pin"]}]"#);
        secrets.add_row(r#"["plain","charge"]"#);
        secrets.add_row("nonsense");
        assert_eq!(secrets.of("charge"), Some(vec!["card".to_owned(), "pin".to_owned()]));
        let row = row_of(&["note".into(), "pay".into()], &[("pay".to_owned(), vec!["to".to_owned()])].into());
        assert_eq!(row, r#"["note","pay",{"pay":["to"]}]"#);
        assert_eq!(row_of(&["b".into(), "a".into()], &BTreeMap::new()), r#"["b","a"]"#);
        assert_eq!(kinds_of(&row).into_keys().collect::<Vec<_>>(), ["note", "pay"]);
        assert_eq!((secrets.of("note"), secrets.of("plain"), secrets.of("other")), (Some(vec![]), Some(vec![]), None));
        assert_eq!(secrets.kind_with("pin", None), Some("charge"));
        assert_eq!((secrets.kind_with("pin", Some("note")), secrets.kind_with("x", None)), (None, None));
    }

    fn value() -> impl Strategy<Value = Value> {
        let text = "[^•]{0,12}";
        let leaf = prop_oneof![any::<i64>().prop_map(Value::from), text.prop_map(Value::from), Just(Value::Null)];
        leaf.prop_recursive(3, 12, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-c]", inner, 0..3).prop_map(|map| json!(map)),
            ]
        })
    }

    /// All that is long enough.
    fn leaves(value: &Value) -> Vec<String> {
        let long = |text: String| if text.chars().count() < LEAST { Vec::new() } else { vec![text] };
        match value {
            Value::String(text) => long(text.clone()),
            Value::Number(number) => long(number.to_string().trim_start_matches('-').to_owned()),
            Value::Array(list) => list.iter().flat_map(leaves).collect(),
            Value::Object(map) => map.values().flat_map(leaves).collect(),
            _ => Vec::new(),
        }
    }

    proptest! {
        #[test]
        fn whatever_repeats_a_value_is_redacted(secret in value(), around in prop::collection::vec("[^•]{0,6}", 4)) {
            let args = json!({"s": secret, "open": 1}).to_string();
            let values = Values::of(&["s"], &args);
            let leaves = leaves(&secret);
            let repeated = leaves.iter().map(|leaf| format!("{leaf}{leaf:?}{}", Value::from(leaf.as_str())));
            let text = format!("{}{secret}{}{secret:?}{}{}", around[0], around[1], around[2], around[3]);
            let text = values.redact(text + &repeated.collect::<String>());
            for leaf in leaves {
                prop_assert!(!text.contains(&leaf), "{:?} is in {:?}", leaf, text);
            }
        }

        #[test]
        fn a_text_without_a_value_stays(text in "[a-m ]{0,40}", secret in "[n-z]{0,9}") {
            prop_assert_eq!(redacted(&json!({"s": secret}), text.clone()), text);
        }

        #[test]
        fn any_text_can_be_redacted(args in "\\PC{0,30}", text in any::<String>()) {
            let values = Values::of(&["s"], &args);
            let _ = (values.redact(text.clone()), values.redact_json(text), mask(&args, None), marked(&args, None));
        }
    }
}
