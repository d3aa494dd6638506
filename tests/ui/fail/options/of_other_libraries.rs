use queue::{Job, job};

#[job(unique_for = "1h")]
async fn send_email(to: String) {
    let _ = to;
}

#[job(concurrency = 2)]
async fn send_letter(to: String) {
    let _ = to;
}

fn main() {
    let _ = SendEmail::new("a@example.org").max_retries(3);
    let _ = SendLetter::new("a@example.org").max_retries(3);
}
