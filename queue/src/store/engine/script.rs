//! Scripts: the statements of one transaction, in one file; and the starts and ends of attempts, which are scripts for a
//! batch of jobs.

use futures_util::FutureExt;

use crate::error::Error;
use crate::store::engine::dialect::json;
use crate::store::engine::dialect::{Dialect, List, execute, ids};
use crate::store::engine::feature::{Edge, has_steps, run_steps};
use crate::store::engine::operation::{Mode, SqlStore, Via};
use crate::store::engine::ranges::Runs;
use crate::store::values::{Bury, Finish, Hold, Outcome, PutBack, Start, WorkerId};

/// The statements of one transaction. Each begins with a head, `-- step: WORD`, which says when it runs. A file without
/// heads is one statement. All statements get the same values, unless their word says otherwise. The rows that they
/// return are ids: the answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Script(&'static str);

/// When a step of a script runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    /// `all`: always, for all jobs of the batch.
    All,
    /// `recorded`: if the attempt of some job goes into `queue_attempts`.
    Recorded,
    /// `forgetting`: if some job has so many attempts that do not count that old ones are deleted now.
    Forgetting,
    /// `each`: always. It touches one row for each accepted job: if it touches all, their ids are the answer.
    Each,
    /// `refused`: if some jobs were not accepted. It reads which were.
    Refused,
    /// `runs`: if none was refused and the ids form few [`Runs`]. These are bound behind the other values.
    Runs,
    /// `scattered`: otherwise.
    Scattered,
    /// `find`: always. It returns the ids of the jobs for the next steps.
    Find,
    /// `found`: if the last `find` returned ids. Its value is a list of them.
    Found,
    /// `claims`: if a heartbeat reports claims.
    Claims,
}

impl Script {
    pub(crate) const HEAD: &'static str = "-- step: ";

    pub(crate) const fn new(text: &'static str) -> Self {
        Self(text)
    }

    /// The steps in order. A test reads every file, so no word is unknown here.
    pub(crate) fn steps(self) -> impl Iterator<Item = (When, &'static str)> {
        let heads = self.0.starts_with(Self::HEAD);
        let plain = (!heads).then_some((When::All, self.0));
        let rest = if heads { self.0 } else { "" };
        let parts = rest.split(Self::HEAD).skip(1).map(|part| {
            let (word, sql) = part.split_once('\n').unwrap_or((part, ""));
            (When::of(word).unwrap_or_else(|| panic!("unknown step `{word}`")), sql.trim_end())
        });
        plain.into_iter().chain(parts)
    }

    /// The first statement.
    #[cfg(test)]
    pub(crate) fn first(self) -> &'static str {
        self.steps().next().expect("a script has a statement").1
    }

    /// Whether it is a single statement.
    pub(crate) fn is_one(self) -> bool {
        self.steps().nth(1).is_none()
    }
}

impl When {
    pub(crate) fn of(word: &str) -> Option<Self> {
        Some(match word {
            "all" => Self::All,
            "recorded" => Self::Recorded,
            "forgetting" => Self::Forgetting,
            "each" => Self::Each,
            "refused" => Self::Refused,
            "runs" => Self::Runs,
            "scattered" => Self::Scattered,
            "find" => Self::Find,
            "found" => Self::Found,
            "claims" => Self::Claims,
            _ => return None,
        })
    }
}

/// The text of a file in an engine's folder of statements.
macro_rules! sql {
    ($engine:literal, $file:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/store/", $engine, "/sql/", $file, ".sql"))
    };
}
pub(crate) use sql;

/// A script in an engine's folder of statements.
macro_rules! script {
    ($engine:literal, $file:literal) => {
        $crate::store::engine::script::Script::new($crate::store::engine::script::sql!($engine, $file))
    };
}
pub(crate) use script;

/// A job may have any number of attempts that do not count. Its last 100 to 200 are kept: every hundredth one deletes
/// older ones.
const KEPT: i32 = 100;

impl<DB: Dialect> SqlStore<DB> {
    pub(crate) async fn ending<E: Ending>(
        &self,
        doing: &'static str,
        script: Script,
        worker: WorkerId,
        batch: &[E],
    ) -> Result<Vec<i64>, Error> {
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        let recorded = batch.iter().any(Ending::recorded);
        let forgetting = batch.iter().any(|ending| ending.forget().is_some());
        let writes = script.steps().filter(|(when, _)| match when {
            When::Recorded => recorded,
            When::Forgetting => forgetting,
            When::Refused => false,
            _ => true,
        });
        let has_steps = has_steps::<DB>(E::EDGE, batch.iter().map(|ending| ending.hold().features));
        let mode = if writes.count() == 1 && !has_steps { Mode::Alone } else { Mode::Transaction };
        let mut batch: Vec<_> = batch.iter().map(Ending::clean).collect();
        batch.sort_unstable_by_key(|ending| ending.hold().key()); // everybody locks in the same order
        let all: Vec<i64> = batch.iter().map(|ending| ending.hold().id).collect();
        let holds: Vec<Hold> = batch.iter().map(Ending::hold).filter(|_| has_steps).collect();
        let args = (worker, E::list::<DB>(&batch), all, holds);
        self.run(Via::Ends, mode, doing, args, move |conn, (worker, list, all, holds)| {
            async move {
                let binds = list.behind(*worker);
                let runs = Runs::of(all);
                let (mut accepted, mut refused) = (Vec::new(), false);
                for (when, sql) in script.steps() {
                    match when {
                        When::Recorded if !recorded => {}
                        When::Forgetting if !forgetting => {}
                        When::Refused if !refused => {}
                        When::Scattered if !refused && runs.is_some() => {}
                        When::Runs => match &runs {
                            Some(runs) if !refused => execute::<DB>(conn, sql, &runs.behind(&binds)).await.map(drop)?,
                            _ => {}
                        },
                        When::Each => match execute::<DB>(conn, sql, &binds).await? {
                            count if count == all.len() as u64 => accepted.extend(all),
                            _ => refused = true,
                        },
                        _ => accepted.extend(ids::<DB>(conn, sql, &binds).await?),
                    }
                }
                if has_steps {
                    let told: Vec<Hold> = holds.iter().filter(|hold| accepted.contains(&hold.id)).copied().collect();
                    run_steps::<DB>(conn, E::EDGE, &told).await?;
                }
                Ok(accepted)
            }
            .boxed()
        })
        .await
    }
}

/// The start or the end of one attempt, in a batch.
pub(crate) trait Ending: serde::Serialize + Clone + Sync {
    /// At which features may act.
    const EDGE: Edge;
    fn hold(&self) -> Hold;
    /// Whether the attempt goes into `queue_attempts`.
    fn recorded(&self) -> bool {
        false
    }
    fn error(&mut self) -> Option<&mut String> {
        None
    }
    /// The fence up to which to delete the job's attempts that do not count, if that is to be done now.
    fn forget(&self) -> Option<i32> {
        None
    }

    /// A batch, sorted by job and fence, as its statements read it.
    fn list<DB: Dialect>(batch: &[Self]) -> List
    where
        Self: Sized,
    {
        json(batch).into()
    }

    /// Replaces what some engine cannot store.
    fn clean(&self) -> Self {
        let mut clean = self.clone();
        if let Some(error) = clean.error()
            && let Some(text) = without_nul(error)
        {
            *error = text;
        }
        clean
    }
}

impl Ending for Start {
    const EDGE: Edge = Edge::Start;

    fn hold(&self) -> Hold {
        self.hold
    }
}

impl Ending for Finish {
    const EDGE: Edge = Edge::Finish;

    fn hold(&self) -> Hold {
        self.hold
    }
    fn recorded(&self) -> bool {
        self.state != Outcome::Completed
    }
    fn error(&mut self) -> Option<&mut String> {
        self.error.as_mut()
    }
    fn list<DB: Dialect>(batch: &[Self]) -> List {
        DB::finish_list(batch)
    }
}

impl Ending for PutBack {
    const EDGE: Edge = Edge::PutBack;

    fn hold(&self) -> Hold {
        self.hold
    }
    fn recorded(&self) -> bool {
        self.record
    }
    fn error(&mut self) -> Option<&mut String> {
        self.error.as_mut()
    }
    fn forget(&self) -> Option<i32> {
        (self.uncount > 0 && self.hold.fence % KEPT == 0).then_some(self.hold.fence - KEPT)
    }
    fn list<DB: Dialect>(batch: &[Self]) -> List {
        #[derive(serde::Serialize)]
        struct Item<'a> {
            #[serde(flatten)]
            end: &'a PutBack,
            forget: Option<i32>,
        }
        json(&batch.iter().map(|end| Item { end, forget: end.forget() }).collect::<Vec<_>>()).into()
    }
}

impl Ending for Bury {
    const EDGE: Edge = Edge::Bury;

    fn hold(&self) -> Hold {
        self.hold
    }
    fn recorded(&self) -> bool {
        true
    }
    fn error(&mut self) -> Option<&mut String> {
        Some(&mut self.error)
    }
}

fn without_nul(text: &str) -> Option<String> {
    text.contains('\0').then(|| text.replace('\0', "\u{fffd}"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_file_without_heads_is_one_statement() {
        let one = Script::new("-- why\nSELECT 1\n");
        assert!(one.is_one());
        assert_eq!(one.steps().collect::<Vec<_>>(), [(When::All, "-- why\nSELECT 1\n")]);
        let two = Script::new("-- step: find\n-- why\nSELECT 1\n\n-- step: found\nDELETE\nFROM a\n");
        assert!(!two.is_one());
        let steps: Vec<_> = two.steps().collect();
        assert_eq!(steps, [(When::Find, "-- why\nSELECT 1"), (When::Found, "DELETE\nFROM a")]);
    }

    fn files(folder: &Path, found: &mut Vec<std::path::PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                files(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "sql") {
                found.push(path);
            }
        }
    }

    #[test]
    fn every_step_of_every_file_is_known() {
        let mut all = Vec::new();
        files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/store"), &mut all);
        assert!(all.len() > 100);
        for path in all {
            let text = std::fs::read_to_string(&path).unwrap();
            assert!(
                !text.contains("-- step") || text.starts_with(Script::HEAD),
                "{}: what stands before the first step is not sent",
                path.display()
            );
            for part in text.split("-- step").skip(1) {
                let (word, sql) = part.split_once('\n').unwrap();
                let word = word.strip_prefix(": ").unwrap_or(word);
                assert!(When::of(word).is_some(), "{}: unknown step `{word}`", path.display());
                assert!(!sql.trim().is_empty(), "{}: the step `{word}` has no statement", path.display());
            }
        }
    }
}
