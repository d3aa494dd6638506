use queue::{Job, job};

#[job(unique())]
async fn refresh(user: i64, reason: String) {
    let _ = (user, reason);
}

fn main() {
    let _ = Refresh::new(7, "new name").max_retries(3);
}
