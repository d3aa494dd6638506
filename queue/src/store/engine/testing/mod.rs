//! Operations on a connection that somebody lends, inside an open transaction of theirs. Only tests of users do.
//!
//! The one who lends the connection waits for an operation, and serves its requests meanwhile ([`serve`]). So the
//! operation itself owns nothing borrowed, and is the same code as in a worker.

pub(crate) mod test_store;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use sqlx::{Database, Error};
use tokio::sync::{mpsc, oneshot};

use crate::store::engine::dialect::Dialect;

/// One operation, as the lender runs it.
type Request<DB> = Box<dyn for<'c> FnOnce(&'c mut <DB as Database>::Connection) -> BoxFuture<'c, ()> + Send>;

/// What the lender serves.
pub(crate) struct Requests<DB: Database>(mpsc::UnboundedReceiver<Request<DB>>);

/// A connection that somebody else has.
pub(crate) struct Given<DB: Database>(mpsc::UnboundedSender<Request<DB>>);

impl<DB: Dialect> Given<DB> {
    pub(crate) fn new() -> (Self, Requests<DB>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Self(sender), Requests(receiver))
    }

    /// Runs `body` with the connection and the values in `args`.
    pub(crate) async fn run<A, T, F>(&self, args: A, body: F) -> Result<T, Error>
    where
        A: Send + Sync + 'static,
        T: Send + 'static,
        F: for<'c> Fn(&'c mut DB::Connection, &'c A) -> BoxFuture<'c, Result<T, Error>> + Send + Sync + 'static,
    {
        let (sender, receiver) = oneshot::channel();
        let operation: Request<DB> = Box::new(move |conn| {
            async move {
                let result = body(conn, &args).await;
                let _ = sender.send(result);
            }
            .boxed()
        });
        self.0.send(operation).map_err(|_| Error::PoolClosed)?;
        receiver.await.unwrap_or(Err(Error::PoolClosed))
    }
}

/// Waits for `work`, and runs what it asks for on `conn`.
pub(crate) async fn serve<DB: Database, T>(
    conn: &mut DB::Connection,
    requests: &mut Requests<DB>,
    work: impl Future<Output = T>,
) -> T {
    let mut work = std::pin::pin!(work);
    loop {
        tokio::select! {
            biased;
            done = &mut work => return done,
            Some(operation) = requests.0.recv() => operation(conn).await,
        }
    }
}
