//! The shop's own login: whoever knows the password of the staff has a session. Yours will be another one; what the
//! dashboard needs of it is the [`Viewer`] that [`Staff::guard`] puts into each request.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::{Request, State};
use axum::http::header::{COOKIE, SET_COOKIE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{Html, IntoResponse, Redirect, Response};
use axum::routing::get;
use axum::{Form, Router};
use queue_web::{Rights, Viewer};

const PAGE: &str = "<!doctype html><title>Staff</title><form method=post>\
    <label>Name <input name=name required></label> \
    <label>Password <input name=password type=password required></label> <button>Log in</button></form>";

/// Who is logged in: names by the secret in their cookies. They are forgotten when the program ends.
#[derive(Clone)]
pub struct Staff {
    password: Arc<str>,
    sessions: Arc<Mutex<HashMap<String, String>>>,
}

impl Staff {
    /// With the password of `STAFF_PASSWORD`. Without one, it makes one up and prints it.
    pub fn from_env() -> Self {
        let password = std::env::var("STAFF_PASSWORD").unwrap_or_else(|_| {
            let password = secret();
            println!("the password of the staff is {password}");
            password
        });
        Self { password: password.into(), sessions: Arc::default() }
    }

    /// `GET /login` and `POST /login`.
    pub fn router(&self) -> Router {
        Router::new().route("/login", get(async || Html(PAGE)).post(log_in)).with_state(self.clone())
    }

    /// Lets only the staff in. Everybody else is led to the login.
    pub fn guard(&self, routes: Router) -> Router {
        routes.layer(from_fn_with_state(self.clone(), only_staff))
    }

    /// Who sent this, by the cookie.
    fn name(&self, headers: &HeaderMap) -> Option<String> {
        let cookies = headers.get_all(COOKIE).iter().filter_map(|cookies| cookies.to_str().ok());
        let session = cookies.flat_map(|cookies| cookies.split("; ")).find_map(|it| it.strip_prefix("staff="))?;
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner).get(session).cloned()
    }
}

async fn only_staff(State(staff): State<Staff>, mut request: Request, next: Next) -> Response {
    let Some(name) = staff.name(request.headers()) else { return Redirect::to("/login").into_response() };
    request.extensions_mut().insert(Viewer::new(name).may(Rights::ALL));
    next.run(request).await
}

/// Who looks at the dashboard.
pub async fn viewer(request: &Parts) -> Option<Viewer> {
    request.extensions.get().cloned()
}

#[derive(serde::Deserialize)]
struct Login {
    name: String,
    password: String,
}

async fn log_in(State(staff): State<Staff>, Form(login): Form<Login>) -> Response {
    if *login.password != *staff.password {
        return (StatusCode::FORBIDDEN, "That is not the password.\n").into_response();
    }
    let session = secret();
    staff.sessions.lock().unwrap_or_else(PoisonError::into_inner).insert(session.clone(), login.name);
    let cookie = format!("staff={session}; HttpOnly; SameSite=Strict; Path=/");
    ([(SET_COOKIE, cookie)], Redirect::to("/admin/jobs")).into_response()
}

/// 128 bits that nobody can guess.
fn secret() -> String {
    format!("{:032x}", rand::random::<u128>())
}
