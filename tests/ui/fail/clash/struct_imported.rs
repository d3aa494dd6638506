use queue::job;

#[job]
async fn send_email(to: String) {
    let _ = to;
}

mod mail {
    pub struct SendEmail;
}
use mail::SendEmail;

fn main() {}
