//! The disk of the database fills up.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use queue_test_servers::{Durability, Settings, is_root, paths};
use queue_test_support::Engine;
use tempfile::TempDir;
use tokio::time::timeout;

use super::{Ground, Skipped};
use crate::crew::Crew;
use crate::load::Mix;
use crate::scene::{LOOK, Place, Scene};

/// Time limit until the database needs more space than it has reserved.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server that does not answer for this long waits for space.
const STILL: Duration = Duration::from_secs(3);

/// A small disk in memory. Unmounted when dropped.
struct Disk(TempDir);

impl Disk {
    fn mount(megabytes: u32) -> Result<Disk> {
        if !is_root() {
            return Err(Skipped("only root can make a small disk (tmpfs)".into()).into());
        }
        let folder = TempDir::with_prefix("queue-disk-").context("making a temporary folder")?;
        paths::create_open(folder.path())?;
        let options = format!("size={megabytes}m,mode=755");
        let mounted = mount(Some("tmpfs"), folder.path(), Some("tmpfs"), MsFlags::empty(), Some(options.as_str()));
        match mounted {
            Ok(()) => Ok(Disk(folder)),
            Err(error) => Err(Skipped(format!("a small disk (tmpfs) cannot be made here: {error}")).into()),
        }
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Fills the disk. [`fs::remove_file`] frees it.
    fn fill(&self) -> Result<PathBuf> {
        let path = self.path().join("filler");
        let mut file = File::create(&path).context("filling the disk")?;
        let mut chunk = vec![0_u8; 1 << 20];
        while !chunk.is_empty() {
            if file.write_all(&chunk).is_err() {
                chunk.truncate(chunk.len() / 2);
            }
        }
        Ok(path)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = umount2(self.path(), MntFlags::MNT_DETACH);
    }
}

/// The size of an empty database, plus some space to work.
fn megabytes(engine: Engine) -> u32 {
    match engine {
        Engine::Sqlite => 8,
        Engine::Postgres => 160,
        Engine::MariaDb => 260,
        Engine::MySql => 420,
    }
}

/// P1, P23.
pub(super) async fn full(ground: &Ground) -> Result<Vec<String>> {
    let disk = Disk::mount(megabytes(ground.engine))?;
    let mut scene = on(&disk, ground).await?;
    let mut crew = scene.crew();
    crew.hire_many(2, &scene.worker())?;
    crew.ready().await?;
    let load = scene.load(None, &Mix::usual())?;
    crew.work(Duration::from_secs(1)).await?;
    scene.execute(FOREIGN).await?;
    let (rounds, mut ends, mut words) = (scene.rounds(1, 10), 0, String::new());
    for _ in 0..rounds {
        let filler = disk.fill()?;
        let time = scene.span(Duration::from_secs(4), Duration::from_secs(30));
        let begin = Instant::now();
        let mut refused = None;
        while begin.elapsed() < time || refused.is_none() {
            ensure!(begin.elapsed() < time + PATIENCE, "everything was written to a full disk: this shows nothing");
            if refused.is_none() {
                refused = refusal(&scene).await;
            }
            crew.work(LOOK).await?;
        }
        words = refused.unwrap_or_default();
        fs::remove_file(filler).context("freeing the disk")?;
        ends += revive(&mut scene, &mut crew).await?;
        crew.work(Duration::from_secs(1)).await?;
    }
    scene.judge(Some(load), crew).await?;
    scene.note(format!(
        "the disk was full {rounds} times, to somebody else the database said: {words}; the server ended by itself \
         {ends} times"
    ));
    // before its disk
    let notes = std::mem::take(&mut scene.notes);
    drop(scene);
    Ok(notes)
}

/// A foreign table that needs space.
const FOREIGN: &str = "CREATE TABLE foreign_notes (note TEXT)";

/// The database's error for a write that needs space. If the database waits instead, the error in its log.
async fn refusal(scene: &Scene) -> Option<String> {
    let mut rng = fastrand::Rng::new();
    // what does not get smaller when it is packed
    let note: String = (0..32_000).map(|_| rng.alphanumeric()).collect();
    let sql = format!("INSERT INTO foreign_notes (note) VALUES ('{note}')");
    match timeout(STILL, scene.execute(&sql)).await {
        Ok(answer) => answer.err().map(|error| error.to_string()),
        Err(_) => {
            let log = scene.server.as_ref().map(|server| server.log()).unwrap_or_default();
            let full = |line: &&str| line.contains("No space left") || line.to_lowercase().contains("disk is full");
            log.lines().rfind(full).map(str::to_owned)
        }
    }
}

async fn on(disk: &Disk, ground: &Ground) -> Result<Scene> {
    let place = match ground.engine {
        Engine::Sqlite => Place::Folder(disk.path().into()),
        engine => {
            let settings = Settings::new(Durability::Process).place(disk.path());
            let settings = match engine {
                Engine::Postgres => settings.arg("--max_wal_size=48MB").arg("--min_wal_size=32MB"),
                Engine::MySql => settings.arg("--innodb-redo-log-capacity=33554432"),
                _ => settings.arg("--innodb-log-file-size=33554432"),
            };
            Place::Own(Box::new(settings))
        }
    };
    Scene::new(ground.engine, place, ground.order).await
}

/// Waits until something can be written. Some servers exit when they cannot write, or when there is space again. They
/// are restarted, as a supervisor would. Returns how often.
async fn revive(scene: &mut Scene, crew: &mut Crew) -> Result<u32> {
    let (mut ends, end) = (0, Instant::now() + PATIENCE);
    loop {
        crew.work(Duration::from_millis(500)).await?;
        if let Some(server) = &mut scene.server
            && !server.is_running()
        {
            ends += 1;
            tokio::task::block_in_place(|| server.start_again())?;
        }
        let written = timeout(STILL, scene.execute("INSERT INTO foreign_notes (note) VALUES ('again')")).await;
        if matches!(written, Ok(Ok(()))) {
            return Ok(ends);
        }
        if Instant::now() > end {
            let log = scene.server.as_ref().map(|server| server.log()).unwrap_or_default();
            bail!("nothing can be written {PATIENCE:?} after the disk was freed: {written:?}\n{log}");
        }
    }
}
