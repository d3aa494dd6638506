//! Code around handlers: what [`WorkerBuilder::wrap`](crate::WorkerBuilder::wrap) is given and gives back.

#[cfg(feature = "tower")]
use std::fmt;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde::Serialize;

pub use crate::context::Extensions;
use crate::context::JobContext;
use crate::outcome::JobError;
use crate::registry::Running;

/// The success of an attempt: what the handler returned, as JSON. A wrapper may return one of its own.
///
/// ```
/// use queue::middleware::Done;
///
/// assert_eq!(Done::default().json(), None);
/// assert_eq!(Done::new(&7).unwrap().json(), Some("7"));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Done(Option<String>);

impl Done {
    /// The job is completed with this result.
    ///
    /// # Errors
    /// The value does not serialize.
    pub fn new(result: &impl Serialize) -> Result<Self, serde_json::Error> {
        serde_json::to_string(result).map(|json| Self(Some(json).filter(|json| json != "null")))
    }

    /// The result. `None` for `()`.
    pub fn json(&self) -> Option<&str> {
        self.0.as_deref()
    }
}

/// The rest of an attempt: the wrappers inside this one, and the handler. Dropping it drops the handler.
pub struct Next {
    ctx: JobContext,
    args: Arc<str>,
    /// The outermost comes last.
    wrappers: Vec<Wrapper>,
    handler: Running,
}

pub(crate) type Wrapper =
    Arc<dyn Fn(JobContext, Next) -> BoxFuture<'static, Result<Done, JobError>> + Send + Sync + 'static>;

impl Next {
    /// The job's arguments, as JSON. They may be private.
    pub fn args(&self) -> &str {
        &self.args
    }

    /// Runs the rest of the attempt.
    ///
    /// # Errors
    /// What the handler returned.
    ///
    /// # Cancellation
    /// Dropping the future drops the handler where it waits.
    pub async fn run(mut self) -> Result<Done, JobError> {
        match self.wrappers.pop() {
            Some(wrapper) => wrapper(self.ctx.clone(), self).await,
            None => self.handler.await.map(Done),
        }
    }
}

/// The handler as a service, for the layers of `tower`. See [`WorkerBuilder::layer`](crate::WorkerBuilder::layer).
#[cfg(feature = "tower")]
#[derive(Debug, Clone, Copy, Default)]
pub struct HandlerService;

#[cfg(feature = "tower")]
impl tower::Service<(JobContext, Next)> for HandlerService {
    type Response = Done;
    type Error = Refused;
    type Future = BoxFuture<'static, Result<Done, Refused>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Refused>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, (_, next): (JobContext, Next)) -> Self::Future {
        async move { next.run().await.map_err(Refused) }.boxed()
    }
}

/// A [`JobError`] that passes through layers, which want an [`Error`](std::error::Error). A layer of your own returns
/// one to decide how the attempt ends. Any other error of a layer is a failure.
///
/// ```
/// use std::time::Duration;
/// use queue::JobError;
/// use queue::middleware::Refused;
///
/// // not during the maintenance: in an hour
/// let refused = Refused(JobError::snooze(Duration::from_secs(3600)));
/// assert_eq!(refused.to_string(), "snoozed for 3600s");
/// ```
#[cfg(feature = "tower")]
#[derive(Debug)]
pub struct Refused(pub JobError);

#[cfg(feature = "tower")]
impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(feature = "tower")]
impl std::error::Error for Refused {}

/// The wrappers of a worker, in the order in which they were given.
#[derive(Clone, Default)]
pub(crate) struct Wrappers(Vec<Wrapper>);

impl Wrappers {
    pub(crate) fn add<Answer>(&mut self, wrapper: impl Fn(JobContext, Next) -> Answer + Send + Sync + 'static)
    where
        Answer: Future<Output = Result<Done, JobError>> + Send + 'static,
    {
        self.0.push(Arc::new(move |ctx, next| wrapper(ctx, next).boxed()));
    }

    /// The handler with all wrappers around it. Without any, it stays as it is.
    pub(crate) fn around(&self, ctx: &JobContext, args: &str, handler: Running) -> Running {
        if self.0.is_empty() {
            return handler;
        }
        let wrappers = self.0.iter().rev().cloned().collect();
        let next = Next { ctx: ctx.clone(), args: args.into(), wrappers, handler };
        async move { next.run().await.map(|done| done.0) }.boxed()
    }
}
