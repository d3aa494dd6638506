//! The jobs of one batch that want the same key, in their order. The later ones meet the first.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::store::values::{NewJob, Unwritten};
use crate::unique::{Enqueued, OnConflict, UniqueJob};

/// The jobs of a batch with one key.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Group {
    /// Their places in the batch.
    jobs: Vec<usize>,
    /// The last one that replaces what was there before it, else the first: what is written if the key is free.
    content: usize,
}

/// The unique jobs of a batch by key, in the order of the first ones.
pub(super) fn grouped(jobs: &[NewJob]) -> Result<Vec<Group>, Unwritten> {
    let mut groups: Vec<Group> = Vec::new();
    let mut by_key: HashMap<(&str, &str), usize> = HashMap::new();
    for (index, job) in jobs.iter().enumerate() {
        let Some(unique) = &job.unique else { continue };
        match by_key.get(&(&*job.kind, unique.key.as_str())) {
            None => {
                by_key.insert((&job.kind, &unique.key), groups.len());
                groups.push(Group { jobs: vec![index], content: index });
            }
            Some(_) if unique.on_conflict == OnConflict::Reject => {
                return Err(Unwritten::Duplicate { key: unique.key.clone(), existing: None });
            }
            Some(group) => {
                let group = &mut groups[*group];
                group.jobs.push(index);
                if unique.on_conflict == OnConflict::Replace {
                    group.content = index;
                }
            }
        }
    }
    Ok(groups)
}

impl Group {
    pub(super) fn first(&self) -> usize {
        self.jobs[0]
    }

    /// The job that is written if the key is free: the first one, with what the last replacement gives it. It has the
    /// key as long as the first one wants.
    pub(super) fn wanted<'a>(&self, jobs: &'a [NewJob]) -> Cow<'a, NewJob> {
        let content = &jobs[self.content];
        let (first, last) = (jobs[self.first()].rule(), content.rule());
        if (first.until, first.at_least) == (last.until, last.at_least) {
            return Cow::Borrowed(content);
        }
        let unique = UniqueJob { until: first.until, at_least: first.at_least, ..last.clone() };
        Cow::Owned(NewJob { unique: Some(Box::new(unique)), ..content.clone() })
    }

    /// Whether any of them may replace the job that has the key.
    pub(super) fn replaces(&self, jobs: &[NewJob]) -> bool {
        self.jobs.iter().any(|index| jobs[*index].rule().on_conflict == OnConflict::Replace)
    }

    /// The key was free, and this is the new job.
    pub(super) fn is_new(&self, jobs: &[NewJob], id: i64, placed: &mut [Option<Enqueued>]) {
        for &index in &self.jobs {
            placed[index] = Some(match jobs[index].rule().on_conflict {
                _ if index == self.first() => Enqueued::New(id.into()),
                OnConflict::Replace => Enqueued::Replaced(id.into()),
                OnConflict::Keep | OnConflict::Reject => Enqueued::Kept(id.into()),
            });
        }
    }

    /// A job has the key. Returns the place of the one that replaces it, if one does.
    pub(super) fn meets(
        &self,
        jobs: &[NewJob],
        holder: i64,
        waits: bool,
        placed: &mut [Option<Enqueued>],
    ) -> Result<Option<usize>, Unwritten> {
        let mut replaced = None;
        for &index in &self.jobs {
            let unique = jobs[index].rule();
            placed[index] = Some(match unique.on_conflict {
                OnConflict::Reject => {
                    return Err(Unwritten::Duplicate { key: unique.key.clone(), existing: Some(holder) });
                }
                OnConflict::Replace if waits => {
                    replaced = Some(index);
                    Enqueued::Replaced(holder.into())
                }
                OnConflict::Replace | OnConflict::Keep => Enqueued::Kept(holder.into()),
            });
        }
        Ok(replaced)
    }

    /// It was over after all.
    pub(super) fn forget(&self, placed: &mut [Option<Enqueued>]) {
        self.jobs.iter().for_each(|index| placed[*index] = None);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::unique::UniqueUntil;

    fn job(key: &str, on_conflict: OnConflict) -> NewJob {
        let until = UniqueUntil::Start;
        let unique = UniqueJob { key: key.into(), until, at_least: None, on_conflict, at_most: None };
        NewJob { unique: Some(Box::new(unique)), ..NewJob::example("a") }
    }

    #[test]
    fn later_jobs_of_a_batch_meet_the_first() {
        use Enqueued::{Kept, New, Replaced};
        use OnConflict::{Keep, Reject, Replace};
        let other = NewJob { kind: Cow::Borrowed("b"), ..job("k", Reject) };
        let plain = NewJob::example("a");
        let jobs = [job("k", Keep), plain, job("l", Reject), job("k", Replace), job("k", Keep), other];
        let groups = grouped(&jobs).unwrap();
        assert_eq!(groups.iter().map(Group::first).collect::<Vec<_>>(), [0, 2, 5]);
        let first = &groups[0];
        assert_eq!((first.content, first.replaces(&jobs)), (3, true));

        let mut placed = vec![None; jobs.len()];
        first.is_new(&jobs, 7, &mut placed);
        let (new, kept, replaced) = (New(7.into()), Kept(7.into()), Replaced(7.into()));
        assert_eq!(placed, [Some(new), None, None, Some(replaced), Some(kept), None]);

        assert_eq!(first.meets(&jobs, 7, true, &mut placed).unwrap(), Some(3));
        assert_eq!(placed, [Some(kept), None, None, Some(replaced), Some(kept), None]);
        assert_eq!(first.meets(&jobs, 7, false, &mut placed).unwrap(), None, "it runs");
        assert_eq!(placed[3], Some(kept));
        first.forget(&mut placed);
        assert_eq!(placed, [None; 6]);

        let refused = groups[1].meets(&jobs, 9, true, &mut placed);
        assert!(matches!(refused, Err(Unwritten::Duplicate { key, existing: Some(9) }) if key == "l"));
        let twice = grouped(&[job("k", Keep), job("k", Reject)]);
        assert!(matches!(twice, Err(Unwritten::Duplicate { key, existing: None }) if key == "k"));
    }

    /// As if it had been enqueued before the others.
    #[test]
    fn the_first_of_a_batch_says_how_long_the_key_is_held() {
        let mut first = job("k", OnConflict::Keep);
        let rule = first.unique.as_mut().unwrap();
        (rule.until, rule.at_least) = (UniqueUntil::End, Some(Duration::from_secs(60)));
        let last = NewJob { args: "7".into(), ..job("k", OnConflict::Replace) };
        let jobs = [first, last];
        let wanted = grouped(&jobs).unwrap()[0].wanted(&jobs).into_owned();
        assert_eq!(wanted.args, "7");
        assert_eq!((wanted.rule().until, wanted.rule().at_least), (UniqueUntil::End, Some(Duration::from_secs(60))));
        assert_eq!(wanted.rule().on_conflict, OnConflict::Replace);
    }
}
