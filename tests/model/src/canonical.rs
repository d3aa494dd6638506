//! States that differ only by which process or job is called what, by numbers that have no meaning of their own, or by
//! jobs that are over, are one state for the search.

use crate::rows::{End, Number, Row};
use crate::world::{Message, World};

/// The same for states that behave alike.
pub fn key(world: &World) -> Box<[u8]> {
    let order = process_order(world);
    let names = Names { processes: inverse(&order), numbers: number_names(world, &order) };
    let mut jobs: Vec<Vec<u8>> = (0..world.database.jobs.len()).map(|job| names.job(world, job)).collect();
    jobs.sort_unstable();
    let mut key = vec![world.faults, world.troubles];
    for process in order {
        key.extend(process_key(world, process));
    }
    let mut kept: Vec<(u8, usize)> = (0..).zip(&names.numbers).map(|(at, name)| (*name, at)).collect();
    kept.retain(|(name, _)| *name != 0);
    kept.sort_unstable();
    for (_, at) in kept {
        let worker = &world.database.workers[at];
        key.extend([byte(worker.left), u8::from(worker.stopped)]);
    }
    let mut messages: Vec<Vec<u8>> = world.network.iter().map(|message| names.message(message)).collect();
    messages.sort_unstable();
    for part in messages.iter().chain(&jobs) {
        key.push(byte(part.len()));
        key.extend(part);
    }
    key.into_boxed_slice()
}

struct Names {
    processes: Vec<usize>,
    /// By number less one; 0: nobody speaks of it.
    numbers: Vec<u8>,
}

impl Names {
    fn number(&self, number: Number) -> u8 {
        if number == 0 { 0 } else { self.numbers[usize::from(number) - 1] }
    }

    /// All that is said of a job anywhere.
    fn job(&self, world: &World, index: usize) -> Vec<u8> {
        let job = &world.database.jobs[index];
        let row = job.row.as_ref();
        let mut key = match row {
            None => vec![0],
            Some(row) => vec![
                1 + u8::from(job.over.is_some()),
                self.number(row.holder),
                byte(row.attempt),
                byte(row.delay),
                u8::from(row.cancel) + 2 * u8::from(job.asked) + 4 * u8::from(row.noted && row.holder != 0),
                byte(job.counted),
                job.effects,
            ],
        };
        let hands = world.hands.iter().filter(|hand| hand.end.job == index);
        let mut said: Vec<Vec<u8>> = hands
            .map(|hand| {
                let mut key = vec![200, byte(self.processes[hand.process]), self.number(hand.number)];
                // what has not ended has no outcome yet
                key.extend([
                    byte(hand.attempt),
                    u8::from(hand.ended) + 2 * u8::from(hand.unsettled),
                    hand.end.outcome as u8,
                ]);
                key.extend(age(row, &hand.end));
                key
            })
            .collect();
        for it in world.transactions.iter().filter(|it| it.end.job == index) {
            let process = it.process.map_or(u8::MAX, |process| byte(self.processes[process]));
            let mut key = vec![207, process, self.number(it.number), it.stage as u8];
            key.extend(age(row, &it.end));
            said.push(key);
        }
        for message in &world.network {
            said.extend(self.mention(message, index, row));
        }
        said.sort_unstable();
        key.extend(said.into_iter().flatten());
        key
    }

    /// What a message says of a job.
    fn mention(&self, message: &Message, index: usize, row: Option<&Row>) -> Option<Vec<u8>> {
        let mut key = self.message(message);
        match message {
            Message::Ends(_, ends) => {
                let end = ends.iter().find(|end| end.job == index)?;
                key.push(end.outcome as u8);
                key.extend(age(row, end));
            }
            Message::Claimed(_, hands) => {
                let hand = hands.iter().find(|hand| hand.end.job == index)?;
                key.extend(age(row, &hand.end));
            }
            Message::Rescue(lost) => key.push(self.number(lost.iter().find(|(job, _)| *job == index)?.1)),
            Message::Delete(job) if *job == index => {}
            _ => return None,
        }
        Some(key)
    }

    /// A message without the jobs in it.
    fn message(&self, message: &Message) -> Vec<u8> {
        match message {
            Message::Claim(number) => vec![201, self.number(*number)],
            Message::Ends(number, ends) => vec![202, self.number(*number), byte(ends.len())],
            Message::Rescue(lost) => vec![203, byte(lost.len())],
            Message::Delete(_) => vec![204],
            Message::Claimed(process, hands) => vec![205, byte(self.processes[*process]), byte(hands.len())],
            Message::Beaten(process, age) => vec![206, byte(self.processes[*process]), byte(*age)],
        }
    }
}

/// Leases only matter by how far they are behind the row's.
fn age(row: Option<&Row>, end: &End) -> [u8; 2] {
    row.map_or([255, 255], |row| [byte(row.fence.wrapping_sub(end.fence)), byte(row.claims - end.claim)])
}

fn process_key(world: &World, process: usize) -> [u8; 7] {
    let it = &world.processes[process];
    let row = it.number.checked_sub(1).map(|at| &world.database.workers[usize::from(at)]);
    [
        it.life as u8,
        u8::from(it.paused),
        u8::from(it.late) + 2 * u8::from(it.severed),
        byte(it.mine),
        u8::from(it.number != 0),
        row.map_or(0, |row| byte(row.left)),
        row.map_or(0, |row| u8::from(row.stopped)),
    ]
}

fn process_order(world: &World) -> Vec<usize> {
    let mut order: Vec<usize> = (0..world.processes.len()).collect();
    order.sort_by_cached_key(|process| {
        let hands = world.hands.iter().filter(|hand| hand.process == *process);
        let mut hands: Vec<(bool, u8, i32)> =
            hands.map(|hand| (hand.ended, hand.end.outcome as u8, hand.attempt)).collect();
        hands.sort_unstable();
        let number = world.processes[*process].number;
        let holds = world.database.jobs.iter().filter_map(|job| job.row.as_ref()).filter(|row| row.holder == number);
        (process_key(world, *process), hands, holds.count())
    });
    order
}

/// The processes' numbers in their order, then the others that anything speaks of.
fn number_names(world: &World, order: &[usize]) -> Vec<u8> {
    let mut names = vec![0; world.database.workers.len()];
    let mut next = 1;
    let mut name = |number: Number, names: &mut Vec<u8>| {
        if number != 0 && names[usize::from(number) - 1] == 0 {
            names[usize::from(number) - 1] = next;
            next += 1;
        }
    };
    for process in order {
        name(world.processes[*process].number, &mut names);
    }
    let mut spoken_of: Vec<Number> = Vec::new();
    spoken_of.extend(world.database.jobs.iter().filter_map(|job| job.row.as_ref()).map(|row| row.holder));
    spoken_of.extend(world.hands.iter().map(|hand| hand.number));
    spoken_of.extend(world.transactions.iter().map(|it| it.number));
    for message in &world.network {
        match message {
            Message::Claim(number) | Message::Ends(number, _) => spoken_of.push(*number),
            Message::Rescue(lost) => spoken_of.extend(lost.iter().map(|(_, number)| *number)),
            Message::Claimed(_, hands) => spoken_of.extend(hands.iter().map(|hand| hand.number)),
            Message::Delete(_) | Message::Beaten(..) => {}
        }
    }
    spoken_of.retain(|number| *number != 0);
    spoken_of.sort_unstable_by_key(|number| {
        let worker = &world.database.workers[usize::from(*number) - 1];
        (worker.stopped, worker.left, *number)
    });
    spoken_of.into_iter().for_each(|number| name(number, &mut names));
    names
}

fn inverse(order: &[usize]) -> Vec<usize> {
    let mut places = vec![0; order.len()];
    order.iter().enumerate().for_each(|(place, process)| places[*process] = place);
    places
}

/// All numbers of the model are small.
fn byte<N: TryInto<u8>>(number: N) -> u8 {
    number.try_into().unwrap_or(u8::MAX)
}
