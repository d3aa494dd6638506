use queue::{Job, job};

#[job]
async fn send_email(to: String) -> Result<(), Box<dyn std::error::Error>> {
    drop(to);
    Ok(())
}

fn main() {
    let _ = SendEmail::new("a@example.org").max_retries(3);
}
