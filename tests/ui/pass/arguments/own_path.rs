//! A type of the user's own that is called as one of the library's, by value.
use queue::{Job, job};

#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
struct Path {
    points: Vec<(i32, i32)>,
}

#[job]
async fn draw(path: Path) {
    assert_eq!(path.points.len(), 1);
}

fn main() {
    let path = Path { points: vec![(1, 2)] };
    let job = Draw { path: path.clone() };
    assert_eq!((Draw::KIND, job.path), ("draw", path.clone()));
    assert_eq!(serde_json::to_string(&Draw::new(path)).unwrap(), r#"{"path":{"points":[[1,2]]}}"#);
}
