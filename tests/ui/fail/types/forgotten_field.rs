use queue::job;

#[job]
async fn send_email(to: String, subject: String) {
    let _ = (to, subject);
}

fn main() {
    let _ = SendEmail { to: String::new() };
}
