use queue::{Job, job};

#[job]
async fn send_email(to: String) -> Result<(), MailError> {
    drop(to);
    Ok(())
}

struct MailError;

fn main() {
    let _ = SendEmail::new("a@example.org").max_retries(3);
}
