//! Futures that reach their end even if nobody polls them any more.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use tokio::runtime;

/// A future that a task finishes if it is dropped before its end.
pub(super) struct Finished<T: Send + 'static> {
    future: Option<BoxFuture<'static, T>>,
    runtime: runtime::Handle,
}

impl<T: Send> Finished<T> {
    pub(super) fn new(future: impl Future<Output = T> + Send + 'static) -> Self {
        Self { future: Some(Box::pin(future)), runtime: runtime::Handle::current() }
    }
}

impl<T: Send> Future for Finished<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        // taken out, so that a future that panics is not polled again
        let mut future = self.future.take().expect("not polled after its end");
        let result = future.as_mut().poll(context);
        if result.is_pending() {
            self.future = Some(future);
        }
        result
    }
}

impl<T: Send> Drop for Finished<T> {
    fn drop(&mut self) {
        if let Some(future) = self.future.take() {
            // A runtime that has ended drops the future here. A connection must be dropped inside a runtime.
            let _context = self.runtime.enter();
            self.runtime.spawn(future);
        }
    }
}
