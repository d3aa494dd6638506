//! The dashboard on a server of its own, which remembers what it was asked for.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::extract::Request;
use axum::http::header::{ETAG, IF_NONE_MATCH};
use axum::http::request::Parts;
use axum::middleware::{Next, from_fn};
use queue::admin::Admin;
use queue_tests::{Db, within};
use queue_web::{Colour, Dashboard, Rights, Viewer};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// A request, and how it was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// With its query.
    pub path: String,
    /// Whether it named what the browser has already.
    pub if_none_match: bool,
    /// The number of the answer.
    pub status: u16,
    /// Whether the answer has a tag.
    pub tagged: bool,
}

type Log = Arc<Mutex<Vec<Asked>>>;

/// Serves a router on this machine alone, on a port of its own.
pub async fn serve(router: Router) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    (address, tokio::spawn(async move { axum::serve(listener, router).await.expect("it serves") }))
}

/// The dashboard of a database. The server ends when this is dropped.
pub struct Site {
    /// `http://` and the address.
    pub origin: String,
    /// The same, through the library.
    pub admin: Admin,
    log: Log,
    number: watch::Receiver<usize>,
    task: JoinHandle<()>,
}

impl Drop for Site {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Site {
    /// Where Ada, who may do everything, looks.
    pub async fn of(db: &Db) -> Self {
        let (admin, log) = (db.admin(), Log::default());
        let (count, number) = watch::channel(0);
        let dashboard = Dashboard::new(admin.clone())
            .instance("production", Colour::Red)
            .link("Customer", |job| {
                let args: serde_json::Value = serde_json::from_str(&job.args).ok()?;
                Some(format!("https://shop.example.org/customers/{}", args["to"].as_str()?.split('@').next()?))
            })
            .trace_url("https://traces.example.org/{trace_id}")
            .viewer(|_: &Parts| async { Some(Viewer::new("ada").may(Rights::ALL)) });
        let (kept, count) = (log.clone(), Arc::new(count));
        let remember = move |request: Request, next: Next| {
            let (kept, count) = (kept.clone(), count.clone());
            let path = request.uri().path_and_query().map_or("", |it| it.as_str()).to_owned();
            let if_none_match = request.headers().contains_key(IF_NONE_MATCH);
            async move {
                let answer = next.run(request).await;
                let (status, tagged) = (answer.status().as_u16(), answer.headers().contains_key(ETAG));
                let asked = Asked { path, if_none_match, status, tagged };
                kept.lock().unwrap_or_else(PoisonError::into_inner).push(asked);
                count.send_modify(|number| *number += 1);
                answer
            }
        };
        let (address, task) = serve(dashboard.layer(from_fn(remember))).await;
        Self { origin: format!("http://{address}"), admin, log, number, task }
    }

    /// The address of a page.
    pub fn url(&self, path: &str) -> String {
        format!("{}/{path}", self.origin)
    }

    /// Everything that it was asked for until now.
    pub fn log(&self) -> Vec<Asked> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What it was asked for behind the first so many, as soon as there is something.
    pub async fn asked_after(&self, number: usize) -> Vec<Asked> {
        let mut now = self.number.clone();
        within("a request", now.wait_for(|now| *now > number)).await.expect("the server is there");
        self.log().split_off(number)
    }
}
