use queue::{Job, job};

#[job(schedule = "0 9 * * MON-FRI Europe/Berlin")]
async fn sync_shop(shop: u32) {
    let _ = shop;
}

fn main() {
    let _ = SyncShop::new(7_u32).max_retries(3);
}
