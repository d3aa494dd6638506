#![deny(warnings)]

use queue::job;

#[job]
pub async fn cleanup() {}

fn main() {
    let job = Cleanup;
    assert_eq!(serde_json::to_string(&job).unwrap(), "{}");
    for json in ["{}", "null", r#"{"old":[1,{"a":null}],"more":2}"#, " { } "] {
        let _: Cleanup = serde_json::from_str(json).unwrap();
    }
    for json in ["3", "[1]", "\"\"", "{"] {
        serde_json::from_str::<Cleanup>(json).unwrap_err();
    }
    assert_eq!(format!("{:?}", Cleanup::new().clone()), "Cleanup");
}
