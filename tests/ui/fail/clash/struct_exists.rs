use queue::job;

#[job]
async fn send_email(to: String) {
    let _ = to;
}

pub struct SendEmail {
    pub address: u32,
}

fn main() {}
