use queue::{Job, job};

#[job]
async fn send_email<const N: usize>(to: [u8; N]) {
    let _ = to;
}

fn main() {
    let _ = SendEmail::new("a@example.org").max_retries(3);
}
