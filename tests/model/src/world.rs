//! A state of the model: the database, the processes, what they have in hand, and what is on its way.

use crate::canonical::key;
use crate::database::Database;
use crate::effects::Transaction;
use crate::rows::{End, Job, Number, Outcome};
use crate::rules::{Guard, Promise, Rules, Violation};
use crate::search::Model;
use crate::step::{Step, steps};

/// How large the model is, and which rules hold.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Worker processes.
    pub processes: usize,
    /// Jobs, all enqueued at the beginning.
    pub jobs: usize,
    /// `max_retries` of each.
    pub retries: i32,
    /// A lease, in ticks. By a worker's own count it ends one earlier.
    pub lease: u32,
    /// Crashes, pauses, cut heartbeats, statements without an answer, late answers: so many in all, in any mixture.
    pub faults: u8,
    /// Failures, snoozes, give-backs, requests to cancel, shutdowns: so many in all.
    pub troubles: u8,
    /// Handlers complete their jobs in transactions of their own.
    pub effects: bool,
    /// The guards.
    pub rules: Rules,
    /// Look for this broken promise; for any, when none is named.
    pub only: Option<Promise>,
}

impl Bounds {
    /// Two workers and one job.
    pub fn small(faults: u8, troubles: u8) -> Self {
        let rules = Rules::default();
        Self { processes: 2, jobs: 1, retries: 1, lease: 2, faults, troubles, effects: false, rules, only: None }
    }

    /// Three workers and three jobs.
    pub fn full(faults: u8, troubles: u8) -> Self {
        Self { processes: 3, jobs: 3, ..Self::small(faults, troubles) }
    }
}

impl Model for Bounds {
    type State = World;
    type Step = Step;

    fn with(&self, rules: Rules, only: Promise) -> Self {
        Self { rules, only: Some(only), ..*self }
    }

    fn seeks(&self, promise: Promise) -> bool {
        self.only.is_none_or(|only| only == promise)
    }

    fn first(&self) -> World {
        World::new(self)
    }

    fn steps(&self, world: &World) -> Vec<Step> {
        steps(world, self)
    }

    fn after(&self, world: &World, step: &Step) -> Result<World, Violation> {
        world.after(step, self)
    }

    fn is_progress(&self, step: &Step) -> bool {
        step.is_progress()
    }

    fn open(&self, world: &World) -> Option<usize> {
        world.database.jobs.iter().position(|job| job.row.is_some())
    }

    fn key(&self, world: &World) -> Box<[u8]> {
        key(world)
    }

    fn tell(&self, world: &World, step: &Step) -> String {
        step.tell(world)
    }
}

/// What a process is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Life {
    /// Claims and runs.
    Up,
    /// Told to shut down: claims no more.
    Stopping,
    /// Crashed, or ended.
    Down,
}

/// A worker process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// What it is doing.
    pub life: Life,
    /// SIGSTOP.
    pub paused: bool,
    /// Under which number; 0: none.
    pub number: Number,
    /// Ticks until its lease ends by its own count.
    pub mine: u32,
    /// Its heartbeats do not go out by themselves: cut off, waiting for an answer, or just continued.
    pub late: bool,
    /// Its session has ended, and it has not beaten in another one since.
    pub severed: bool,
}

/// An attempt in a process's hand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hand {
    /// Whose.
    pub process: usize,
    /// Claimed under which number.
    pub number: Number,
    /// As it was claimed.
    pub attempt: i32,
    /// Job, fence, and once it has ended how; until then `ended` is false and the outcome means nothing.
    pub end: End,
    /// It has ended, and its end could not be written yet.
    pub ended: bool,
    /// Its handler had a transaction of its own, and the worker has not looked yet whether that was committed.
    pub unsettled: bool,
}

/// Something on its way between a process and the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// A claim whose process has given up waiting.
    Claim(Number),
    /// Ends of attempts; their process will send them again.
    Ends(Number, Vec<End>),
    /// A rescue that has looked and not written yet.
    Rescue(Vec<(usize, Number)>),
    /// The rest of an end that is not one transaction (only when that guard is taken away).
    Delete(usize),
    /// What a claim took, on its way to the process.
    Claimed(usize, Vec<Hand>),
    /// A heartbeat's answer on its way to the process, and the ticks since it was sent.
    Beaten(usize, u32),
}

/// A state.
#[derive(Clone, Debug)]
pub struct World {
    /// The tables.
    pub database: Database,
    /// The processes.
    pub processes: Vec<Process>,
    /// What they have in hand.
    pub hands: Vec<Hand>,
    /// What is on its way.
    pub network: Vec<Message>,
    /// Handlers' transactions.
    pub transactions: Vec<Transaction>,
    /// Faults that may still come.
    pub faults: u8,
    /// Troubles that may still come.
    pub troubles: u8,
}

impl World {
    /// All processes have joined, and all jobs wait.
    pub fn new(bounds: &Bounds) -> Self {
        let mut world = Self {
            database: Database { jobs: vec![Job::new(bounds.retries); bounds.jobs], workers: Vec::new() },
            processes: Vec::new(),
            hands: Vec::new(),
            network: Vec::new(),
            transactions: Vec::new(),
            faults: bounds.faults,
            troubles: bounds.troubles,
        };
        for process in 0..bounds.processes {
            world.processes.push(Process {
                life: Life::Up,
                paused: false,
                number: 0,
                mine: 0,
                late: false,
                severed: false,
            });
            world.join(bounds, process);
        }
        world
    }

    /// Takes steps, and is not stopped.
    pub fn is_awake(&self, process: usize) -> bool {
        self.processes[process].life != Life::Down && !self.processes[process].paused
    }

    /// Its lease has ended by its own count, and it will notice before the clock goes on.
    pub fn must_drop(&self, process: usize) -> bool {
        self.is_awake(process) && self.processes[process].number != 0 && self.processes[process].mine == 0
    }

    /// A claim's answer is on its way to it.
    pub fn awaits_claim(&self, process: usize) -> bool {
        self.network.iter().any(|message| matches!(message, Message::Claimed(to, _) if *to == process))
    }

    /// A heartbeat's answer is on its way to it.
    pub fn awaits_beat(&self, process: usize) -> bool {
        self.network.iter().any(|message| matches!(message, Message::Beaten(to, _) if *to == process))
    }

    pub(crate) fn join(&mut self, bounds: &Bounds, process: usize) {
        let number = self.database.join(bounds.lease);
        let it = &mut self.processes[process];
        *it = Process { life: it.life, paused: false, number, mine: bounds.lease - 1, late: false, severed: false };
    }

    /// What a process forgets when it dies.
    pub(crate) fn crash(&mut self, process: usize) {
        self.hands.retain(|hand| hand.process != process);
        self.hang_up(process);
        self.abandon(process, None);
        self.processes[process] =
            Process { life: Life::Down, paused: false, number: 0, mine: 0, late: false, severed: false };
    }

    /// `drop_everything`: what runs is dropped; what has ended is still to be written, under its number.
    pub(crate) fn drop_everything(&mut self, process: usize) {
        self.hands.retain(|hand| hand.process != process || hand.ended);
        self.hang_up(process);
        self.abandon(process, None);
        let it = &mut self.processes[process];
        (it.number, it.mine, it.late, it.severed) = (0, 0, false, false);
    }

    fn hang_up(&mut self, process: usize) {
        self.network
            .retain(|message| !matches!(message, Message::Claimed(to, _) | Message::Beaten(to, _) if *to == process));
    }

    /// A heartbeat and its answer at once.
    pub(crate) fn beat(&mut self, bounds: &Bounds, process: usize) {
        let number = self.processes[process].number;
        if self.database.beat(bounds.rules, number, bounds.lease) {
            let it = &mut self.processes[process];
            (it.mine, it.late, it.severed) = (bounds.lease - 1, false, false);
        } else {
            self.drop_everything(process);
        }
    }

    /// A tick of the clock, by which every process that is well sends a heartbeat.
    pub(crate) fn tick(&mut self, bounds: &Bounds) {
        self.database.tick();
        for message in &mut self.network {
            if let Message::Beaten(_, age) = message {
                *age = (*age + 1).min(bounds.lease);
            }
        }
        for process in 0..self.processes.len() {
            let it = &mut self.processes[process];
            if bounds.rules.has(Guard::SelfStop) {
                it.mine = it.mine.saturating_sub(1);
            }
            if it.number != 0 && !it.paused && !it.late {
                self.beat(bounds, process);
            }
        }
    }

    /// Jobs under a claim, as their process gets them.
    pub(crate) fn claimed(&self, process: usize, jobs: &[usize]) -> Vec<Hand> {
        let number = self.processes[process].number;
        let rows = jobs.iter().filter_map(|job| Some((*job, self.database.jobs[*job].row.as_ref()?)));
        rows.map(|(job, row)| Hand {
            process,
            number,
            attempt: row.attempt,
            end: End { job, fence: row.fence, claim: row.claims, outcome: Outcome::Completed },
            ended: false,
            unsettled: false,
        })
        .collect()
    }

    /// Numbers that no session speaks for, whose lease still runs.
    pub fn missed(&self, rules: Rules) -> Vec<Number> {
        let speaks = |number: Number| self.processes.iter().any(|it| it.number == number && !it.severed);
        let missed = |number: &Number| !speaks(*number) || !rules.has(Guard::DeclareOnlyMissed);
        self.database.alive().into_iter().filter(missed).collect()
    }

    /// What a process runs under its number.
    pub fn running(&self, process: usize) -> impl Iterator<Item = &Hand> {
        self.hands.iter().filter(move |hand| hand.process == process && !hand.ended)
    }

    /// Jobs that the database counts as a process's although it does not know of them.
    pub fn strays(&self, process: usize) -> Vec<usize> {
        let number = self.processes[process].number;
        let known = |job: usize, fence: u32| {
            self.hands.iter().any(|hand| hand.process == process && hand.end.job == job && hand.end.fence == fence)
        };
        let held = (0..).zip(&self.database.jobs).filter_map(|(index, job)| Some((index, job.row.as_ref()?)));
        held.filter(|(job, row)| number != 0 && row.holder == number && row.noted && !known(*job, row.fence))
            .map(|(job, _)| job)
            .collect()
    }

    /// What must be so in every state.
    pub fn check(&self, bounds: &Bounds) -> Result<(), Violation> {
        self.database.check(bounds.only)?;
        if bounds.effects && bounds.seeks(Promise::EffectOnce) {
            self.check_effects()?;
        }
        if !bounds.seeks(Promise::OneAttemptRuns) {
            return Ok(());
        }
        for hand in self.hands.iter().filter(|hand| !hand.ended) {
            let process = &self.processes[hand.process];
            // whose session has ended may be gone for the others, and learns it from its next heartbeat
            let believes = !process.paused && !process.severed && process.mine > 0 && process.number == hand.number;
            let current = |row: &crate::rows::Row| row.holder == hand.number && row.claims == hand.end.claim;
            if believes && !self.database.jobs[hand.end.job].row.as_ref().is_some_and(current) {
                return Err(Violation::new(Promise::OneAttemptRuns, hand.end.job));
            }
        }
        Ok(())
    }
}
