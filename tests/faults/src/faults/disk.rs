//! The disk of the database is full.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use queue_test_servers::{Durability, Settings, is_root, paths};
use queue_test_support::Engine;
use tempfile::TempDir;

use super::{Ground, Skipped};
use crate::crew::Crew;
use crate::load::Mix;
use crate::scene::{Place, Scene};

/// A small disk in memory. Taken away when dropped.
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

    /// Takes all that is left. Freed by [`fs::remove_file`].
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

/// What an empty database takes, and some room to work.
fn megabytes(engine: Engine) -> u32 {
    match engine {
        Engine::Sqlite => 8,
        Engine::Postgres => 160,
        Engine::MariaDb => 260,
        Engine::MySql => 420,
    }
}

pub(super) async fn full(ground: &Ground) -> Result<Vec<String>> {
    let disk = Disk::mount(megabytes(ground.engine))?;
    let mut scene = on(&disk, ground).await?;
    let mut crew = scene.crew();
    crew.hire_many(2, &scene.worker())?;
    crew.ready().await?;
    let load = scene.load(None, &Mix::usual())?;
    crew.work(Duration::from_secs(1)).await?;
    let (rounds, mut ends) = (scene.rounds(1, 10), 0);
    for _ in 0..rounds {
        let filler = disk.fill()?;
        let time = scene.span(Duration::from_secs(4), Duration::from_secs(30));
        crew.work(time).await?;
        fs::remove_file(filler).context("freeing the disk")?;
        ends += revive(&mut scene, &mut crew).await?;
        crew.work(Duration::from_secs(1)).await?;
    }
    scene.judge(Some(load), crew).await?;
    scene.note(format!("the disk was full {rounds} times; the server ended by itself {ends} times"));
    // before its disk
    let notes = std::mem::take(&mut scene.notes);
    drop(scene);
    Ok(notes)
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

/// Some servers end when they cannot write; whoever looks after them starts them again.
async fn revive(scene: &mut Scene, crew: &mut Crew) -> Result<u32> {
    crew.work(Duration::from_millis(500)).await?;
    let Some(server) = &mut scene.server else { return Ok(0) };
    if server.is_running() {
        return Ok(0);
    }
    tokio::task::block_in_place(|| server.start_again())?;
    if !server.is_running() {
        bail!("the server ended again:\n{}", server.log());
    }
    Ok(1)
}
