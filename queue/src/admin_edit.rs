//! Edits of the arguments of one job: a few fields, or the type's own value.

use tokio::time::{Instant, sleep};

use crate::admin::{Admin, JobDetail};
use crate::carry_out::{AGAIN, PATIENCE, TRIES};
use crate::edit::{changed_fields, check, located};
use crate::error::Error;
use crate::fields::merge;
use crate::job::{Job, encode};
use crate::operations::{Action, CURE};
use crate::state::{JobId, JobState};
use crate::store::operations::NewArgs;

impl Admin {
    /// Changes some arguments of a waiting job or a dead letter. `patch` is a JSON object: each of its fields replaces
    /// that field of the job as a whole, or is added at the end. All other arguments keep their text and their order.
    /// Returns the arguments as they are now, with secrets hidden as in [`job`](Self::job). A secret that the patch does
    /// not name keeps its value.
    ///
    /// Nobody's change is lost: if the arguments are changed meanwhile, it reads them again. A unique job keeps its
    /// key, whatever its arguments are. If this program has the job's type, arguments that it cannot read are refused.
    ///
    /// # Errors
    /// As for [`edit_args`](Self::edit_args), and [`Error::Config`] if the patch or the job's arguments are no object.
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pool = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/doctest.rs")).await;
    /// use queue::admin::Admin;
    /// use queue::{Job, job};
    ///
    /// #[job]
    /// async fn invite(guest: String, seats: u128) {
    ///     println!("{seats} seats for {guest}");
    /// }
    ///
    /// let id = Invite::new("ada(at)example.org", u128::MAX).enqueue(&pool).await?;
    /// let args = Admin::new(&pool).merge_args(id, r#"{"guest": "ada@example.org"}"#).await?;
    /// assert_eq!(args, r#"{"guest":"ada@example.org","seats":340282366920938463463374607431768211455}"#);
    /// # Ok(()) }
    /// ```
    pub async fn merge_args(&self, id: JobId, patch: &str) -> Result<String, Error> {
        let merged = |job: &JobDetail| {
            merge(&job.args, patch).map_err(|why| Error::config(format!("cannot edit job {id}: {why}")))
        };
        let kind = self.store.job(id).await?.ok_or(Error::NotFound(id))?.job.kind;
        self.refuse_marks(&kind, patch).await?;
        let args = self.change_args(id, merged).await?;
        self.shown_args(&kind, args).await
    }

    /// Changes the arguments of a waiting job or a dead letter as a value of its type. They are read as a worker would
    /// read them, and written as an enqueue would write them. Fields that the type does not have are lost:
    /// [`merge_args`](Self::merge_args) keeps them.
    ///
    /// Nobody's change is lost: if the arguments are changed meanwhile, they are read again, and `change` is called
    /// again. A unique job keeps its key, whatever its arguments are.
    ///
    /// # Errors
    /// As for [`edit_args`](Self::edit_args), and [`Error::Config`] for a job of another kind.
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pool = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/doctest.rs")).await;
    /// use queue::admin::Admin;
    /// use queue::{Job, job};
    ///
    /// #[job]
    /// async fn remind(user: i64, days: u32) {
    ///     println!("{user} has {days} days left");
    /// }
    ///
    /// let id = Remind::new(7, 3u32).enqueue(&pool).await?;
    /// Admin::new(&pool).edit(id, |job: &mut Remind| job.days += 1).await?;
    /// # let job = Admin::new(&pool).job(id).await?.expect("it waits");
    /// # assert_eq!(job.args, r#"{"user":7,"days":4}"#);
    /// # Ok(()) }
    /// ```
    pub async fn edit<J: Job>(&self, id: JobId, mut change: impl FnMut(&mut J) + Send) -> Result<(), Error> {
        let changed = |detail: &JobDetail| {
            let kind = detail.job.kind.as_str();
            if kind != J::KIND && !J::ALIASES.contains(&kind) {
                let (is, wanted) = (kind.escape_debug(), J::KIND);
                return Err(Error::config(format!("cannot edit job {id} as `{wanted}`: it is a job of kind `{is}`")));
            }
            let mut job: J = serde_json::from_str(&detail.args).map_err(|error| {
                let why = located(J::SECRETS, &detail.args, &error);
                let cure = "correct them with `merge_args` or `edit_args`";
                Error::config(format!("the arguments of job {id} do not fit `{}`: {why}; {cure}", J::KIND))
            })?;
            change(&mut job);
            encode(&job)
                .map_err(|error| Error::config(format!("the new arguments of job {id} do not serialize: {error}")))
        };
        self.change_args(id, changed).await.map(drop)
    }

    /// Writes what becomes of the arguments, if they are still those that it became of.
    async fn change_args(
        &self,
        id: JobId,
        mut change: impl FnMut(&JobDetail) -> Result<String, Error> + Send,
    ) -> Result<String, Error> {
        let (patience, mut tries) = (Instant::now() + PATIENCE, 0);
        loop {
            let detail = self.store.job(id).await?.ok_or(Error::NotFound(id))?;
            let state = detail.job.state;
            if !matches!(state, JobState::Scheduled | JobState::Ready | JobState::Dead) {
                return Err(Error::Conflict { id, operation: "edit", state, cure: CURE });
            }
            let args = change(&detail)?;
            check(&detail, &args)?;
            if args == detail.args {
                return Ok(args);
            }
            let fields = changed_fields(&detail.args, &args);
            let new = NewArgs { args: args.clone(), was: Some(detail.args) };
            if self.change(id, &Action::Edit(fields), Some(new)).await?.0.contains(&id.get()) {
                return Ok(args);
            }
            tries += 1;
            // it is locked, or changed just then
            if tries >= TRIES && Instant::now() >= patience {
                return Err(Error::Locked { operation: "edit", jobs: vec![id], changed: 0 });
            }
            sleep(AGAIN).await;
        }
    }
}
