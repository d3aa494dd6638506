use queue::job;

#[job]
async fn SendEmail(to: String) {
    let _ = to;
}

fn main() {}
