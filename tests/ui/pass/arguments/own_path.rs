//! Types of the user's own that are called as one of the library's, by value, and as the job's struct, in a module.
use queue::{Job, job};

#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
struct Path {
    points: Vec<(i32, i32)>,
}

#[job]
async fn draw(path: Path) {
    assert_eq!(path.points.len(), 1);
}

mod shapes {
    #[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
    pub struct Shape;
}

#[job]
async fn shape(of: shapes::Shape, more: Vec<shapes::Shape>) {
    let _ = (of, more);
}

fn main() {
    drop(Shape { of: shapes::Shape, more: Vec::new() });
    let path = Path { points: vec![(1, 2)] };
    let job = Draw { path: path.clone() };
    assert_eq!((Draw::KIND, job.path), ("draw", path.clone()));
    assert_eq!(serde_json::to_string(&Draw::new(path)).unwrap(), r#"{"path":{"points":[[1,2]]}}"#);
}
