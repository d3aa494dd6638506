use queue::job;

#[job]
#[allow(clippy::too_many_arguments)]
pub async fn many(
    a0: u32,
    a1: String,
    a2: &str,
    a3: Option<u64>,
    a4: u32,
    a5: String,
    a6: &str,
    a7: Option<u64>,
    a8: u32,
    a9: String,
    a10: &str,
    a11: Option<u64>,
    a12: u32,
    a13: String,
    a14: &str,
    a15: Option<u64>,
    a16: u32,
    a17: String,
    a18: &str,
    a19: Option<u64>,
    a20: u32,
    a21: String,
    a22: &str,
    a23: Option<u64>,
) {
    let _ = (a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11);
    let _ = (a12, a13, a14, a15, a16, a17, a18, a19, a20, a21, a22, a23);
}

fn main() {
    let job = Many::new(1, "b", "c", 4, 1, "b", "c", 4, 1, "b", "c", 4, 1, "b", "c", 4, 1, "b", "c", 4, 1, "b", "c", 4);
    let json = serde_json::to_string(&job).unwrap();
    let read: Many = serde_json::from_str(&json).unwrap();
    assert_eq!(read.a23, Some(4));
    assert_eq!(json.matches(':').count(), 24);
}
