//! How the shop tests its jobs: without a worker, with the worker's code.

use queue::testing::TestQueue;
use queue::testing::assert_enqueued;
use queue_example_web::db::{Db, Orders};
use queue_example_web::jobs::ConfirmOrder;

#[tokio::test]
async fn an_order_is_confirmed_once_although_its_worker_dies() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let db = Db::connect(&format!("sqlite://{}", folder.path().join("shop.sqlite").display())).await?;
    let Db::Sqlite(pool) = &db else { unreachable!("the address says so") };

    let (placed, _) = db.place("lamp", "4f1c").await?;
    let mut queue = TestQueue::new(pool).state(db.clone());
    assert_enqueued!(queue, ConfirmOrder { order } if *order == placed);

    // the handler does its work, and its worker dies before it can record that
    queue.crash_before_end();
    let drained = queue.drain().await?.expect_ok();
    assert_eq!((drained.lost, drained.completed), (1, 1));
    assert_eq!(db.orders().await?, Orders { placed: 1, confirmed: 1, confirmed_twice: 0 });
    Ok(())
}
