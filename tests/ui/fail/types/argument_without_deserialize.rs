use queue::{Job, job};

#[job]
async fn send_email(to: Address) {
    let _ = to;
}

#[derive(Clone, Debug, serde::Serialize)]
struct Address {
    mail: String,
}

fn main() {
    let _ = SendEmail::new(Address { mail: String::new() }).max_retries(3);
}
