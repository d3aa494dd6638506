//! States that differ only by the names of callers and jobs, by numbers that have no meaning of their own, or by jobs
//! that can never come back, are one state for the search.

use crate::keys::{Caller, Key, Stage, Stands, Until, What, World};

/// A job that can never come back, and one that is nowhere.
const FINISHED: [u8; 2] = [254, 255];

pub(super) fn key(world: &World) -> Box<[u8]> {
    let mut key = vec![world.requests, world.troubles];
    for job in (0..world.noted.len()).filter(|job| !world.is_finished(*job)) {
        let (it, noted) = (&world.database.jobs[job], world.noted[job]);
        let age = fence(world, job) - noted.since;
        key.extend([byte(noted.key), noted.until as u8, u8::from(noted.is_there), byte(age)]);
        let row = it.row.as_ref().map(|row| [1, row.holder, byte(row.attempt), byte(it.counted)]);
        key.extend(row.unwrap_or_default());
    }
    key.push(253);
    world.keys.iter().for_each(|it| key.extend(named(world, *it)));
    let mut callers: Vec<Vec<u8>> =
        world.callers.iter().map(|it| it.as_ref().map(|it| caller(world, it)).unwrap_or_default()).collect();
    callers.sort_unstable();
    for caller in callers {
        key.push(byte(caller.len()));
        key.extend(caller);
    }
    key.into_boxed_slice()
}

fn fence(world: &World, job: usize) -> u32 {
    world.row(job).map_or(world.database.jobs[job].last_fence, |row| row.fence)
}

/// Jobs that can come back are counted; the others are alike.
fn name(world: &World, job: usize) -> u8 {
    match world.is_finished(job) {
        true => FINISHED[usize::from(world.database.jobs[job].deleted)],
        false => byte((0..job).filter(|other| !world.is_finished(*other)).count()),
    }
}

/// Fences only matter by how far they are behind the row's.
fn named(world: &World, key: Option<Key>) -> [u8; 3] {
    match key {
        None => [0; 3],
        Some(key) if world.is_finished(key.holder) => [1, name(world, key.holder), 0],
        Some(Key { holder, until, fence: under }) => {
            let age = fence(world, holder) - under;
            [2 + u8::from(until == Until::End), name(world, holder), byte(age)]
        }
    }
}

fn caller(world: &World, it: &Caller) -> Vec<u8> {
    let mut key = match it.what {
        What::Enqueue(until) => vec![until as u8],
        What::SendBack(job) => vec![2, name(world, job)],
    };
    key.extend(match it.stage {
        Stage::Locks(place) => [0, byte(place)],
        Stage::Reads => [1, 0],
        Stage::Holds => [2, 0],
        Stage::Done => [3, 0],
    });
    for request in &it.requests {
        key.push(byte(request.key));
        key.extend(match request.stands {
            Stands::Open => [0, 0],
            Stands::Taker => [1, 0],
            Stands::Kept(job, waits) => [2 + u8::from(waits), name(world, job)],
        });
    }
    for list in [&it.keys, &it.rows.iter().map(|job| usize::from(name(world, *job))).collect()] {
        key.push(byte(list.len()));
        key.extend(list.iter().map(|it| byte(*it)));
    }
    for (place, found) in &it.found {
        key.push(byte(*place));
        key.extend(named(world, Some(*found)));
    }
    if matches!(it.stage, Stage::Locks(_)) {
        key.extend(seen(world, it));
    }
    key
}

/// What a snapshot says of jobs that can come back, and of the newest holders.
fn seen(world: &World, it: &Caller) -> Vec<u8> {
    let mut key = vec![252];
    for job in (0..world.noted.len()).filter(|job| !world.is_finished(*job)) {
        let then = it.snapshot.jobs.get(job).copied().flatten();
        key.push(then.map_or(0, |then| 1 + byte(fence(world, job) - then)));
    }
    for (then, now) in it.snapshot.keys.iter().zip(&world.keys) {
        key.push(u8::from(then == now));
        key.extend(named(world, *then));
        let holder = now.and_then(|now| Some((now, it.snapshot.jobs.get(now.holder).copied().flatten()?)));
        key.push(holder.map_or(0, |(now, fence)| 1 + u8::from(now.fence == fence)));
        key.push(now.map_or(0, |now| u8::from(now.until == Until::End)));
    }
    key
}

/// All numbers of the model are small.
fn byte<N: TryInto<u8>>(number: N) -> u8 {
    number.try_into().unwrap_or(u8::MAX)
}
