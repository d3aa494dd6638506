use queue::{Job, job};

#[job(unique(by = ()))]
async fn refresh(user: i64, reason: String) {
    let _ = (user, reason);
}

#[job(unique(by))]
async fn notify(user: i64, day: String) {
    let _ = (user, day);
}

fn main() {
    let _ = Refresh::new(7, "new name").max_retries(3);
    let _ = Notify::new(7, "2027-01-01").max_retries(3);
}
