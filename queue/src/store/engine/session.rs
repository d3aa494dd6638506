//! The session in which a worker beats, as the server sees it: it holds locks that the server drops with the connection.
//!
//! A process that is killed has its sockets closed by the system, the server ends its sessions, and their locks are free:
//! that is seen by others long before a lease runs out. What may be concluded from it is decided in `worker::liveness`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sqlx::Error;

use crate::store::engine::dialect::{Bind, Cells as _, Dialect, rows};
use crate::store::values::WorkerId;

/// The server refuses to say.
#[derive(Debug, PartialEq, Eq)]
struct Untold;

/// The session of the line for heartbeats. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Session(Arc<Mutex<State>>);

#[derive(Debug, Clone, Copy, Default)]
struct State {
    /// One more with each connection.
    number: u64,
    /// What the server calls it.
    server: Option<i64>,
    /// Locks cannot be had or say nothing: a cluster, where each node has its own; a proxy that changes the server's session
    /// under the connection; a server that refuses them.
    mute: bool,
    /// Whose locks it holds; 0: nobody's.
    held: WorkerId,
    busy: WorkerId,
    /// In which run of the server.
    run: Run,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Run {
    /// To be asked for.
    #[default]
    Unknown,
    /// The server does not tell.
    Untold,
    Known(i64),
}

impl Session {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// There is a new connection.
    pub(crate) fn begins(&self, in_cluster: bool) {
        let mut state = self.state();
        *state = State { number: state.number + 1, mute: in_cluster, ..State::default() };
    }

    /// Notes which session this transaction has, where they are lent. The next one may have another; what was
    /// acknowledged in one counts in all, until the server starts again.
    pub(crate) async fn borrows<DB: Dialect>(&self, conn: &mut DB::Connection) -> Result<(), Error> {
        let (Some(sessions), Some(sql)) = (DB::SESSIONS, DB::SESSION) else { return Ok(()) };
        let run = self.told::<DB>(conn, sessions.run, &[]).await?;
        let session = rows::<DB>(conn, sql, &[]).await?.first().ok_or(Error::RowNotFound)?.int(0)?;
        let run = run.ok().flatten().map_or(Run::Untold, Run::Known);
        let mut state = self.state();
        let known = run != Run::Untold && run == state.run;
        if !known {
            *state = State { number: state.number + 1, mute: true, run, ..State::default() };
        }
        state.server = known.then_some(session);
        Ok(())
    }

    /// Takes the locks that this connection should hold and does not. Before the heartbeat is written: who sees a later
    /// heartbeat can see the lock. A lock that cannot be had is no reason not to beat.
    pub(crate) async fn hold<DB: Dialect>(
        &self,
        conn: &mut DB::Connection,
        worker: WorkerId,
        busy: bool,
    ) -> Result<(), Error> {
        let Some(sessions) = DB::SESSIONS else { return Ok(()) };
        let state = *self.state();
        if state.mute {
            return Ok(());
        }
        if state.held != worker && self.ask::<DB>(conn, sessions.hold, worker).await? {
            self.state().held = worker;
        }
        match (busy, state.busy == worker) {
            (true, false) if self.ask::<DB>(conn, sessions.busy, worker).await? => self.state().busy = worker,
            (false, true) if self.ask::<DB>(conn, sessions.idle, worker).await? => self.state().busy = 0,
            _ => {}
        }
        if state.run == Run::Unknown {
            let run = self.told::<DB>(conn, sessions.run, &[]).await?;
            let mut state = self.state();
            state.run = match run {
                Ok(run) => run.map_or(Run::Unknown, Run::Known),
                Err(Untold) => Run::Untold,
            };
        }
        Ok(())
    }

    async fn ask<DB: Dialect>(
        &self,
        conn: &mut DB::Connection,
        sql: &'static str,
        worker: WorkerId,
    ) -> Result<bool, Error> {
        let told = self.told::<DB>(conn, sql, &[worker.into()]).await?;
        self.state().mute |= told.is_err();
        Ok(told == Ok(Some(1)))
    }

    /// The number that the server answers with, if it does.
    async fn told<DB: Dialect>(
        &self,
        conn: &mut DB::Connection,
        sql: &'static str,
        binds: &[Bind<'_>],
    ) -> Result<Result<Option<i64>, Untold>, Error> {
        match rows::<DB>(conn, sql, binds).await {
            Ok(rows) => Ok(Ok(rows.first().map_or(Ok(None), |row| row.maybe_int(0))?)),
            Err(Error::Database(error)) => {
                tracing::debug!(%error, "the server says less of sessions than others do; the lease alone says who lives");
                Ok(Err(Untold))
            }
            Err(error) => Err(error),
        }
    }

    /// The server's name for the session that answered. Returns which session that is, and whether its locks mean anything.
    pub(crate) fn answered(&self, server: Option<i64>) -> (u64, bool) {
        let mut state = self.state();
        if state.server.is_some() && state.server != server {
            if !state.mute {
                tracing::warn!(
                    "the server's session was changed under the worker's connection, so its lease alone says that it lives; \
                     behind PgBouncer in transaction mode set `.transaction_pooler(true)`"
                );
            }
            *state = State { number: state.number + 1, server, mute: true, ..State::default() };
        }
        state.server = server;
        (state.number, !state.mute)
    }

    /// The server's name for the session that answered last; 0: none has on this connection.
    pub(crate) fn server(&self) -> i64 {
        self.state().server.unwrap_or(0)
    }

    /// In which run of the server this session holds the worker's lock.
    pub(crate) fn holds_in(&self, worker: WorkerId) -> Option<i64> {
        let state = *self.state();
        self.run().filter(|_| !state.mute && state.held == worker)
    }

    /// The run of the server that the session belongs to.
    pub(crate) fn run(&self) -> Option<i64> {
        match self.state().run {
            Run::Known(run) => Some(run),
            Run::Unknown | Run::Untold => None,
        }
    }

    /// Whether the worker's lock is still to be taken.
    pub(crate) fn lacks(&self, worker: WorkerId) -> bool {
        let state = self.state();
        !state.mute && state.held != worker
    }
}

#[cfg(test)]
mod tests {
    use super::Session;

    #[test]
    fn a_session_that_changes_under_its_connection_is_mute() {
        let session = Session::default();
        session.begins(false);
        assert_eq!(session.server(), 0);
        assert_eq!(session.answered(Some(7)), (1, true));
        assert_eq!(session.answered(Some(7)), (1, true));
        assert_eq!(session.server(), 7);
        assert!(session.lacks(3));
        assert_eq!(session.answered(Some(8)), (2, false));
        assert!(!session.lacks(3), "a mute session looks for no lock");
        session.begins(false);
        assert_eq!(session.answered(Some(8)), (3, true));
        session.begins(true);
        assert_eq!(session.answered(Some(9)), (4, false));
    }
}
