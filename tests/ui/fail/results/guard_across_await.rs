use std::sync::Mutex;

use queue::{Job, job};

#[job]
async fn send_email(to: String) {
    let guard = Mutex::new(to);
    let locked = guard.lock();
    std::future::ready(()).await;
    drop(locked);
}

fn main() {
    let _ = SendEmail::new("a@example.org").max_retries(3);
}
