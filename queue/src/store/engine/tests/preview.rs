//! The next jobs of several lanes.

use super::discovery::{WALKED, counted};
use super::*;

on_each!(preview_counts_in_order, preview_ends_at_an_id,);

async fn preview_counts_in_order<DB: TestDb>(db: Db<DB>) {
    let preview = async |asks: &[Ask], reach| db.store.preview(asks, reach).await.unwrap();
    let counts =
        async |asks: &[Ask], reach| preview(asks, reach).await.iter().map(|share| share.count).collect::<Vec<_>>();
    let at = |kind, priority, second: i64| NewJob {
        priority,
        run_at_us: Some(1_000_000_000_000_000 + second * 1_000_000),
        ..job(kind)
    };
    let ids = db
        .insert(&[
            at("a", 0, 1),
            at("b", 0, 2),
            at("a", 0, 3),
            at("b", 0, 4),
            at("a", 0, 5),
            at("c", -1, 9),
            at("a", 5, 0),
        ])
        .await;
    let urgent = Ask { lane: Lane { priority: -1, ..ask("c", 0).lane }, ..ask("c", 0) };
    let asks = [ask("a", 0), ask("b", 0), urgent];
    let all = |most| Reach { most, least: 0, before: None, until: None };
    for (most, expected) in [(1, [0, 0, 1]), (2, [1, 0, 1]), (3, [1, 1, 1]), (4, [2, 1, 1]), (99, [3, 2, 1])] {
        assert_eq!(counts(&asks, all(most)).await, expected, "{most}");
    }
    let behind = Ask { behind: Some((1_000_000_001_000_000, ids[0])), ..ask("a", 0) };
    assert_eq!(counts(&[behind, ask("b", 0)], all(2)).await, [1, 1]);
    let newest = Ask { newest_first: true, ..ask("a", 0) };
    assert_eq!(counts(std::slice::from_ref(&newest), all(2)).await, [2]);
    // what comes before another lane, and so many in any case
    let second = |n: i64| 1_000_000_000_000_000 + n * 1_000_000;
    for ((priority, time, id), least, expected) in [
        ((-1, second(9), 0), 0, [0, 0, 0]),
        ((0, i64::MIN, 0), 0, [0, 0, 1]),
        ((0, second(2), ids[1]), 0, [1, 0, 1]),
        ((0, second(2), ids[1] + 1), 0, [1, 1, 1]),
        ((0, second(2) + 1, 0), 0, [1, 1, 1]),
        ((0, second(2), 0), 4, [2, 1, 1]),
        ((1, i64::MIN, 0), 0, [3, 2, 1]),
    ] {
        let reach = Reach { most: 9, least, before: Some((priority, (time, id))), until: None };
        assert_eq!(counts(&asks, reach).await, expected, "{reach:?}");
    }
    let reach = Reach { most: 9, least: 0, before: Some((0, (-second(3), -ids[2]))), until: None };
    assert_eq!(counts(&[ask("b", 0), newest.clone()], reach).await, [0, 2]);
    // what is sure, and from where to where it goes, within reach or not
    let reach = Reach { most: 4, least: 3, before: Some((0, (second(2), 0))), until: None };
    let share = |[count, sure, all]: [u32; 3], ends| Share { count, sure, all, ends: Some(ends) };
    // of one time the ids are known; else the least of them all, and nothing of the last one's
    let a = ((second(1), ids[0]), (second(3), i64::MIN));
    let [b, urgent] = [(2, ids[1]), (9, ids[5])].map(|(n, id)| ((second(n), id), (second(n), id)));
    let expected = [share([1, 1, 2], a), share([1, 0, 1], b), share([1, 1, 1], urgent)];
    assert_eq!(preview(&asks, reach).await, expected);
    let reach = Reach { most: 1, least: 0, before: Some((-1, (second(0), 0))), until: None };
    assert_eq!(preview(&asks, reach).await, [Share::default(), Share::default(), share([0, 0, 1], urgent)]);
    let reach = Reach { most: 2, least: 0, before: None, until: None };
    let ends = ((-second(5), -1 - ids[4]), (-second(3), i64::MIN));
    assert_eq!(preview(std::slice::from_ref(&newest), reach).await, [share([2, 2, 2], ends)]);
    // what is not read
    for ((priority, time, id), expected) in [
        ((-1, second(9), 0), [0, 0, 0]),
        ((-1, second(9) + 1_000, i64::MIN), [0, 0, 1]),
        ((0, second(2), ids[1]), [1, 0, 1]),
        ((0, second(2), ids[1] + 1), [1, 1, 1]),
        ((0, second(2) + 1_000, i64::MIN), [1, 1, 1]),
        ((1, 0, 0), [3, 2, 1]),
    ] {
        let reach = Reach { most: 9, least: 9, before: None, until: Some((priority, (time, id))) };
        assert_eq!(counts(&asks, reach).await, expected, "{reach:?}");
    }
    let reach = Reach { most: 9, least: 0, before: None, until: Some((0, (second(2), 0))) };
    assert_eq!(counts(&[ask("b", 0), newest.clone()], reach).await, [0, 3]);
    // what is due later is not read, however far it goes
    let reach = Reach { most: 9, least: 9, before: None, until: Some((1, (0, 0))) };
    db.insert(&[NewJob { delay_us: Some(60_000_000), ..job("b") }]).await;
    assert_eq!(counts(&[ask("b", 0)], reach).await, [2]);
    // what is paused would be in the way of the others: no claim takes it
    db.sql(format!("INSERT INTO queue_paused (queue, paused_at) VALUES ('default', {})", DB::in_seconds(0))).await;
    assert_eq!(counts(&[ask("b", 0), newest], all(9)).await, [0, 0]);
}

/// If all jobs are due at the same time, a preview reads only those before an id.
async fn preview_ends_at_an_id<DB: TestDb>(db: Db<DB>) {
    let at = NewJob { run_at_us: Some(1_000_000_000_000_000), ..job("a") };
    let ids = db.insert(&vec![at; 2_000]).await;
    let mut conn = db.pool.acquire().await.unwrap();
    for (behind, end) in [(None, 30), (Some(10), 30), (Some(1_500), 1_520)] {
        let place = |n: usize| (1_000_000_000_000_000, ids[n]);
        let ask = Ask { behind: behind.map(place), ..ask("a", 0) };
        let reach = Reach { most: 500, least: 500, before: None, until: Some((0, place(end))) };
        let before = counted::<DB>(&mut conn, WALKED).await;
        let share = DB::preview(&mut conn, std::slice::from_ref(&ask), reach).await.unwrap()[0];
        let read = counted::<DB>(&mut conn, WALKED).await - before;
        let first = behind.map_or(0, |n| n + 1);
        assert_eq!(share.count as usize, end - first);
        assert_eq!(share.ends, Some((place(first), place(end - 1))));
        assert!(read < 200, "{read} rows");
    }
}
