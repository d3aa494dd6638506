//! `web`: the dashboard on this machine.

use std::future::ready;
use std::net::SocketAddr;

use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse as _, Response};
use queue::admin::Admin;
use queue_web::{Colour, Dashboard, Rights, Viewer};
use serde_json::json;
use tokio::net::TcpListener;

use crate::args::By;
use crate::failure::Failure;
use crate::screen::Screen;

/// It has no login, so nobody else may reach it.
pub(crate) fn refuse(listen: SocketAddr) -> Result<(), Failure> {
    if listen.ip().is_loopback() {
        return Ok(());
    }
    let message = "this dashboard has no login, so it listens on this machine alone; for others, put `queue-web` behind \
                   the login of your application";
    Err(Failure::new(2, message).fix(format!("queue web --listen 127.0.0.1:{}", listen.port())))
}

pub(crate) async fn serve(
    admin: &Admin,
    screen: &Screen,
    listen: SocketAddr,
    name: Option<String>,
    operate: bool,
) -> Result<(), Failure> {
    // before anything can take long
    let signal = queue::shutdown_signal();
    let rights = if operate { Rights::ALL } else { Rights::LOOK };
    let name = By { reason: None, name }.name_or_account();
    let dashboard = Dashboard::new(admin.clone()).instance(short(&screen.database), Colour::Blue);
    let viewer = move |_: &axum::http::request::Parts| ready(Some(Viewer::new(name.clone()).may(rights)));
    let router = dashboard.viewer(viewer).layer(from_fn(only_from_here));
    let cannot = |error| Failure::new(1, format!("cannot listen at {listen}: {error}"));
    let listener = TcpListener::bind(listen).await.map_err(cannot)?;
    let url = format!("http://{}", listener.local_addr().map_err(cannot)?);
    if screen.json {
        screen.object(&json!({ "url": url }))?;
    } else {
        screen.out(&format!("{url}\n"))?;
        let may = if operate { "It may change things." } else { "It is read-only; --operate lets it change things." };
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

/// A page of another site may have a name that leads to this machine. The browser would take it for the same site.
async fn only_from_here(request: Request, next: Next) -> Response {
    if is_from_here(request.headers()) {
        return next.run(request).await;
    }
    (StatusCode::FORBIDDEN, "This dashboard answers at 127.0.0.1 and localhost alone.\n").into_response()
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
        let refused = |address: &str| refuse(address.parse().expect("an address")).map_err(|failure| failure.code);
        assert_eq!(["127.0.0.1:1", "[::1]:1", "127.8.8.8:1"].map(refused), [Ok(()); 3]);
        assert_eq!(["0.0.0.0:1", "192.0.2.7:1", "[::]:1"].map(refused), [Err(2); 3]);
    }
}
