//! The rows of a fake database, for tests of the claim loop: discovery and claims take as long as a test wants.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use crate::error::Error;
use crate::store::engine::connection::write_queue::Turns;
use crate::store::values::{Ask, Claimed, Found, Lane, LaneHead, Place, Rank, Reach, Share};

/// The tables, and what happened to them.
#[derive(Default)]
pub(crate) struct Tables {
    /// Waiting jobs by lane and place.
    pub(crate) waiting: HashMap<Lane, BTreeSet<Place>>,
    pub(crate) look_takes: Duration,
    /// Discovery come to nothing, and there is no connection for one beside the claims.
    pub(crate) looks_fail: bool,
    pub(crate) claimed: watch::Sender<Vec<i64>>,
    pub(crate) looks_begun: watch::Sender<usize>,
    pub(crate) turn_takes: Duration,
    pub(crate) claim_takes: Duration,
    /// Claims of the only lane come with a look.
    pub(crate) claims_alone: bool,
    /// How many such claims there were.
    pub(crate) alone: usize,
    /// So many claims of the only lane meet rows that wait where no look finds them.
    pub(crate) hidden: u32,
    /// Others do not give turns back.
    pub(crate) no_turns: bool,
    pub(crate) in_turn: bool,
    /// How many turns were asked for.
    pub(crate) turns: usize,
    /// How many jobs each claim took, and whether it was in turn.
    pub(crate) claims: Vec<(usize, bool)>,
    /// How many claims said where the rows begin, though no lanes had been compared.
    pub(crate) told: usize,
    /// Rows that were read to compare lanes.
    pub(crate) compared: usize,
    pub(crate) peeks: usize,
    /// A claim of more jobs than this is not answered in time.
    pub(crate) most_in_time: Option<u32>,
    /// How many claims were not.
    pub(crate) in_vain: usize,
    /// An idle worker does not ask: it hears of jobs by signals.
    pub(crate) only_signals: bool,
    /// Discovery finds a lane when there is none.
    pub(crate) phantom: bool,
    /// A queue without end; its jobs count from 1000.
    pub(crate) endless: Option<&'static str>,
    pub(crate) given: i64,
}

/// The rows of a fake database.
pub(crate) struct FakeTables {
    tables: Mutex<Tables>,
    pub(crate) writers: Turns,
    began: Instant,
}

impl FakeTables {
    pub(crate) fn new() -> Self {
        Self { tables: Mutex::default(), writers: Turns::alone(), began: Instant::now() }
    }

    pub(crate) fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Microseconds since 1970.
    pub(crate) fn now(&self) -> i64 {
        1_700_000_000_000_000 + i64::try_from(self.began.elapsed().as_micros()).unwrap()
    }

    pub(crate) fn enqueue(&self, queue: &str, id: i64) {
        self.enqueue_at(queue, 0, self.now(), id);
    }

    pub(crate) fn enqueue_at(&self, queue: &str, priority: i16, run_at: i64, id: i64) {
        let lane = Lane { kind: Arc::from("k"), queue: Arc::from(queue), priority };
        self.tables().waiting.entry(lane).or_default().insert((run_at, id));
    }

    /// Sees the rows as they are when it begins, as a snapshot does.
    pub(super) async fn look(&self, behind: &[Lane], most: usize) -> Result<Found, Error> {
        let began = Instant::now();
        let (heads, stopped, takes, fails) = {
            let tables = self.tables();
            tables.looks_begun.send_modify(|looks| *looks += 1);
            let now = self.now();
            let name = |lane: &Lane| (lane.queue.clone(), lane.priority);
            let mut lanes: Vec<_> = tables.waiting.iter().collect();
            lanes.retain(|(lane, _)| behind.first().is_none_or(|behind| name(lane) > name(behind)));
            lanes.sort_by_key(|(lane, _)| name(lane));
            let stopped: Vec<_> = (lanes.len() > most).then(|| lanes[most - 1].0.clone()).into_iter().collect();
            let first = |(lane, rows): (&Lane, &BTreeSet<Place>)| {
                let first = *rows.first()?;
                let due_in = Duration::from_micros(u64::try_from(first.0 - now).unwrap_or(0));
                Some(LaneHead { lane: lane.clone(), first, due_in })
            };
            let mut heads: Vec<LaneHead> = lanes.into_iter().take(most).filter_map(first).collect();
            let always = tables.endless.or((tables.phantom && heads.is_empty()).then_some("q"));
            heads.extend(always.map(|queue| {
                let lane = Lane { kind: Arc::from("k"), queue: Arc::from(queue), priority: 0 };
                LaneHead { lane, first: (0, i64::MIN), due_in: Duration::ZERO }
            }));
            (heads, stopped, tables.look_takes, tables.looks_fail)
        };
        sleep(takes).await;
        if fails {
            Err(Error::config("too long"))
        } else {
            Ok(Found { heads, stopped, took: began.elapsed(), now: None })
        }
    }

    /// What is due behind the start of an ask, in order.
    fn behind<'a>(&self, tables: &'a Tables, ask: &'a Ask) -> impl Iterator<Item = Place> + use<'a> {
        let (rows, now) = (tables.waiting.get(&ask.lane), self.now());
        let behind = move |place: &&Place| place.0 <= now && ask.behind.is_none_or(|behind| **place > behind);
        rows.into_iter().flatten().filter(behind).copied()
    }

    /// As [`Jobs::claim`] with `alone` finds them.
    fn has_other_lanes(&self, mine: &Lane) -> bool {
        let mut tables = self.tables();
        tables.alone += 1;
        let hidden = tables.hidden > 0;
        tables.hidden = tables.hidden.saturating_sub(1);
        hidden || tables.waiting.keys().any(|lane| lane != mine)
    }

    pub(super) fn preview(&self, asks: &[Ask], reach: Reach) -> Vec<Share> {
        let mut tables = self.tables();
        let mut next = Vec::new();
        for (number, ask) in asks.iter().enumerate() {
            let rank = |place: Place| ((ask.lane.priority, place), number);
            let read = |row: &(Rank, usize)| reach.until.is_none_or(|until| row.0 < until);
            next.extend(self.behind(&tables, ask).map(rank).take_while(read).take(reach.most as usize));
        }
        tables.compared += next.len();
        tables.peeks += 1;
        next.sort_unstable();
        let mut shares = vec![Share::default(); asks.len()];
        for (n, (rank, number)) in next.into_iter().take(reach.most as usize).enumerate() {
            let sure = reach.before.is_none_or(|before| rank < before);
            let share = &mut shares[number];
            share.count += u32::from(sure || n < reach.least as usize);
            share.sure += u32::from(sure);
            share.all += 1;
            // as far as an engine tells: the last place is known where all are of one time
            let first = share.ends.map_or(rank.1, |(first, _)| first);
            let last = if first.0 == rank.1.0 { rank.1 } else { (rank.1.0, i64::MIN) };
            share.ends = Some((first, last));
        }
        shares
    }

    pub(super) async fn take_claim_lock(&self) -> bool {
        let takes = self.tables().turn_takes;
        sleep(takes).await;
        let mut tables = self.tables();
        assert!(!tables.in_turn, "it was given back");
        tables.turns += 1;
        tables.in_turn = !tables.no_turns;
        tables.in_turn
    }

    pub(super) fn release_claim_lock(&self) {
        let had = std::mem::take(&mut self.tables().in_turn);
        assert!(had, "it was taken");
    }

    pub(super) async fn claim(&self, asks: &[Ask], alone: bool) -> Result<Vec<Claimed>, Error> {
        if alone && self.has_other_lanes(&asks[0].lane) {
            return Ok(Vec::new());
        }
        let takes = self.tables().claim_takes;
        sleep(takes).await;
        let mut tables = self.tables();
        let wanted: u32 = asks.iter().map(|ask| ask.take).sum();
        if tables.most_in_time.is_some_and(|most| wanted > most) {
            tables.in_vain += 1;
            let late = std::io::Error::from(std::io::ErrorKind::TimedOut);
            return Err(Error::Database { doing: "cannot claim jobs".into(), source: sqlx::Error::Io(late) });
        }
        let mut jobs = Vec::new();
        assert!(asks.len() <= 256, "{} lanes in one statement", asks.len());
        if let [Ask { first: Some(first), behind, .. }] = asks {
            assert!(behind.is_some_and(|behind| behind < *first), "{behind:?}, {first:?}");
            tables.told += 1;
        }
        for ask in asks {
            let places: Vec<_> = self.behind(&tables, ask).take(ask.take as usize).collect();
            for place in places {
                let rows = tables.waiting.get_mut(&ask.lane).expect("it has rows");
                rows.remove(&place);
                if rows.is_empty() {
                    tables.waiting.remove(&ask.lane);
                }
                let (run_at, id) = place;
                jobs.push(Claimed::example(ask.lane.clone(), run_at, id));
            }
        }
        if let Some(ask) = asks.iter().find(|ask| tables.endless == Some(&*ask.lane.queue)) {
            for _ in 0..ask.take {
                tables.given += 1;
                jobs.push(Claimed::example(ask.lane.clone(), 0, 999 + tables.given));
            }
        }
        let claim = (jobs.len(), tables.in_turn);
        tables.claims.push(claim);
        tables.claimed.send_modify(|claimed| claimed.extend(jobs.iter().map(|job| job.id.get())));
        Ok(jobs)
    }
}
