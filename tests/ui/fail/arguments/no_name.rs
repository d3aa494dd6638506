use queue::{Job, job};

#[job]
async fn send_email(_: String) {}

fn main() {
    let _ = SendEmail::new("a@example.org").max_retries(3);
}
