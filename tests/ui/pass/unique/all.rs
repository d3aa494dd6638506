#![deny(warnings)]

use std::time::Duration;

use queue::{Job, JobContext, State, job};
use queue::unique::{OnConflict, Unique, UniqueUntil};

#[job]
pub async fn not_unique(n: u32) {
    let _ = n;
}

#[job(unique)]
pub async fn by_all(n: u32, #[serde(skip)] skipped: u32) {
    let _ = (n, skipped);
}

#[job(unique, blocking)]
pub fn without_arguments() {}

#[job(unique(until = "end", on_conflict = "keep"))]
pub async fn defaults(n: u32) {
    let _ = n;
}

#[job(unique(by = n))]
pub async fn by_one(n: u32, m: u32) {
    let _ = (n, m);
}

#[job(unique(by = (n), on_conflict = "reject"), priority = 3)]
pub async fn by_one_in_parentheses(State(state): State<u8>, n: u32, ctx: JobContext) {
    let _ = (state, n, ctx);
}

#[job(
    crate = ::queue,
    unique(
        by = (user, r#type, day,),
        until = "start",
        for = "1h30m",
        on_conflict = "replace",
    ),
)]
pub async fn by_several(mut user: i64, r#type: &str, day: Option<&str>, reason: String) {
    user += 1;
    let _ = (user, r#type, day, reason);
}

#[job(unique(by = (given_name, n), r#for = "500ms"))]
pub async fn renamed(#[serde(rename = "given", alias = "first")] given_name: String, #[serde(default)] n: u32) {
    let _ = (given_name, n);
}

/// With a serde attribute that needs serde's derives.
#[job(unique(by = (given_name, last_name, n_1)))]
#[serde(rename_all(serialize = "camelCase", deserialize = "snake_case"))]
#[serde(default = "nobody")]
pub async fn all_renamed(
    #[serde(rename(serialize = "given", deserialize = "first"), skip_deserializing)] given_name: String,
    last_name: String,
    #[serde(serialize_with = "queue_serializes")] n_1: u32,
    #[serde(skip_serializing_if = "Option::is_none")] note: Option<String>,
) {
    let _ = (given_name, last_name, n_1, note);
}

fn nobody() -> AllRenamed {
    AllRenamed::new("", "", 0, None)
}

fn queue_serializes<S: serde::Serializer>(n: &u32, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u32(*n)
}

macro_rules! unique {
    ($name:ident($($by:ident: $ty:ty),*), $until:literal, $period:expr, $on_conflict:expr) => {
        #[job(unique(by = ($($by),*), until = $until, for = $period, on_conflict = $on_conflict))]
        pub async fn $name($($by: $ty),*) {
            let _ = ($($by,)*);
        }
    };
    ($name:ident, $by:expr) => {
        #[job(unique(by = $by))]
        pub async fn $name(n: u32, m: u32) {
            let _ = (n, m);
        }
    };
}
unique!(by_macro_rules(a: u8, b: &str), "start", "1s", "replace");
unique!(by_an_expression, (n, m));

/// The names are the keys that serde writes.
fn keys<J: Job>(job: J, names: &'static [&'static str]) -> Option<Unique> {
    let json = serde_json::to_value(job).unwrap();
    for name in names {
        assert!(json.get(name).is_some(), "{name} in {json}");
    }
    Some(Unique::by(names))
}

fn main() {
    assert_eq!(NotUnique::UNIQUE, None);
    for plain in [ByAll::UNIQUE, WithoutArguments::UNIQUE, Defaults::UNIQUE] {
        assert_eq!(plain, Some(Unique::ALL_ARGS));
    }
    assert_eq!(ByOne::UNIQUE, keys(ByOne::new(1, 2), &["n"]));
    let one = keys(ByOneInParentheses::new(1), &["n"]).unwrap();
    assert_eq!(ByOneInParentheses::UNIQUE, Some(one.on_conflict(OnConflict::Reject)));

    let several = keys(BySeveral::new(1, "a", None, "b"), &["user", "type", "day"]).unwrap();
    let several = several.until(UniqueUntil::Start).on_conflict(OnConflict::Replace);
    assert_eq!(BySeveral::UNIQUE, Some(several.at_least(Duration::from_secs(5400))));

    let renamed = keys(Renamed::new("A", 1), &["given", "n"]).unwrap();
    assert_eq!(Renamed::UNIQUE, Some(renamed.at_least(Duration::from_millis(500))));
    assert_eq!(AllRenamed::UNIQUE, keys(AllRenamed::new("A", "B", 1, None), &["given", "lastName", "n1"]));

    let by_macro = keys(ByMacroRules::new(1, "b"), &["a", "b"]).unwrap();
    let by_macro = by_macro.until(UniqueUntil::Start).on_conflict(OnConflict::Replace);
    assert_eq!(ByMacroRules::UNIQUE, Some(by_macro.at_least(Duration::from_secs(1))));
    assert_eq!(ByAnExpression::UNIQUE, keys(ByAnExpression::new(1, 2), &["n", "m"]));
}
