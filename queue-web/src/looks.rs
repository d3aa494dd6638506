//! A look at the database that all who watch share.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// An old look is still shown for this many times as long as it is fresh. Meanwhile the next one is taken, and nobody
/// waits for it.
const STALE: u32 = 3;

/// The last look, and whose turn it is to take another one.
pub(crate) struct Looks<T> {
    kept: Mutex<Kept<T>>,
    turn: Arc<tokio::sync::Mutex<()>>,
}

struct Kept<T> {
    /// When it began, and what was seen.
    last: Option<(Instant, Arc<T>)>,
    /// A look that began before this has not seen the last change.
    changed: Instant,
}

impl<T: Send + Sync + 'static> Looks<T> {
    pub(crate) fn new() -> Self {
        Self { kept: Mutex::new(Kept { last: None, changed: Instant::now() }), turn: Arc::default() }
    }

    fn kept(&self) -> MutexGuard<'_, Kept<T>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn last(&self) -> Option<(Duration, Arc<T>)> {
        self.kept().last.as_ref().map(|(began, seen)| (began.elapsed(), seen.clone()))
    }

    /// What was seen a moment ago, or is seen now. Only one look is taken at a time.
    pub(crate) async fn get<E: Send>(
        self: &Arc<Self>,
        fresh: Duration,
        look: impl Future<Output = Result<T, E>> + Send + 'static,
    ) -> Result<Arc<T>, E> {
        match self.last() {
            Some((age, seen)) if age < fresh => return Ok(seen),
            Some((age, seen)) if age < fresh * STALE => {
                if let Ok(turn) = self.turn.clone().try_lock_owned() {
                    let looks = self.clone();
                    tokio::spawn(async move {
                        // if it fails, whoever has to wait for the next one is told
                        let _ = looks.take(look).await;
                        drop(turn);
                    });
                }
                return Ok(seen);
            }
            _ => {}
        }
        let _turn = self.turn.lock().await;
        match self.last() {
            Some((age, seen)) if age < fresh => Ok(seen),
            _ => self.take(look).await,
        }
    }

    async fn take<E>(&self, look: impl Future<Output = Result<T, E>>) -> Result<Arc<T>, E> {
        let began = Instant::now();
        let seen = Arc::new(look.await?);
        let mut kept = self.kept();
        if began >= kept.changed {
            kept.last = Some((began, seen.clone()));
        }
        Ok(seen)
    }

    /// After a change: whoever looks next sees it.
    pub(crate) fn forget(&self) {
        let mut kept = self.kept();
        (kept.last, kept.changed) = (None, Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    use tokio::time::{advance, sleep};

    use super::*;

    const FRESH: Duration = Duration::from_secs(2);

    /// Looks that take a second each, and see how many there were.
    struct Slow(Arc<Looks<u32>>, Arc<AtomicU32>);

    impl Slow {
        fn new() -> Self {
            Self(Arc::new(Looks::new()), Arc::default())
        }

        async fn get(&self) -> Result<u32, &'static str> {
            let number = self.1.clone();
            let look = async move {
                sleep(Duration::from_secs(1)).await;
                match number.fetch_add(1, Relaxed) + 1 {
                    3 => Err("away"),
                    number => Ok(number),
                }
            };
            self.0.get(FRESH, look).await.map(|seen| *seen)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_for_a_look_while_there_is_one_that_is_not_old() {
        let looks = Slow::new();
        let began = Instant::now();
        let both = tokio::join!(looks.get(), looks.get());
        assert_eq!((both, began.elapsed()), ((Ok(1), Ok(1)), Duration::from_secs(1)), "the first one is shared");
        advance(FRESH).await;
        let began = Instant::now();
        assert_eq!((looks.get().await, looks.get().await, began.elapsed()), (Ok(1), Ok(1), Duration::ZERO));
        sleep(Duration::from_millis(1_500)).await;
        assert_eq!(looks.get().await, Ok(2), "it was taken meanwhile, once");
        advance(FRESH).await;
        assert_eq!(looks.get().await, Ok(2));
        sleep(Duration::from_millis(1_500)).await;
        assert_eq!((looks.get().await, looks.1.load(Relaxed)), (Ok(2), 3), "the third one has failed");
        advance(FRESH * STALE).await;
        let began = Instant::now();
        assert_eq!((looks.get().await, began.elapsed()), (Ok(4), Duration::from_secs(1)), "too old to be shown");
    }

    #[tokio::test(start_paused = true)]
    async fn a_look_that_began_before_a_change_is_not_kept() {
        let looks = Slow::new();
        let (first, ()) = tokio::join!(looks.get(), async {
            sleep(Duration::from_millis(500)).await;
            looks.0.forget();
        });
        assert_eq!((first, looks.get().await), (Ok(1), Ok(2)));
    }

    #[tokio::test(start_paused = true)]
    async fn an_error_is_told_to_whoever_waits() {
        let looks = Slow::new();
        looks.1.store(2, Relaxed);
        assert_eq!((looks.get().await, looks.get().await), (Err("away"), Ok(4)));
    }
}
