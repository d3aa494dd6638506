//! Ports of the loopback interface.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use anyhow::{Context as _, Result};

/// Below the ports that the kernel gives to clients: a server that is down for a while finds its own free again.
const PORTS: std::ops::Range<u16> = 12_000..32_000;

/// A port that nobody listens on.
pub(crate) fn free() -> Result<u16> {
    let free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    std::iter::repeat_with(|| fastrand::u16(PORTS)).take(100).find(free).context("100 ports tried, none was free")
}

/// Whether somebody accepts connections there.
pub(crate) fn accepts(port: u16) -> bool {
    TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)), Duration::from_secs(1)).is_ok()
}
