use queue::{Job, job};

#[job(unique(by = (user, cache, ctx)))]
async fn refresh(user: i64, queue::State(cache): queue::State<u8>, ctx: &queue::JobContext) {
    let _ = (user, cache, ctx);
}

fn main() {
    let _ = Refresh::new(7).max_retries(3);
}
