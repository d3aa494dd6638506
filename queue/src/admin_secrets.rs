//! What the administration shows of secret arguments: nothing, unless it is asked to.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::admin::{Admin, Filter, JobDetail};
use crate::error::Error;
use crate::operations::Action;
use crate::registry::linked;
use crate::secrets::{MARK, Secrets, Values, marked, mask};

/// How long the declarations of workers stay in memory.
const KNOWN_FOR: Duration = Duration::from_secs(1);

impl Admin {
    /// The same administration, but it shows the values of secret arguments. A program that copies jobs to another
    /// database needs it.
    ///
    /// Without this, each secret argument is shown as [`MARK`]. A worker tells the database which arguments are secret,
    /// so a program without the jobs' types hides them too. If neither this program nor a worker of the last days has
    /// declared a kind, all its arguments are hidden.
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pool = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/doctest.rs")).await;
    /// use queue::admin::Admin;
    /// use queue::{Job, job};
    ///
    /// #[job]
    /// async fn charge(#[secret] card: String, order: i64) {
    ///     println!("{order}, with a card of {} digits", card.len());
    /// }
    ///
    /// let (admin, id) = (Admin::new(&pool), Charge::new("4111", 7).enqueue(&pool).await?);
    /// let job = admin.job(id).await?.expect("it waits");
    /// assert_eq!(job.args, r#"{"card":"••••","order":7}"#);
    /// let job = admin.reveal_secrets().job(id).await?.expect("it waits");
    /// assert_eq!(job.args, r#"{"card":"4111","order":7}"#);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn reveal_secrets(&self) -> Self {
        let mut admin = self.clone();
        admin.reveals = true;
        admin
    }

    /// What this program and the workers declare.
    pub(crate) async fn secrets(&self) -> Result<Arc<Secrets>, Error> {
        let mut known = self.secrets.lock().await;
        if let Some((at, secrets)) = &*known
            && at.elapsed() < KNOWN_FOR
        {
            return Ok(secrets.clone());
        }
        let mut secrets = self.store.secrets().await?;
        for job in linked() {
            for kind in [&[job.kind], job.aliases].concat() {
                secrets.add(kind, job.secrets.iter().copied());
            }
        }
        let secrets = Arc::new(secrets);
        *known = Some((Instant::now(), secrets.clone()));
        Ok(secrets)
    }

    /// The job as it is shown.
    pub(crate) async fn shown(&self, mut detail: JobDetail) -> Result<JobDetail, Error> {
        if self.reveals {
            return Ok(detail);
        }
        detail.hidden = self.secrets().await?.of(&detail.job.kind);
        let values = Values::of(detail.hidden.as_deref().unwrap_or_default(), &detail.args);
        // written before the declaration, or by hand
        let texts = detail.attempts.iter_mut().map(|attempt| &mut attempt.error);
        for text in texts.chain([&mut detail.job.error, &mut detail.unique_key]) {
            *text = text.take().map(|text| values.redact(text));
        }
        detail.result = detail.result.map(|result| values.redact_json(result));
        detail.args = mask(&detail.args, detail.hidden.as_deref());
        Ok(detail)
    }

    /// The arguments of a kind as they are shown.
    pub(crate) async fn shown_args(&self, kind: &str, args: String) -> Result<String, Error> {
        if self.reveals {
            return Ok(args);
        }
        Ok(mask(&args, self.secrets().await?.of(kind).as_deref()))
    }

    /// Refuses new arguments of a kind that have the mark in the place of a secret.
    pub(crate) async fn refuse_marks(&self, kind: &str, args: &str) -> Result<(), Error> {
        match marked(args, self.secrets().await?.of(kind).as_deref()) {
            Some(name) => Err(Error::config(format!(
                "`{}` is secret, and `{MARK}` only stands for its value: leave it out, or give the value",
                name.escape_debug()
            ))),
            None => Ok(()),
        }
    }

    /// Refuses a search by a secret: it would tell whether a guess is right. Refuses an edit of a secret in many jobs:
    /// the record of the operation would keep the value.
    pub(crate) async fn refuse_secrets(&self, filter: &Filter, action: Option<&Action>) -> Result<(), Error> {
        let named = named(filter, action);
        if named.is_empty() {
            return Ok(());
        }
        let secrets = self.secrets().await?;
        for (name, why) in named {
            if let Some(kind) = secrets.kind_with(name, filter.kind.as_deref()) {
                let (name, kind) = (name.escape_debug(), kind.escape_debug());
                return Err(Error::config(format!("`{name}` is a secret argument of `{kind}`, and {why}")));
            }
        }
        Ok(())
    }
}

/// The arguments that are searched by or written, and why none of them may be secret.
fn named<'a>(filter: &'a Filter, action: Option<&'a Action>) -> Vec<(&'a str, &'static str)> {
    const SEARCHED: &str = "nothing can be searched by it";
    const WRITTEN: &str = "it is edited job by job, because the record of an operation keeps what it writes";
    let searched = filter.args.keys().map(|path| (path.split('.').next().unwrap_or_default(), SEARCHED));
    let fields = if let Some(Action::Edit(fields)) = action { Some(fields) } else { None };
    searched.chain(fields.into_iter().flatten().map(|(name, _)| (name.as_str(), WRITTEN))).collect()
}
