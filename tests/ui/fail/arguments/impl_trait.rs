use queue::{Job, job};

#[job]
async fn send_email(to: impl ToString) {
    let _ = to;
}

fn main() {
    let _ = SendEmail::new("a@example.org").max_retries(3);
}
