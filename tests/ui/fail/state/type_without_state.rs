use queue::{State, job};

#[job]
async fn send_email(State(mailer): Mailer, to: String) {
    let _ = (mailer, to);
}

#[derive(Clone)]
struct Mailer;

fn main() {
    let _ = SendEmail::new("");
}
