use queue::{Job, job};

#[job]
async fn send_email(point @ (x, y): (u32, u32)) {
    let _ = (point, x, y);
}

fn main() {
    let _ = SendEmail::new((1, 2)).max_retries(3);
}
