//! The session in which a worker beats, as the server sees it: it holds locks that the server drops with the connection.
//!
//! A process that is killed has its sockets closed by the system, the server ends its sessions, and their locks are free:
//! that is seen by others long before a lease runs out. What may be concluded from it is decided in `worker::liveness`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sqlx::Error;

use super::WorkerId;
use super::dialect::{Dialect, rows};

/// An engine's statements about sessions.
#[derive(Debug)]
pub(crate) struct Sessions {
    /// Binds: worker. Takes the lock that says that it lives, without waiting. One row: 1 when it was taken.
    pub(crate) hold: &'static str,
    /// Binds: worker. Takes the lock that says that it holds jobs.
    pub(crate) busy: &'static str,
    /// Binds: worker. Lets that one go.
    pub(crate) idle: &'static str,
    /// Declares a worker dead whose lock is free and whose last heartbeat is the one given. Binds: worker, heartbeat. The
    /// answer of the first, if any, is its id; further ones are run when there is an answer. Binds of those: a list of it.
    pub(crate) declare: &'static [&'static str],
}

/// The session of the line for heartbeats. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(super) struct Session(Arc<Mutex<State>>);

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
}

impl Session {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// There is a new connection.
    pub(super) fn begins(&self, in_cluster: bool) {
        let mut state = self.state();
        *state = State { number: state.number + 1, mute: in_cluster, ..State::default() };
    }

    /// Takes the locks that this connection should hold and does not. Before the heartbeat is written: who sees a later
    /// heartbeat can see the lock. A lock that cannot be had is no reason not to beat.
    pub(super) async fn hold<DB: Dialect>(
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
        Ok(())
    }

    async fn ask<DB: Dialect>(
        &self,
        conn: &mut DB::Connection,
        sql: &'static str,
        worker: WorkerId,
    ) -> Result<bool, Error> {
        match rows::<DB>(conn, sql, &[worker.into()]).await {
            Ok(rows) => rows.first().map_or(Ok(false), |row| Ok(super::dialect::Cells::maybe_int(row, 0)? == Some(1))),
            Err(Error::Database(error)) => {
                tracing::debug!(%error, "the server gives no lock to this session; the lease alone says who lives");
                self.state().mute = true;
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// The server's name for the session that answered. Returns which session that is, and whether its locks mean anything.
    pub(super) fn answered(&self, server: Option<i64>) -> (u64, bool) {
        let mut state = self.state();
        if state.server.is_some() && state.server != server {
            *state = State { number: state.number + 1, server, mute: true, held: 0, busy: 0 };
        }
        state.server = server;
        (state.number, !state.mute)
    }

    /// The server's name for the session that answered last; 0: none has on this connection.
    pub(super) fn server(&self) -> i64 {
        self.state().server.unwrap_or(0)
    }

    /// Whether the worker's lock is still to be taken.
    pub(super) fn lacks(&self, worker: WorkerId) -> bool {
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
