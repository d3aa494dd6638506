use queue::job;

trait Mail {
    #[job]
    async fn send_email(to: String);
}

fn main() {}
