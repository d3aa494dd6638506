//! `web`: the dashboard, for this machine alone or for those who have a token.

mod tokens;

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use queue::admin::Admin;
use queue_web::{Colour, Dashboard, Rights, Viewer};
use serde_json::json;
use tokio::net::TcpListener;

use crate::args::By;
use crate::failure::Failure;
use crate::screen::Screen;

use tokens::Tokens;

/// Where the dashboard listens, and who may look.
#[derive(Debug)]
pub(crate) struct Door {
    listen: SocketAddr,
    who: Who,
    may: &'static str,
}

#[derive(Debug)]
enum Who {
    /// Whoever is on this machine.
    Here(Viewer),
    Known(Tokens),
}

impl Door {
    pub(crate) fn new(
        listen: SocketAddr,
        operate: bool,
        name: Option<String>,
        tokens: Option<&Path>,
    ) -> Result<Self, Failure> {
        let (who, may) = match tokens {
            Some(file) => {
                let text = fs::read_to_string(file).map_err(|error| error.to_string());
                let tokens = text.and_then(|text| Tokens::read(&text));
                let of = |why| Failure::new(2, format!("the tokens in {}: {why}", file.display()));
                (Who::Known(tokens.map_err(of)?), "Tokens are not encrypted on their way: put TLS in front of it.")
            }
            None if listen.ip().is_loopback() => {
                let viewer = Viewer::new(By { reason: None, name }.name_or_account());
                match operate {
                    true => (Who::Here(viewer.may(Rights::ALL)), "It may change things."),
                    false => (Who::Here(viewer), "It is read-only; --operate lets it change things."),
                }
            }
            None => {
                let message = "without --tokens anybody could use this dashboard, so it listens on this machine alone";
                return Err(Failure::new(2, message).fix(format!("queue web --listen 127.0.0.1:{}", listen.port())));
            }
        };
        Ok(Self { listen, who, may })
    }
}

/// Who sent a request, as the layer around the dashboard has found out.
async fn viewer(request: &Parts) -> Option<Viewer> {
    request.extensions.get().cloned()
}

pub(crate) async fn serve(admin: &Admin, screen: &Screen, Door { listen, who, may }: Door) -> Result<(), Failure> {
    // before anything can take long
    let signal = queue::shutdown_signal();
    let dashboard = Dashboard::new(admin.clone()).instance(short(&screen.database), Colour::Blue);
    let router = dashboard.viewer(viewer).layer(from_fn_with_state(Arc::new(who), let_in));
    let cannot = |error| Failure::new(1, format!("cannot listen at {listen}: {error}"));
    let listener = TcpListener::bind(listen).await.map_err(cannot)?;
    let url = format!("http://{}", listener.local_addr().map_err(cannot)?);
    if screen.json {
        screen.object(&json!({ "url": url }))?;
    } else {
        screen.out(&format!("{url}\n"))?;
        screen.say(&format!("The dashboard of {}, until Ctrl-C. {may}\n", screen.database));
    }
    axum::serve(listener, router)
        .with_graceful_shutdown(signal)
        .await
        .map_err(|error| Failure::new(1, error.to_string()))
}

/// The database and its host: "shop on db1". Of a file, its name.
fn short(address: &str) -> String {
    let (scheme, rest) = address.split_once("://").unwrap_or(("", address));
    let path = rest.split('?').next().unwrap_or(rest);
    let (host, name) = path.rsplit_once('/').unwrap_or(("", path));
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    if scheme.starts_with("sqlite") || host.is_empty() { name.to_owned() } else { format!("{name} on {host}") }
}

/// Lets those in who may look.
async fn let_in(State(who): State<Arc<Who>>, mut request: Request, next: Next) -> Response {
    let viewer = match &*who {
        // A page of another site may have a name that leads to this machine. A browser would take it for the same site.
        Who::Here(_) if !is_from_here(request.headers()) => {
            let why = "This dashboard answers at 127.0.0.1 and localhost alone.\n";
            return (StatusCode::FORBIDDEN, why).into_response();
        }
        Who::Here(viewer) => viewer.clone(),
        Who::Known(tokens) => match tokens.viewer(request.headers()) {
            Some(viewer) => viewer,
            None => {
                let ask = [(header::WWW_AUTHENTICATE, "Basic realm=\"queue\", charset=\"UTF-8\"")];
                return (StatusCode::UNAUTHORIZED, ask, "Your name, and your token as the password.\n").into_response();
            }
        },
    };
    request.extensions_mut().insert(viewer);
    next.run(request).await
}

fn is_from_here(headers: &HeaderMap) -> bool {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let name = host.rsplit_once(':').filter(|(_, port)| port.bytes().all(|it| it.is_ascii_digit()));
    matches!(name.map_or(host, |(name, _)| name), "127.0.0.1" | "localhost" | "[::1]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine_are_answered() {
        let is = |host: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, host.parse().expect("a header"));
            is_from_here(&headers)
        };
        for host in ["127.0.0.1:7878", "localhost:7878", "localhost", "[::1]:7878", "[::1]"] {
            assert!(is(host), "{host}");
        }
        for host in ["evil.example", "evil.example:7878", "localhost.evil.example:7878", "127.0.0.1.evil.example", ""] {
            assert!(!is(host), "{host}");
        }
        assert!(!is_from_here(&HeaderMap::new()));
    }

    #[test]
    fn an_instance_is_named_in_short() {
        assert_eq!(short("postgres://ada@db1/shop?sslmode=require"), "shop on db1");
        assert_eq!(short("mysql://db1:3307/shop"), "shop on db1:3307");
        assert_eq!(short("sqlite:///var/lib/shop.sqlite?mode=rwc"), "shop.sqlite");
        assert_eq!(short("sqlite://jobs.sqlite"), "jobs.sqlite");
    }

    #[test]
    fn an_address_that_others_reach_is_refused() {
        let refused = |address: &str| {
            let door = Door::new(address.parse().expect("an address"), false, None, None);
            door.map(drop).map_err(|failure| failure.code)
        };
        assert_eq!(["127.0.0.1:1", "[::1]:1", "127.8.8.8:1"].map(refused), [Ok(()); 3]);
        assert_eq!(["0.0.0.0:1", "192.0.2.7:1", "[::]:1"].map(refused), [Err(2); 3]);
    }
}
