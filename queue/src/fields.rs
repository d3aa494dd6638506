//! The fields of a JSON object as they are written. What is not named stays byte for byte.

use std::collections::{BTreeMap, HashSet};

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The fields of an object in their order: their names, and their values as they are written.
pub(crate) struct Fields<'a>(pub(crate) Vec<(String, &'a RawValue)>);

pub(crate) fn is_object(json: &str) -> bool {
    fields(json).is_ok()
}

pub(crate) fn fields(json: &str) -> Result<Fields<'_>, serde_json::Error> {
    serde_json::from_str(json)
}

impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;

        impl<'de> Visitor<'de> for Object {
            type Value = Fields<'de>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields<'de>, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }

        deserializer.deserialize_map(Object)
    }
}

/// The arguments, with the values of the patch in the places of theirs, and its other fields at the end. What the patch
/// does not name keeps its text, also the spaces around it.
pub(crate) fn merge(args: &str, patch: &str) -> Result<String, String> {
    let old = fields(args).map_err(|error| format!("its present arguments are not a JSON object ({error})"))?.0;
    let new = fields(patch).map_err(|error| {
        format!("the change is not a JSON object ({error}): write it as {{\"to\": \"ada@example.org\"}}")
    })?;
    let mut values = BTreeMap::new();
    for (name, value) in &new.0 {
        if values.insert(name.as_str(), value.get()).is_some() {
            return Err(format!("the change names `{}` twice", name.escape_debug()));
        }
    }
    // behind the last value, or else behind the brace
    let mut end = args.find('{').map_or(0, |brace| brace + 1);
    let (mut out, mut copied) = (String::with_capacity(args.len() + patch.len()), 0);
    for (name, value) in &old {
        let start = value.get().as_ptr().addr() - args.as_ptr().addr();
        end = start + value.get().len();
        if let Some(value) = values.get(name.as_str()) {
            out += &args[copied..start];
            out += value;
            copied = end;
        }
    }
    out += &args[copied..end];
    let present: HashSet<&str> = old.iter().map(|(name, _)| name.as_str()).collect();
    let mut comma = if old.is_empty() { "" } else { "," };
    for (name, value) in new.0.iter().filter(|(name, _)| !present.contains(name.as_str())) {
        let name = serde_json::to_string(name).map_err(|error| error.to_string())?;
        out += &format!("{comma}{name}:{}", value.get());
        comma = ",";
    }
    Ok(out + &args[end..])
}
