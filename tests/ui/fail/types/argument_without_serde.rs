use queue::{Job, job};

#[job]
async fn send_email(to: Address, copies: Vec<Address>) {
    let _ = (to, copies);
}

struct Address;

fn main() {
    let _ = SendEmail::new(Address, Vec::new()).max_retries(3);
}
