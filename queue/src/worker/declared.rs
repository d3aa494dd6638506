//! The schedules that a program declares.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::error::Error;
use crate::limits::check_name;
use crate::registry::{JobDefinition, linked};
use crate::schedule::definition::Definition;
use crate::schedule::plan::KnownKind;
use crate::store::schedules::Kinds;

/// What an application declares and its workers know.
#[derive(Clone)]
pub(crate) struct Declared {
    pub(crate) app: Arc<str>,
    pub(crate) schedules: Arc<[Definition]>,
    pub(crate) kinds: Kinds,
}

impl Declared {
    /// What the jobs of this program declare: all that are linked or registered, whichever of them the worker serves. So a
    /// worker for some jobs does not retire the schedules of the others.
    pub(crate) fn of(
        app: Option<&str>,
        registered: &[JobDefinition],
        jobs: &HashMap<&'static str, Arc<JobDefinition>>,
    ) -> Result<Self, Error> {
        let app = match app {
            Some(app) => app.to_owned(),
            None => executable(),
        };
        check_name("application", &app).map_err(|why| Error::config(format!("`.app(…)`: {why}")))?;
        let mut schedules: Vec<Definition> = Vec::new();
        let mut seen = HashSet::new();
        for job in linked().iter().chain(registered).filter(|job| seen.insert(job.type_id)) {
            let found = (job.schedules)()
                .map_err(|error| Error::config(format!("the schedules of job `{}`: {error}", job.kind)))?;
            for schedule in found {
                if let Some(other) = schedules.iter().find(|other| other.name == schedule.name) {
                    return Err(Error::config(format!(
                        "two schedules are called `{}`, of the jobs `{}` and `{}`: give one of them another `name`",
                        schedule.name, other.kind, schedule.kind
                    )));
                }
                schedules.push(schedule);
            }
        }
        schedules.sort_by(|one, other| one.name.cmp(&other.name));
        let known = |job: &Arc<JobDefinition>| KnownKind {
            secrets: job.secrets,
            max_retries: job.max_retries,
            decodes: job.decodes,
        };
        let kinds = jobs.iter().map(|(kind, job)| ((*kind).to_owned(), known(job))).collect();
        Ok(Self { app: app.into(), schedules: schedules.into(), kinds: Arc::new(kinds) })
    }
}

/// The name of this program's file, without what cargo appends to that of a test.
fn executable() -> String {
    let name = std::env::current_exe().ok().and_then(|file| Some(file.file_stem()?.to_str()?.to_owned()));
    let mut name = name.unwrap_or_else(|| "app".to_owned());
    // Linux says so of a file that was replaced while it runs
    if let Some(stem) = name.strip_suffix(" (deleted)") {
        name = stem.to_owned();
    }
    if let Some((stem, hash)) = name.rsplit_once('-')
        && hash.len() == 16
        && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
    {
        name = stem.to_owned();
    }
    name
}
