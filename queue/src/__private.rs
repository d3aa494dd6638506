//! What the code that `#[job]` generates may touch. Not part of the public API.

pub use inventory;
pub use serde;

use crate::context::JobContext;
pub use crate::context::State;
pub use crate::job::StateType;
pub use crate::outcome::{IntoJobError, JobError, JobReturn};
pub use crate::registry::Registration;

/// The value that the worker was given for a [`State`] parameter.
pub fn state<T: Clone + Send + Sync + 'static>(ctx: &JobContext) -> State<T> {
    // `WorkerBuilder::build` refuses a worker that lacks a required state, so this cannot fail in a worker.
    State(
        ctx.state::<T>()
            .unwrap_or_else(|| panic!("the worker was built without .state(…) for {}", std::any::type_name::<T>())),
    )
}

/// Runs a `#[job(blocking)]` function off the async threads; its panics go on in the caller. When the attempt is given up while
/// the function waits for a thread, it does not start any more: another attempt may be current by then.
pub async fn blocking<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> R {
    struct Guard<R>(tokio::task::JoinHandle<R>);
    impl<R> Drop for Guard<R> {
        fn drop(&mut self) {
            self.0.abort(); // what has begun goes on
        }
    }
    let span = tracing::Span::current();
    let mut task = Guard(tokio::task::spawn_blocking(move || span.in_scope(work)));
    match (&mut task.0).await {
        Ok(value) => value,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => std::future::pending().await, // the runtime is shutting down
        },
    }
}

// Everything below serves the messages of `#[job]`: a wrong type is refused once, at the type, with the cure. A trait
// with a single blanket implementation would not do: the compiler then reports the bounds of that implementation one by
// one, in words about traits that the user never wrote. With a second implementation that never applies, it has no
// favourite and reports the trait itself. `Is` and `IsNot` tell the two apart; the generated code leaves them to inference.

/// Marks the implementation that applies.
#[derive(Debug)]
pub struct Is;

/// Marks the implementation that never applies.
#[derive(Debug)]
pub struct IsNot;

mod never {
    /// Implemented by nothing.
    pub trait Never {}
}
use never::Never;

/// What a job stores.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an argument of a job",
    label = "cannot be stored as JSON and read again",
    note = "an argument, and every type in it, needs `#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]`",
    note = "a connection, a client or other shared value is a `State<T>` parameter instead"
)]
pub trait Argument<M>: Sized {
    /// The form in which serde sees it.
    type Stored: serde::Serialize + serde::de::DeserializeOwned;
    /// `Clone`, behind this trait.
    fn clone(&self) -> Self;
    /// `Debug`, behind this trait.
    fn debug(&self) -> &dyn std::fmt::Debug;
    /// `Serialize`, behind this trait.
    fn as_stored(&self) -> &Self::Stored;
    /// `Deserialize`, behind this trait.
    fn from_stored(stored: Self::Stored) -> Self;
}

impl<T> Argument<Is> for T
where
    T: std::fmt::Debug + Clone + serde::Serialize + serde::de::DeserializeOwned + 'static,
{
    type Stored = T;
    fn clone(&self) -> Self {
        Clone::clone(self)
    }
    fn debug(&self) -> &dyn std::fmt::Debug {
        self
    }
    fn as_stored(&self) -> &T {
        self
    }
    fn from_stored(stored: T) -> T {
        stored
    }
}

impl<T: Never> Argument<IsNot> for T {
    type Stored = ();
    fn clone(&self) -> Self {
        unreachable!()
    }
    fn debug(&self) -> &dyn std::fmt::Debug {
        unreachable!()
    }
    fn as_stored(&self) -> &() {
        unreachable!()
    }
    fn from_stored((): ()) -> T {
        unreachable!()
    }
}

/// A [`State`] parameter.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a parameter of a job",
    label = "every attempt takes a clone of it",
    note = "a `queue::State<T>` needs `T: Clone + Send + Sync + 'static`",
    note = "`#[derive(Clone)]` for `T`, or share one value as `State<std::sync::Arc<T>>`"
)]
pub trait StateParameter<M>: Sized {
    /// The value that the worker was given.
    fn get(ctx: &JobContext) -> Self;
    /// For `Job::requires`.
    fn describe() -> StateType;
}

impl<T: Clone + Send + Sync + 'static> StateParameter<Is> for State<T> {
    fn get(ctx: &JobContext) -> Self {
        state(ctx)
    }
    fn describe() -> StateType {
        StateType::of::<T>()
    }
}

impl<T: Never> StateParameter<IsNot> for T {
    fn get(_: &JobContext) -> Self {
        unreachable!()
    }
    fn describe() -> StateType {
        unreachable!()
    }
}

/// What a job returns.
#[diagnostic::on_unimplemented(
    message = "a job cannot return `{Self}`",
    label = "a job returns nothing or a `Result`",
    note = "return `Result<T, E>` where `T: serde::Serialize` (kept as the job's result) and `E` is any error type"
)]
pub trait Outcome {
    /// Kept as the result.
    type Output;
    /// Kept as the error.
    type Error;
    /// The two as one `Result`.
    fn into_result(self) -> Result<Self::Output, Self::Error>;
}

impl Outcome for () {
    type Output = ();
    type Error = std::convert::Infallible;
    fn into_result(self) -> Result<(), Self::Error> {
        Ok(())
    }
}

impl<T, E> Outcome for Result<T, E> {
    type Output = T;
    type Error = E;
    fn into_result(self) -> Self {
        self
    }
}

/// What a job returns as its error.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the error of a job",
    label = "not an error that a worker can record",
    note = "implement `std::error::Error` for it, or return `Result<_, queue::JobError>` and use `?`",
    note = "a boxed error has to be `Box<dyn std::error::Error + Send + Sync>`"
)]
pub trait Failure<M> {
    /// The outcome that the error stands for.
    fn into_job_error(self) -> JobError;
}

impl<E: IntoJobError> Failure<Is> for E {
    fn into_job_error(self) -> JobError {
        IntoJobError::into_job_error(self)
    }
}

impl<E: Never> Failure<IsNot> for E {
    fn into_job_error(self) -> JobError {
        unreachable!()
    }
}

/// Writes the arguments of a job that has none: `{}`.
pub fn serialize_nothing<S: serde::Serializer>(serializer: S) -> Result<S::Ok, S::Error> {
    serde::ser::SerializeMap::end(serializer.serialize_map(Some(0))?)
}

/// Reads the arguments of a job that has none: `{}`, `null`, or an object whose fields are ignored.
pub fn deserialize_nothing<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<(), D::Error> {
    struct Nothing;

    impl<'de> serde::de::Visitor<'de> for Nothing {
        type Value = ();

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("an object, or null: the job has no arguments")
        }

        fn visit_unit<E>(self) -> Result<(), E> {
            Ok(())
        }

        fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
            while map.next_entry::<serde::de::IgnoredAny, serde::de::IgnoredAny>()?.is_some() {}
            Ok(())
        }
    }

    deserializer.deserialize_any(Nothing)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Arc, mpsc};
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_function_that_is_given_up_before_it_has_a_thread_does_not_start() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().max_blocking_threads(1).build();
        let runtime = runtime.expect("a runtime");
        let started = Arc::new(AtomicBool::new(false));
        runtime.block_on(async {
            let (release, held) = mpsc::channel::<()>();
            let holder = tokio::task::spawn_blocking(move || held.recv());
            let begun = started.clone();
            let second = blocking(move || begun.store(true, Ordering::Relaxed));
            tokio::time::timeout(Duration::from_millis(10), second).await.expect_err("the only thread is taken");
            drop(release);
            let _ = holder.await;
            blocking(|| ()).await; // behind it
        });
        assert!(!started.load(Ordering::Relaxed));
    }
}
