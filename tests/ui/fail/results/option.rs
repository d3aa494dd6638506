use queue::{Job, job};

#[job]
async fn send_email(to: String) -> Option<String> {
    Some(to)
}

fn main() {
    let _ = SendEmail::new("a@example.org").max_retries(3);
}
