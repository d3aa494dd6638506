//! A server that is half a millisecond away: a proxy that holds back every byte, in both directions.
//!
//! Threads do it, and wait for the very moment: tokio's timers go by the millisecond, and half of one is what is
//! measured.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use crate::database::url;
use crate::figures::{merge, quantiles};

/// What the proxy adds to a round trip.
const ROUND_TRIP: Duration = Duration::from_micros(500);
/// A sleep may end so much late. The rest of a wait is spent awake.
const LATE: Duration = Duration::from_micros(80);
/// Round trips by which the proxy is set.
const TRIPS: usize = 400;

/// The same pick-ups near and far, in milliseconds each; the figures are those of the far ones, and by how many round
/// trips the medians differ.
pub(crate) async fn compared(pickups: impl AsyncFn(&str) -> Result<Vec<f64>>) -> Result<Value> {
    let (_, near) = url()?;
    let address = near.split("://").nth(1).and_then(|rest| rest.split('/').next()).context("an address")?;
    let address = address.rsplit('@').next().unwrap_or(address);
    let proxy = proxy(address.to_owned(), delay()?)?;
    let far = near.replacen(address, &proxy.to_string(), 1);
    let [near, far] = [quantiles(pickups(&near).await?), quantiles(pickups(&far).await?)];
    let p50 = |figures: &Value| figures["p50_ms"].as_f64().unwrap_or_default();
    let trips = (p50(&far) - p50(&near)) / (ROUND_TRIP.as_secs_f64() * 1e3);
    Ok(merge(far, json!({ "round_trips": trips })))
}

/// How long each byte is held back so that a round trip takes [`ROUND_TRIP`] longer: the proxy takes a little time
/// itself.
fn delay() -> Result<Duration> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let echo = listener.local_addr()?;
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || io::copy(&mut &stream, &mut &stream));
        }
    });
    let half = ROUND_TRIP / 2;
    let added = trip(proxy(echo.to_string(), half)?)?.saturating_sub(trip(echo)?);
    Ok(half.saturating_sub(added.saturating_sub(ROUND_TRIP) / 2))
}

/// The median round trip to an echo.
fn trip(to: SocketAddr) -> Result<Duration> {
    let mut stream = TcpStream::connect(to)?;
    stream.set_nodelay(true)?;
    let mut trips = Vec::with_capacity(TRIPS);
    for _ in 0..TRIPS {
        let start = Instant::now();
        stream.write_all(&[0; 64])?;
        stream.read_exact(&mut [0; 64])?;
        trips.push(start.elapsed());
    }
    trips.sort_unstable();
    Ok(trips[TRIPS / 2])
}

/// Listens in front of a server until the process ends.
fn proxy(server: String, delay: Duration) -> Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            // a client that is refused sees the end of the connection
            let _ = TcpStream::connect(&server).and_then(|server| {
                carry(&client, &server, delay)?;
                carry(&server, &client, delay)
            });
        }
    });
    Ok(address)
}

/// One direction. What comes while other bytes are held back is held back no longer than they.
fn carry(from: &TcpStream, to: &TcpStream, delay: Duration) -> io::Result<()> {
    let (mut from, mut to) = (from.try_clone()?, to.try_clone()?);
    to.set_nodelay(true)?;
    let (hold, held) = mpsc::channel::<(Instant, Vec<u8>)>();
    thread::spawn(move || {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            if hold.send((Instant::now() + delay, buffer[..count].to_vec())).is_err() {
                return;
            }
        }
    });
    thread::spawn(move || {
        for (due, bytes) in held {
            wait_until(due);
            if to.write_all(&bytes).is_err() {
                return;
            }
        }
        let _ = to.shutdown(Shutdown::Write);
    });
    Ok(())
}

fn wait_until(due: Instant) {
    let left = due.saturating_duration_since(Instant::now());
    thread::sleep(left.saturating_sub(LATE));
    while Instant::now() < due {
        std::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_arrives_in_order_and_late() {
        let delay = Duration::from_millis(20);
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let server = listener.local_addr().expect("an address").to_string();
        let mut client = TcpStream::connect(proxy(server, delay).expect("a proxy")).expect("connected");
        let (mut server, _) = listener.accept().expect("the proxy comes");
        let sent: Vec<u8> = (0..200_000_u32).map(|n| n as u8).collect();
        let begin = Instant::now();
        let parts = sent.clone();
        let writer = thread::spawn(move || {
            parts.chunks(997).for_each(|part| client.write_all(part).expect("written"));
            client.shutdown(Shutdown::Write).expect("ended");
            let mut answer = Vec::new();
            client.read_to_end(&mut answer).expect("an answer");
            answer
        });
        let mut received = vec![0; 1];
        server.read_exact(&mut received).expect("the first byte");
        assert!(begin.elapsed() >= delay);
        server.read_to_end(&mut received).expect("all others");
        assert!(received == sent, "{} bytes of {}", received.len(), sent.len());
        server.write_all(b"all").expect("answered");
        drop(server);
        assert_eq!(writer.join().expect("no panic"), b"all");
        assert!(begin.elapsed() >= 2 * delay);
    }
}
