//! The differences between the engines: their statements, and the operations that differ in structure.
//! [`Connecting`] has those of connections, [`UniqueDialect`] those of unique jobs.
//!
//! Statements are files under `sql/`. All of them name their values `$1`, `$2`, … (for MySQL these are replaced with
//! `?`). On every engine, whole numbers travel as `i64`, times as `i64` microseconds since 1970, and durations as `i64`
//! microseconds. A list is one JSON text, but [`Bind::Ints`] is an array on PostgreSQL. A statement that reads a time
//! column converts it on MySQL (`TIMESTAMPDIFF(MICROSECOND, '1970-01-01', t)`) and SQLite (`t * 1000`). On PostgreSQL
//! the column is read as it is.

use std::future::Future;
use std::sync::atomic::AtomicBool;

use futures_util::future::BoxFuture;
use sqlx::Error;

use crate::engine::Engine;
use crate::store::engine::connection::connecting::Connecting;
use crate::store::engine::driver::{Bind, List};
#[cfg(feature = "schedules")]
use crate::store::engine::statement::topics::ScheduleStatements;
#[cfg(feature = "testing")]
use crate::store::engine::statement::topics::TestStatements;
use crate::store::engine::statement::topics::{
    AdminStatements, AttemptStatements, GaugeStatements, LeaseStatements, OperationStatements, RetentionStatements,
    SchemaStatements, SessionStatements, TallyStatements, UniqueStatements,
};
use crate::store::engine::unique::dialect::UniqueDialect;
use crate::store::values::{Ask, Claimed, End, Lane, LaneHead, NewJob, Reach, Share, Whose, WorkerId};

/// What the statements of a discovery returned.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) heads: Vec<LaneHead>,
    /// See [`Found::stopped`](crate::store::values::Found::stopped).
    pub(crate) stopped: Vec<Lane>,
    /// The number of round trips.
    pub(crate) round_trips: u32,
    /// The database's time, in microseconds since 1970. None: no row tells it.
    pub(crate) now: Option<i64>,
}

/// An engine: its statements, and what differs in structure. A default is what all engines but one do.
pub(crate) trait Dialect: Connecting + UniqueDialect {
    const ATTEMPTS: AttemptStatements;
    const LEASES: LeaseStatements;
    /// None: there is no server.
    const SESSIONS: Option<SessionStatements>;
    const RETENTION: RetentionStatements;
    const SCHEMA: SchemaStatements;
    const ADMIN: AdminStatements;
    const GAUGES: GaugeStatements;
    const OPERATIONS: OperationStatements;
    const TALLIES: TallyStatements;
    const UNIQUE: UniqueStatements;
    #[cfg(feature = "schedules")]
    const SCHEDULES: ScheduleStatements;
    #[cfg(feature = "testing")]
    const TESTING: TestStatements;

    const KIND: Engine;
    /// The engine's name in messages.
    const ENGINE: &'static str;
    /// Set where [`complete`](AttemptStatements::complete) finds nothing outside a transaction, nor in one that has
    /// written nothing. This makes a transaction one that has.
    const BEGIN_TO_WRITE: Option<&'static str> = None;
    /// Set where [`complete`](AttemptStatements::complete) has a step for a transaction that nobody has looked for. It
    /// becomes false when a server turns out to find nothing by that step. Then each completion saves the try.
    const TRIES_FIRST: Option<&'static AtomicBool> = None;
    /// Stands behind a query for rows that the transaction has locked, where a snapshot would show older ones.
    const AS_OF_NOW: &'static str = "";

    /// Inserts one job that is due and signals the workers of all processes. Binds: as for one job, without its time,
    /// and the payload of the signal.
    const INSERT_AND_NOTIFY: Option<&'static str> = None;
    /// A heartbeat can report whether jobs wait.
    const HEARTBEAT_DISCOVERS: bool;
    /// [`Jobs::claim`](crate::store::Jobs::claim) with `alone`. None: discovery costs next to nothing.
    const CLAIM_ALONE: Option<ClaimAlone<Self>>;

    /// The values of a statement for the runs of these ids, which are sorted and distinct, behind its other values.
    /// None: the statement for single ids does it.
    fn runs<'a>(_ids: &[i64], _others: &[Bind<'a>]) -> Option<Vec<Bind<'a>>> {
        None
    }
    /// Ends, as [`finish`](AttemptStatements::finish) reads them.
    fn finish_list(batch: &[End]) -> List;
    /// See [`Jobs::discover`](crate::store::Jobs::discover): for `kinds`, in any queue that is not paused.
    fn discover(
        conn: &mut Self::Connection,
        kinds: &[String],
        behind: &[Lane],
        most: usize,
    ) -> impl Future<Output = Result<Seen, Error>> + Send;
    /// See [`Jobs::preview`](crate::store::Jobs::preview).
    fn preview(
        conn: &mut Self::Connection,
        asks: &[Ask],
        reach: Reach,
    ) -> impl Future<Output = Result<Vec<Share>, Error>> + Send;
    /// See [`Jobs::claim`](crate::store::Jobs::claim). It has a transaction of its own, or is part of another one.
    fn claim(
        conn: &mut Self::Connection,
        worker: WorkerId,
        asks: &[Ask],
        whose: Whose,
    ) -> impl Future<Output = Result<Vec<Claimed>, Error>> + Send;
    /// Writes all of them or none, and returns the ids in the given order. If the connection is the caller's and in a
    /// transaction, they become part of it.
    fn insert(
        conn: &mut Self::Connection,
        jobs: &[NewJob],
        whose: Whose,
    ) -> impl Future<Output = Result<Vec<i64>, Error>> + Send;
}

/// Claims from one lane, if no rows of these kinds wait in another one.
pub(crate) type ClaimAlone<DB> = for<'a> fn(
    &'a mut <DB as sqlx::Database>::Connection,
    WorkerId,
    &'a Ask,
    &'a [String],
) -> BoxFuture<'a, Result<Vec<Claimed>, Error>>;

/// The files of [`Dialect`] that every engine has in its folder `sql`.
macro_rules! topics {
    ($engine:literal) => {
        const ATTEMPTS: $crate::store::engine::statement::topics::AttemptStatements =
            $crate::store::engine::statement::topics::AttemptStatements::of(topic!($engine, "attempts"));
        const LEASES: $crate::store::engine::statement::topics::LeaseStatements =
            $crate::store::engine::statement::topics::LeaseStatements::of(topic!($engine, "leases"));
        const RETENTION: $crate::store::engine::statement::topics::RetentionStatements =
            $crate::store::engine::statement::topics::RetentionStatements::of(topic!($engine, "retention"));
        const SCHEMA: $crate::store::engine::statement::topics::SchemaStatements =
            $crate::store::engine::statement::topics::SchemaStatements::of(topic!($engine, "schema"));
        const ADMIN: $crate::store::engine::statement::topics::AdminStatements =
            $crate::store::engine::statement::topics::AdminStatements::of(topic!($engine, "admin"));
        const GAUGES: $crate::store::engine::statement::topics::GaugeStatements =
            $crate::store::engine::statement::topics::GaugeStatements::of(topic!($engine, "gauges"));
        const OPERATIONS: $crate::store::engine::statement::topics::OperationStatements =
            $crate::store::engine::statement::topics::OperationStatements::of(topic!($engine, "operations"));
        const TALLIES: $crate::store::engine::statement::topics::TallyStatements =
            $crate::store::engine::statement::topics::TallyStatements::of(topic!($engine, "tallies"));
        const UNIQUE: $crate::store::engine::statement::topics::UniqueStatements =
            $crate::store::engine::statement::topics::UniqueStatements::of(topic!($engine, "unique"));
        #[cfg(feature = "schedules")]
        const SCHEDULES: $crate::store::engine::statement::topics::ScheduleStatements =
            $crate::store::engine::statement::topics::ScheduleStatements::of(topic!($engine, "schedules"));
        #[cfg(feature = "testing")]
        const TESTING: $crate::store::engine::statement::topics::TestStatements =
            $crate::store::engine::statement::topics::TestStatements::of(topic!($engine, "testing"));
    };
}
pub(crate) use topics;
