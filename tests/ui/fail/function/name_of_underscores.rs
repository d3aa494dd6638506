use queue::job;

#[job]
async fn __(to: String) {
    let _ = to;
}

fn main() {}
