#![deny(warnings)]

use queue::job;

#[job]
pub async fn name_them(
    mut counted: u32,
    _unused: String,
    ref borrowed: String,
    r#type: String,
    serializer: u8,
    context: u8,
    this: u8,
    f: u8,
    result: u8,
    error: u8,
    value_0: u8,
    queue: u8,
) {
    counted += 1;
    let _ = (counted, borrowed, r#type, serializer, context, this, f, result, error, value_0, queue);
}

#[job]
pub async fn r#match(n: u32) {
    let _ = n;
}

fn main() {
    let job = NameThem::new(1, "", "", "mail", 1, 2, 3, 4, 5, 6, 7, 8);
    assert_eq!(job.r#type, "mail");
    let json = serde_json::to_value(&job).unwrap();
    assert_eq!((&json["type"], &json["_unused"], &json["queue"]), (&"mail".into(), &"".into(), &8.into()));
    assert_eq!(format!("{:?}", Match::new(3).clone()), "Match { n: 3 }");
    assert_eq!(<Match as queue::Job>::KIND, "match");
}
