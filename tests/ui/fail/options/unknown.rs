use queue::{Job, job};

#[job(colour = "red")]
async fn send_email(to: String) {
    let _ = to;
}

fn main() {
    let _ = SendEmail::new("a@example.org").max_retries(3);
}
