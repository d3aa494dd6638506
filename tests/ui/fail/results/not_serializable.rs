use queue::{Job, job};

#[job]
async fn send_email(to: String) -> Result<Receipt, std::fmt::Error> {
    drop(to);
    Ok(Receipt)
}

struct Receipt;

fn main() {
    let _ = SendEmail::new("a@example.org").max_retries(3);
}
