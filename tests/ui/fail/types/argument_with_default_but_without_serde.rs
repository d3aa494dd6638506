use queue::{Job, job};

#[job]
async fn send_email(#[serde(default)] to: Address) {
    let _ = to;
}

#[derive(Clone, Debug, Default)]
struct Address;

fn main() {
    let _ = SendEmail::new(Address).max_retries(3);
}
