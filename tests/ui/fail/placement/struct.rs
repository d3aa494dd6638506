use queue::job;

#[job]
#[derive(Debug)]
struct SendEmail {
    to: String,
}

fn main() {
    let _ = SendEmail { to: String::new() };
}
