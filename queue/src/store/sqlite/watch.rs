//! Detects writes to a file: with inotify on Linux, elsewhere by polling.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tokio::time::sleep;

/// Poll interval without inotify.
const LOOK: Duration = Duration::from_millis(3);
/// Poll interval with inotify: some file systems report only writes on the same machine.
const LOOK_ALL_THE_SAME: Duration = Duration::from_millis(100);

/// A file's length and time of change.
type FileState = Option<(u64, SystemTime)>;

/// Detects writes to one file, which need not exist yet.
pub(crate) struct Writes {
    file: PathBuf,
    seen: FileState,
    told: told::Notice,
}

impl Writes {
    pub(crate) fn to(file: PathBuf) -> Self {
        Self { seen: state(&file), told: told::Notice::default(), file }
    }

    /// Waits for a write. With inotify, a write between two calls ends the second call at once. So does the end of the
    /// file: another one may be there.
    pub(crate) async fn next(&mut self) {
        if self.told.renew(&self.file) {
            self.seen = state(&self.file);
            return;
        }
        loop {
            let hears = self.told.hears() || (self.seen.is_some() && self.told.begin(&self.file));
            let pause = if hears { LOOK_ALL_THE_SAME } else { LOOK };
            tokio::select! {
                () = self.told.next() => {
                    self.told.renew(&self.file);
                    self.seen = state(&self.file);
                    return;
                }
                () = sleep(pause) => {}
            }
            let now = state(&self.file);
            if std::mem::replace(&mut self.seen, now) != now {
                return;
            }
        }
    }
}

/// A stat takes microseconds, less than a hand-over to another thread. The file is not opened: closing a descriptor of
/// a file that SQLite has open would drop SQLite's locks.
fn state(file: &Path) -> FileState {
    let meta = std::fs::metadata(file).ok()?;
    Some((meta.len(), meta.modified().ok()?))
}

#[cfg(target_os = "linux")]
mod told {
    use std::io::ErrorKind;
    use std::path::Path;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;
    use std::time::{Duration, Instant};

    use inotify::{EventMask, Inotify, WatchDescriptor, WatchMask, Watches};
    use tokio::sync::Notify;

    /// A commit is several writes, and many commits follow each other. Writes within this time are reported once.
    const TOGETHER: Duration = Duration::from_millis(1);

    /// Pause before a retry after the system refused a watch. Their number is limited, and others use them too.
    const AGAIN: Duration = Duration::from_secs(1);

    /// A thread waits for inotify, because the runtime may have no I/O driver.
    #[derive(Default)]
    pub(crate) struct Notice {
        pub(crate) ear: Option<Ear>,
        refused: Option<Instant>,
    }

    pub(crate) struct Ear {
        written: Arc<Notify>,
        /// The file was replaced or has other attributes, or the thread has ended. The thread has the other handle.
        pub(crate) over: Arc<AtomicBool>,
        watches: Watches,
        watch: WatchDescriptor,
    }

    impl Notice {
        pub(crate) fn hears(&self) -> bool {
            self.ear.as_ref().is_some_and(|ear| !ear.over.load(Ordering::Acquire))
        }

        /// Starts to watch a file that exists. False if the system refuses, or refused a moment ago.
        pub(crate) fn begin(&mut self, file: &Path) -> bool {
            self.ear = None;
            if self.refused.is_none_or(|at| at.elapsed() >= AGAIN) {
                self.ear = Ear::of(file).ok();
                self.refused = self.ear.is_none().then(Instant::now);
            }
            self.ear.is_some()
        }

        /// Watches the file anew if it was replaced or has other attributes. Whether that is so.
        pub(crate) fn renew(&mut self, file: &Path) -> bool {
            let is_over = self.ear.as_ref().is_some_and(|ear| ear.over.load(Ordering::Acquire));
            if is_over {
                self.begin(file);
            }
            is_over
        }

        pub(crate) async fn next(&self) {
            match &self.ear {
                Some(ear) => ear.written.notified().await,
                None => std::future::pending().await,
            }
        }
    }

    impl Ear {
        fn of(file: &Path) -> std::io::Result<Self> {
            let mut inotify = Inotify::init()?;
            let mut watches = inotify.watches();
            let gone = WatchMask::ATTRIB | WatchMask::DELETE_SELF | WatchMask::MOVE_SELF;
            let watch = watches.add(file, WatchMask::MODIFY | gone)?;
            let (written, over) = (Arc::<Notify>::default(), Arc::<AtomicBool>::default());
            let ear = Self { written: written.clone(), over: over.clone(), watches, watch };
            let hear = move || {
                let mut buffer = [0; 1024];
                while !over.load(Ordering::Acquire) {
                    let mut heard = EventMask::empty();
                    match inotify.read_events_blocking(&mut buffer) {
                        Ok(events) => events.into_iter().for_each(|event| heard |= event.mask),
                        Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                        Err(_) => break,
                    }
                    // removing a file that others have open changes an attribute, its number of names
                    if heard != EventMask::MODIFY {
                        break;
                    }
                    written.notify_one();
                    thread::sleep(TOGETHER);
                }
                over.store(true, Ordering::Release);
                written.notify_one();
            };
            thread::Builder::new().name("queue-watch".to_owned()).spawn(hear)?;
            Ok(ear)
        }
    }

    impl Drop for Ear {
        fn drop(&mut self) {
            self.over.store(true, Ordering::Release);
            // ends the thread's wait; an error means that the thread has ended
            let _ = self.watches.remove(self.watch.clone());
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod told {
    use std::path::Path;

    /// Without inotify.
    #[derive(Default)]
    pub(crate) struct Notice;

    impl Notice {
        pub(crate) fn hears(&self) -> bool {
            false
        }

        pub(crate) fn begin(&mut self, _file: &Path) -> bool {
            false
        }

        pub(crate) fn renew(&mut self, _file: &Path) -> bool {
            false
        }

        pub(crate) async fn next(&self) {
            std::future::pending().await
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, OpenOptions};
    use std::io::Write as _;
    use std::time::Instant;

    use tokio::time::timeout;

    use super::*;

    /// Far longer than a busy machine needs.
    const SOON: Duration = Duration::from_secs(60);

    /// Waits until it tells of nothing any more: nothing is written, but what was may be told late.
    async fn quiet(writes: &mut Writes) {
        let told = async { while timeout(Duration::from_millis(50), writes.next()).await.is_ok() {} };
        timeout(SOON, told).await.expect("nothing was written");
    }

    #[tokio::test]
    async fn tells_of_writes_also_where_the_file_comes_later_or_is_another() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("log");
        let mut writes = Writes::to(file.clone());
        for _ in 0..2 {
            quiet(&mut writes).await;
            let mut log = OpenOptions::new().create(true).append(true).open(&file).expect("a file");
            timeout(SOON, writes.next()).await.expect("it was made");
            for _ in 0..3 {
                quiet(&mut writes).await;
                log.write_all(b"more").expect("written");
                timeout(SOON, writes.next()).await.expect("it was written");
            }
            fs::remove_file(&file).expect("removed");
            timeout(SOON, writes.next()).await.expect("it is gone");
        }
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn ends_its_thread() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("log");
        fs::write(&file, "").expect("a file");
        let mut writes = Writes::to(file.clone());
        assert!(timeout(Duration::from_millis(1), writes.next()).await.is_err());
        let mode = fs::metadata(&file).expect("a file").permissions();
        fs::set_permissions(&file, mode).expect("an attribute");
        // before the next call, which must not miss it
        while writes.told.hears() {
            sleep(LOOK).await;
        }
        timeout(SOON, writes.next()).await.expect("it may be another file");
        assert!(timeout(Duration::from_millis(50), writes.next()).await.is_err(), "nothing was written");
        assert!(writes.told.hears());
        let over = writes.told.ear.as_ref().expect("it listens").over.clone();
        drop(writes);
        let began = Instant::now();
        while std::sync::Arc::strong_count(&over) > 1 {
            assert!(began.elapsed() < SOON, "it ends");
            sleep(LOOK).await;
        }
    }
}
