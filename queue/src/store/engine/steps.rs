//! Running the steps of features at the edges of a job's life.

use sqlx::Error;

use crate::store::engine::dialect::{Dialect, execute, ids, json};
use crate::store::engine::feature::Edge;
use crate::store::engine::savepoint::Together;
use crate::store::values::{Features, Hold, NewJob, Whose};

/// The features with steps at this edge that one of these jobs uses.
fn used<DB: Dialect>(
    edge: Edge,
    jobs: impl Iterator<Item = Features> + Clone,
) -> impl Iterator<Item = (Features, &'static [&'static str])> {
    DB::FEATURES.iter().filter_map(move |feature| {
        let (_, steps) = feature.steps.iter().find(|(at, _)| *at == edge)?;
        jobs.clone().any(|features| features.has_any_of(feature.bit)).then_some((feature.bit, *steps))
    })
}

/// Whether any feature has a step at this edge.
pub(crate) fn acts_at<DB: Dialect>(edge: Edge) -> bool {
    DB::FEATURES.iter().any(|feature| feature.steps.iter().any(|(at, _)| *at == edge))
}

/// Whether a feature has a step at this edge for one of these jobs.
pub(crate) fn has_steps<DB: Dialect>(edge: Edge, jobs: impl Iterator<Item = Features> + Clone) -> bool {
    used::<DB>(edge, jobs).next().is_some()
}

/// Runs the steps of an edge, in its transaction. Returns the ids that the last statement of each feature returned, at
/// [`Edge::Admit`].
pub(crate) async fn run_steps<DB: Dialect>(
    conn: &mut DB::Connection,
    edge: Edge,
    jobs: &[Hold],
) -> Result<Vec<i64>, Error> {
    #[derive(serde::Serialize)]
    struct Listed {
        id: i64,
        fence: i32,
    }
    let mut returned = Vec::new();
    for (bit, steps) in used::<DB>(edge, jobs.iter().map(|job| job.features)) {
        let told =
            jobs.iter().filter(|job| job.features.has_any_of(bit)).map(|job| Listed { id: job.id, fence: job.fence });
        let list = json(&told.collect::<Vec<_>>());
        let binds = [list.as_str().into()];
        let (last, others) = steps.split_last().expect("a feature has statements where it acts");
        for sql in others {
            execute::<DB>(conn, sql, &binds).await?;
        }
        if edge == Edge::Admit {
            returned.extend(ids::<DB>(conn, last, &binds).await?);
        } else {
            execute::<DB>(conn, last, &binds).await?;
        }
    }
    Ok(returned)
}

/// Inserts jobs with the steps of their features. See [`Dialect::insert`].
pub(crate) async fn insert<DB: Dialect>(
    conn: &mut DB::Connection,
    jobs: &[NewJob],
    whose: Whose,
) -> Result<Vec<i64>, Error> {
    if jobs.iter().all(|job| job.features == Features::NONE) {
        return DB::insert(conn, jobs, whose).await;
    }
    let mut together = Together::<DB>::begin(conn, whose).await?;
    let ids = insert_with_steps::<DB>(together.connection(), jobs).await;
    together.end(ids).await
}

async fn insert_with_steps<DB: Dialect>(conn: &mut DB::Connection, jobs: &[NewJob]) -> Result<Vec<i64>, Error> {
    let ids = DB::insert(conn, jobs, Whose::InTransaction).await?;
    let inserted = ids.iter().zip(jobs).map(|(&id, job)| Hold { id, fence: 0, features: job.features });
    let inserted: Vec<_> = inserted.filter(|job| job.features != Features::NONE).collect();
    run_steps::<DB>(conn, Edge::Enqueue, &inserted).await?;
    Ok(ids)
}
