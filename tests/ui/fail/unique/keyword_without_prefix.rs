use queue::{Job, job};

#[job(unique(by = type))]
async fn refresh(r#type: String) {
    let _ = r#type;
}

fn main() {
    let _ = Refresh::new("all").max_retries(3);
}
