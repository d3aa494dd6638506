use queue::job;

struct Mailer;

impl Mailer {
    #[job]
    async fn send_email(mailer: queue::State<Self>, to: String) {
        let _ = (mailer, to);
    }
}

fn main() {}
