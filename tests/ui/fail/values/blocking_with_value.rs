use queue::{Job, job};

#[job(blocking = true)]
fn send_email(to: String) {
    let _ = to;
}

fn main() {
    let _ = SendEmail::new("a@example.org").max_retries(3);
}
