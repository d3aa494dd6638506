use queue::{Job, job};

#[job(unique(by = user))]
#[serde(transparent)]
async fn refresh(user: i64) {
    let _ = user;
}

fn main() {
    let _ = Refresh::new(7).max_retries(3);
}
