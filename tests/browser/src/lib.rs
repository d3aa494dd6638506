//! The dashboard as people use it: in Chromium, with a made-up world behind it.
//!
//! [`Browser`] starts Debian's `chromium`, and speaks the Chrome DevTools Protocol with it over a pair of pipes: this
//! needs no driver, no port and no web socket. A [`Page`] is a tab with its own cookies and its own cache. It records
//! what went wrong in it, and [`check`] tells what is wrong with what it shows. A [`Site`] is the dashboard on a server
//! of its own; [`world`] fills its database.

pub mod check;
pub mod world;

mod chromium;
mod page;
mod screens;
mod site;

pub use chromium::{Browser, is_there};
pub use page::{Look, Page};
pub use screens::{Screen, hostile_screens, screens};
pub use site::{Asked, Site, serve};
