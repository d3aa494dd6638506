use std::borrow::Cow;
use std::path::Path;

use queue::job;

#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Point {
    x: u32,
}

#[allow(clippy::too_many_arguments)]
#[job]
pub async fn borrow(
    text: &str,
    list: &[u32],
    path: &Path,
    value: &Point,
    maybe_text: Option<&str>,
    maybe_value: Option<&Point>,
    maybe_list: Option<&[String]>,
    cow: Cow<'_, str>,
    static_cow: Cow<'static, str>,
    cow_list: std::borrow::Cow<'_, [u32]>,
) {
    let _ = (text, list, path, value, maybe_text, maybe_value, maybe_list, cow, static_cow, cow_list);
}

fn main() {
    let job = Borrow {
        text: String::from("a"),
        list: vec![1],
        path: std::path::PathBuf::from("/"),
        value: Point { x: 1 },
        maybe_text: Some(String::from("b")),
        maybe_value: None,
        maybe_list: None,
        cow: String::from("c"),
        static_cow: String::from("d"),
        cow_list: vec![2],
    };
    let made = Borrow::new("a", [1], "/", Point { x: 1 }, "b".to_owned(), None, None, "c", "d", [2]);
    let json = serde_json::to_string(&job).unwrap();
    assert_eq!(json, serde_json::to_string(&made).unwrap());
    let read: Borrow = serde_json::from_str(&json).unwrap();
    assert_eq!(read.value, Point { x: 1 });
    // A missing option is `None`, an unknown field is ignored.
    let read: Borrow = serde_json::from_str(
        r#"{"text":"","list":[],"path":"","value":{"x":2},"cow":"","static_cow":"","cow_list":[],"more":[1,{"a":2}]}"#,
    )
    .unwrap();
    assert_eq!((read.maybe_text, read.maybe_value), (None, None));
    drop(borrow("", &[], Path::new("/"), &Point { x: 1 }, None, None, None, "".into(), "".into(), Cow::Borrowed(&[])));
}
