use queue::{Job, job};

#[job(unique(by = user))]
async fn refresh(ctx: queue::JobContext) {
    let _ = ctx;
}

fn main() {
    let _ = Refresh.max_retries(3);
}
