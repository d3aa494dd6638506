use queue::{Job, job};

#[job]
async fn send_email(Address { to }: Address) {
    let _ = to;
}

#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
struct Address {
    to: String,
}

fn main() {
    let _ = SendEmail::new(Address { to: String::new() }).max_retries(3);
}
