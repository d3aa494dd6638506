//! The session of a worker's heartbeats, as the server sees it. It holds locks that the server releases with the
//! connection.
//!
//! When a process is killed, the system closes its sockets, the server ends its sessions, and their locks become free.
//! Others see that long before the lease runs out. `worker::lease::liveness` decides what to conclude from it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sqlx::Error;

use crate::store::engine::dialect::Dialect;
use crate::store::engine::driver::{Bind, Cells as _, rows};
use crate::store::values::WorkerId;

/// The session of the connection for heartbeats. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Session(Arc<Mutex<Current>>);

#[derive(Debug, Clone, Copy, Default)]
struct Current {
    /// Increases with each connection.
    number: u64,
    /// The server's id of it.
    server: Option<i64>,
    /// Its locks are unavailable or mean nothing: each node of a cluster has its own, a proxy changes the session under
    /// the connection, or the server refuses them.
    mute: bool,
    /// The worker whose lock it holds; 0: none.
    held: WorkerId,
    busy: WorkerId,
    /// The run of the server.
    run: Told,
}

/// An answer of the server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Told {
    /// None yet.
    #[default]
    Nothing,
    Refused,
    Number(i64),
}

impl Session {
    fn state(&self) -> MutexGuard<'_, Current> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a new connection.
    pub(crate) fn begins(&self, in_cluster: bool) {
        let mut state = self.state();
        *state = Current { number: state.number + 1, mute: in_cluster, ..Current::default() };
    }

    /// Notes the session of this transaction, where sessions are lent. The next transaction may have another one. What
    /// was acknowledged in one session counts in all, until the server restarts.
    pub(crate) async fn borrows<DB: Dialect>(&self, conn: &mut DB::Connection) -> Result<(), Error> {
        let (Some(sessions), Some(sql)) = (DB::SESSIONS, DB::SESSION) else { return Ok(()) };
        let run = self.told::<DB>(conn, sessions.run, &[]).await?;
        let session = rows::<DB>(conn, sql, &[]).await?.first().ok_or(Error::RowNotFound)?.int(0)?;
        let mut state = self.state();
        let known = matches!(run, Told::Number(_)) && run == state.run;
        if !known {
            *state = Current { number: state.number + 1, mute: true, run, ..Current::default() };
        }
        state.server = known.then_some(session);
        Ok(())
    }

    /// Takes the locks that this connection should hold but does not. This comes before the heartbeat is written, so
    /// that others that see a later heartbeat can see the lock. A lock that is unavailable does not prevent the
    /// heartbeat.
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
        if state.run == Told::Nothing {
            let run = self.told::<DB>(conn, sessions.run, &[]).await?;
            self.state().run = run;
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
        self.state().mute |= told == Told::Refused;
        Ok(told == Told::Number(1))
    }

    /// The number that the server answers with.
    async fn told<DB: Dialect>(
        &self,
        conn: &mut DB::Connection,
        sql: &'static str,
        binds: &[Bind<'_>],
    ) -> Result<Told, Error> {
        match rows::<DB>(conn, sql, binds).await {
            Ok(rows) => {
                let number = rows.first().map_or(Ok(None), |row| row.maybe_int(0))?;
                Ok(number.map_or(Told::Nothing, Told::Number))
            }
            Err(Error::Database(error)) => {
                tracing::debug!(%error, "the server does not report sessions; only leases show which workers live");
                Ok(Told::Refused)
            }
            Err(error) => Err(error),
        }
    }

    /// Takes the server's id of the session that answered. Returns the number of that session, and whether its locks
    /// mean anything.
    pub(crate) fn answered(&self, server: Option<i64>) -> (u64, bool) {
        let mut state = self.state();
        if state.server.is_some() && state.server != server {
            if !state.mute {
                tracing::warn!(
                    "the server's session changed under the worker's connection, so only the lease shows that it \
                     lives; behind PgBouncer in transaction mode, set `.transaction_pooler(true)`"
                );
            }
            *state = Current { number: state.number + 1, server, mute: true, ..Current::default() };
        }
        state.server = server;
        (state.number, !state.mute)
    }

    /// The server's id of the session that answered last; 0: none on this connection.
    pub(crate) fn server(&self) -> i64 {
        self.state().server.unwrap_or(0)
    }

    /// The run of the server in which this session holds the worker's lock.
    pub(crate) fn holds_in(&self, worker: WorkerId) -> Option<i64> {
        let state = *self.state();
        self.run().filter(|_| !state.mute && state.held == worker)
    }

    /// The run of the server that the session belongs to, if known.
    pub(crate) fn run(&self) -> Option<i64> {
        match self.state().run {
            Told::Number(run) => Some(run),
            Told::Nothing | Told::Refused => None,
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
