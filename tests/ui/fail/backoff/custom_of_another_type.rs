use queue::{Job, job};

#[job(backoff = custom(delay))]
async fn send_email(to: String) {
    let _ = to;
}

fn delay(attempt: u64) -> u64 {
    attempt
}

fn main() {
    let _ = SendEmail::new("a@example.org").max_retries(3);
}
