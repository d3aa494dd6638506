//! What is said of a job beside its arguments: text by name. It travels in the column `meta`, to the job's attempts, to
//! the log, and on to the jobs that its handler enqueues.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};

/// The most bytes of JSON in the column.
pub(crate) const MAX_META_BYTES: usize = 4096;

static NOTHING: BTreeMap<String, String> = BTreeMap::new();

tokio::task_local! {
    static OF_RUNNING_JOB: Metadata;
}

/// Shared, because a job's context, its events and its enqueues have it. Most jobs have none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Metadata(Option<Arc<BTreeMap<String, String>>>);

impl Metadata {
    pub(crate) const NONE: Self = Self(None);

    /// That of the job whose handler calls this.
    pub(crate) fn of_running_job() -> Self {
        OF_RUNNING_JOB.try_with(Clone::clone).unwrap_or_default()
    }

    /// Reads the column.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        if text.len() > MAX_META_BYTES {
            return Err(format!("it has {} bytes, and the limit is {MAX_META_BYTES}", text.len()));
        }
        let map: Map<String, Value> = serde_json::from_str(text).map_err(|error| format!("no JSON object: {error}"))?;
        let text = |value| match value {
            Value::String(text) => text,
            other => other.to_string(),
        };
        let meta = Self::from(map.into_iter().map(|(name, value)| (name, text(value))).collect::<BTreeMap<_, _>>());
        // it is handed on as text, which may be longer
        match meta.json().map_or(0, |json| json.len()) {
            ..=MAX_META_BYTES => Ok(meta),
            bytes => Err(format!("as text it has {bytes} bytes, and the limit is {MAX_META_BYTES}")),
        }
    }

    pub(crate) fn map(&self) -> &BTreeMap<String, String> {
        self.0.as_deref().unwrap_or(&NOTHING)
    }

    /// As it is stored.
    pub(crate) fn json(&self) -> Option<String> {
        self.0.as_deref().map(|map| serde_json::to_string(map).expect("text serializes"))
    }

    /// Runs a handler whose enqueues get this.
    pub(crate) async fn hand_on<T>(self, handler: impl Future<Output = T>) -> T {
        OF_RUNNING_JOB.scope(self, handler).await
    }

    /// As [`hand_on`](Self::hand_on), on another thread.
    pub(crate) fn hand_on_blocking<T>(self, work: impl FnOnce() -> T) -> T {
        OF_RUNNING_JOB.sync_scope(self, work)
    }
}

impl From<BTreeMap<String, String>> for Metadata {
    /// An empty value stands for none.
    fn from(mut map: BTreeMap<String, String>) -> Self {
        map.retain(|_, value| !value.is_empty());
        Self((!map.is_empty()).then(|| Arc::new(map)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_other_programs_write_is_read() {
        let read = |text| Metadata::read(text).map(|meta| meta.json());
        assert_eq!(read(r#"{"a": 7, "b": [1], "c": "x", "d": ""}"#), Ok(Some(r#"{"a":"7","b":"[1]","c":"x"}"#.into())));
        assert_eq!(read("{}"), Ok(None));
        assert!(Metadata::read(&format!(r#"{{"a": [{}"b"]}}"#, r#""a","#.repeat(900))).is_err(), "longer as text");
        for garbage in ["", "7", "[]", "null", "{\"a\": ", "\u{0}", &format!("{{\"a\": \"{}\"}}", "x".repeat(5_000))] {
            assert!(Metadata::read(garbage).is_err(), "{garbage}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".*", map in prop::collection::btree_map(".*", ".+", 0..5)) {
            let _ = Metadata::read(&text);
            let meta = Metadata::from(map.clone());
            prop_assert_eq!(Metadata::read(&meta.json().unwrap_or("{}".into())), Ok(meta));
        }
    }
}
