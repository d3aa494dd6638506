use queue::{Job, job};

#[job]
async fn send_email(to: String, #[cfg(unix)] subject: String) {
    let _ = (to, subject);
}

fn main() {
    let _ = SendEmail::new("", "").max_retries(3);
}
