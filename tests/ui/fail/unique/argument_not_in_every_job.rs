use queue::{Job, job};

#[job(unique(by = (user, reason, note)))]
async fn refresh(
    #[serde(skip)] user: i64,
    #[serde(skip_serializing_if = "String::is_empty", default)] reason: String,
    #[serde(flatten)] note: std::collections::HashMap<String, String>,
) {
    let _ = (user, reason, note);
}

fn main() {
    let _ = Refresh::new(7, "new name", std::collections::HashMap::new()).max_retries(3);
}
