use queue::{JobContext, State, job};

#[job]
async fn charge(#[secret] ctx: JobContext, #[secret] State(key): State<String>, card: String) {
    let _ = (ctx, key, card);
}

fn main() {}
