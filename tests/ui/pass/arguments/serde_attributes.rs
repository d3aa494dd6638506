//! Attributes for serde, and documentation, move to the field.

#![deny(warnings, missing_docs)]

use queue::job;

/// Renamed in JSON.
#[job]
#[serde(rename_all = "camelCase")]
pub async fn rename(
    /// Documented.
    first_name: String,
    #[serde(rename = "surname", alias = "family")] last_name: String,
    #[serde(default)] n: u32,
    #[allow(unused_variables)] unused: u32,
) {
    let _ = (first_name, last_name, n);
}

/// Attributes that name functions of the types.
#[job]
pub async fn convert(
    #[serde(default = "seven", skip_serializing_if = "is_seven")] n: u32,
    #[serde(with = "as_text")] point: Point,
) {
    let _ = (n, point);
}

/// Names and defaults, without serde's derives.
#[job]
#[serde(deny_unknown_fields)]
pub async fn name(
    #[serde(rename = "given", alias = "first")] given_name: String,
    r#type: u8,
    #[serde(alias = "memo", alias = "remark")] note: Option<String>,
    #[serde(default)] n: u32,
) {
    let _ = (given_name, r#type, note, n);
}

/// Not serializable itself.
#[derive(Debug, Clone)]
pub struct Point(u32);

fn seven() -> u32 {
    7
}

fn is_seven(n: &u32) -> bool {
    *n == 7
}

mod as_text {
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(point: &super::Point, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&point.0)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<super::Point, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map(super::Point).map_err(serde::de::Error::custom)
    }
}

fn main() {
    let json = serde_json::to_value(Rename::new("A", "B", 3, 4)).unwrap();
    assert_eq!(json, serde_json::json!({ "firstName": "A", "surname": "B", "n": 3, "unused": 4 }));
    let read: Rename = serde_json::from_str(r#"{"firstName":"A","family":"B","unused":1}"#).unwrap();
    assert_eq!((read.last_name.as_str(), read.n), ("B", 0));

    let json = serde_json::to_value(Name::new("A", 1, Some("x".to_owned()), 2)).unwrap();
    assert_eq!(json, serde_json::json!({ "given": "A", "type": 1, "note": "x", "n": 2 }));
    let read: Name = serde_json::from_str(r#"{"first":"A","type":3,"remark":"y"}"#).unwrap();
    assert_eq!((read.given_name.as_str(), read.r#type, read.note.as_deref(), read.n), ("A", 3, Some("y"), 0));
    let unknown = serde_json::from_str::<Name>(r#"{"given":"A","type":3,"nope":1}"#).unwrap_err().to_string();
    assert!(unknown.starts_with("unknown field `nope`, expected one of `given`, `type`, `note`, `n`"), "{unknown}");

    let json = serde_json::to_value(Convert::new(7, Point(5))).unwrap();
    assert_eq!(json, serde_json::json!({ "point": "5" }));
    let read: Convert = serde_json::from_str(r#"{"point":"6"}"#).unwrap();
    assert_eq!((read.n, read.point.0), (7, 6));
}
