//! An old binary and a new one on one database.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use queue::{Enqueue, Job};
use queue_test_support::{Attempt, each};

use super::Ground;
use crate::jobs::{new, old};
use crate::load::Mix;
use crate::record::{self, Event, Options, What};
use crate::scene::Scene;

/// The number of retries, where a producer sets it.
const RETRIES: i64 = 9;

/// P9, P26, P42.
pub(super) async fn side_by_side(ground: &Ground) -> Result<Vec<String>> {
    let mut scene = ground.scene().await?;
    let mut crew = scene.crew();
    let (before, after) = (scene.worker().arg("generation", "old"), scene.worker().arg("generation", "new"));
    let first = crew.hire(before.clone())?;
    crew.hire(before.clone())?;
    let load = scene.load(None, &Mix::usual())?;
    let rounds = scene.rounds(6, 200);
    let mut enqueued = Enqueued::default();
    let mut round = 0;
    // chance has it who claims a job first
    while round < rounds || (enqueued.by_claimer(&scene)?.len() < 2 && round < rounds * 10) {
        // the first of two is replaced, rolled back and replaced again; the other goes on beside it
        let replacement = match round {
            _ if round == rounds / 2 || round == rounds * 5 / 6 => Some(&after),
            _ if round == rounds * 2 / 3 => Some(&before),
            _ => None,
        };
        if let Some(replacement) = replacement {
            crew.next(first, replacement.clone());
            crew.kill(first)?;
        }
        enqueued.one_of_each(&scene).await?;
        each!(&scene.db, pool => queue::migrate(pool).await)?;
        crew.work(Duration::from_millis(300)).await?;
        round += 1;
    }
    let history = scene.judge(Some(load), crew).await?;
    let dead = history.tables.jobs.values().flatten().filter(|row| row.state == "dead");
    let dead: HashSet<i64> = dead.map(|row| serde_json::from_str(&row.args).map_or(-1, |Tag { tag }| tag)).collect();
    if dead != enqueued.failing {
        bail!(
            "dead letters: {dead:?}, jobs that fail in every attempt: {:?}: the others are those of one binary that \
             the other one does not understand\n{}",
            enqueued.failing,
            scene.logs()
        );
    }
    let by_claimer = enqueued.by_claimer(&scene)?;
    ensure!(by_claimer.len() > 1, "only one binary claimed jobs first whose rows do not say how often to retry them");
    let undecodable = |job: &Vec<Attempt>| job.iter().filter(|attempt| attempt.outcome == "undecodable").count();
    let tries: Vec<usize> = history.tables.attempts.values().map(undecodable).filter(|tries| *tries > 0).collect();
    scene.note(format!(
        "{} jobs met the wrong binary, one of them {} times",
        tries.len(),
        tries.iter().max().unwrap_or(&0)
    ));
    scene.note(format!(
        "{} jobs of five kinds, two of them known to one binary only, one that each encodes in its own way; {} failed to \
         the end; of those whose rows say nothing so many were retried so often: {by_claimer:?}",
        enqueued.count,
        dead.len()
    ));
    Ok(scene.notes)
}

/// The field that the arguments of every job of the suite have.
#[derive(serde::Deserialize)]
struct Tag {
    tag: i64,
}

#[derive(Default)]
struct Enqueued {
    count: usize,
    /// Tags of jobs that fail in every attempt.
    failing: HashSet<i64>,
    /// Tags of jobs inserted by SQL without a number of retries.
    silent: Vec<i64>,
}

impl Enqueued {
    /// Enqueues jobs of each kind from both generations. Jobs that succeed have their own number of retries. Of the
    /// jobs that fail, some have the default of the producer's binary, and one that of the binary which claims it
    /// first.
    async fn one_of_each(&mut self, scene: &Scene) -> Result<()> {
        let hi = || "hi".to_owned();
        let own = |retries: i64| Options { max_retries: retries, ..Options::default() };
        self.enqueue(scene, own(RETRIES), |tag| old::Deployed { tag, fails: false }.max_retries(9)).await?;
        self.enqueue(scene, own(RETRIES), |tag| old::Retired { tag }.max_retries(9)).await?;
        self.enqueue(scene, own(RETRIES), |tag| new::Deployed { tag, fails: false, greeting: hi() }.max_retries(9))
            .await?;
        self.enqueue(scene, own(RETRIES), |tag| new::Introduced { tag }.max_retries(9)).await?;
        // one binary meets what only the other one understands
        self.enqueue(scene, own(RETRIES), |tag| old::Reshaped { tag, amount: 7 }.max_retries(9)).await?;
        self.enqueue(scene, own(RETRIES), |tag| new::Reshaped { tag, amount: "7.00".into() }.max_retries(9)).await?;
        let old_ones = own(old::Deployed::MAX_RETRIES.into());
        let tag = self.enqueue(scene, old_ones, |tag| old::Deployed { tag, fails: true }.into()).await?;
        self.failing.insert(tag);
        let new_ones = own(new::Deployed::MAX_RETRIES.into());
        let tag =
            self.enqueue(scene, new_ones, |tag| new::Deployed { tag, fails: true, greeting: hi() }.into()).await?;
        self.failing.insert(tag);
        let tag = self.ask(scene, Options { by_claimer: true, ..Options::default() });
        let args = format!(r#"{{"tag":{tag},"fails":true}}"#);
        scene.execute(&format!("INSERT INTO queue_jobs (kind, args) VALUES ('deployed', '{args}')")).await?;
        scene.desk.commit(vec![tag]);
        self.failing.insert(tag);
        self.silent.push(tag);
        Ok(())
    }

    async fn enqueue<J: Job>(
        &mut self,
        scene: &Scene,
        options: Options,
        job: impl Fn(i64) -> Enqueue<J>,
    ) -> Result<i64> {
        let tag = self.ask(scene, options);
        each!(&scene.db, pool => job(tag).enqueue(pool).await)?;
        scene.desk.commit(vec![tag]);
        Ok(tag)
    }

    fn ask(&mut self, scene: &Scene, options: Options) -> i64 {
        let tag = scene.desk.tags.fetch_add(1, Ordering::Relaxed);
        scene.desk.journal.write(What::Asked { tags: vec![tag], options });
        self.count += 1;
        tag
    }

    /// For each default of retries: how many of the `silent` jobs a binary with that default started first.
    fn by_claimer(&self, scene: &Scene) -> Result<HashMap<i64, usize>> {
        let events = record::read(scene.folder())?;
        let defaults: HashMap<i64, i64> = (events.iter())
            .filter_map(|event| match event.what {
                What::Retries { by_default } => Some((event.process, by_default)),
                _ => None,
            })
            .collect();
        let begins = |event: &&Event, silent: i64| matches!(event.what, What::Started { tag, .. } if tag == silent);
        let mut counts = HashMap::new();
        for silent in &self.silent {
            let first = events.iter().find(|event| begins(event, *silent));
            if let Some(retries) = first.and_then(|event| defaults.get(&event.process)) {
                *counts.entry(*retries).or_default() += 1;
            }
        }
        Ok(counts)
    }
}
