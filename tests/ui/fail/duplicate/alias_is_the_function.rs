use queue::{Job, job};

#[job(aliases = ["send_email"])]
async fn send_email(to: String) {
    let _ = to;
}

fn main() {
    let _ = SendEmail::new("a@example.org").max_retries(3);
}
