use queue::{Job, job};

#[job]
async fn send_email(to: &str) -> Result<&str, std::fmt::Error> {
    Ok(to)
}

fn main() {
    let _ = SendEmail::new("a@example.org").max_retries(3);
}
