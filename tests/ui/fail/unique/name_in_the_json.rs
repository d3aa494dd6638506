use queue::{Job, job};

#[job(unique(by = userId))]
#[serde(rename_all = "camelCase")]
async fn refresh(user_id: i64) {
    let _ = user_id;
}

fn main() {
    let _ = Refresh::new(7).max_retries(3);
}
