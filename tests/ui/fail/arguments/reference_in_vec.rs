use queue::{Job, job};

#[job]
async fn send_email(to: Vec<&str>) {
    let _ = to;
}

fn main() {
    let _ = SendEmail::new(vec!["a@example.org"]).max_retries(3);
    let _ = SendEmail { to: vec!["a@example.org"] };
}
