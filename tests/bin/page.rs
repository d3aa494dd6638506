//! A worker's page of metrics, as a user's program would serve it: Prometheus asks, and the gauges are read.

use std::error::Error;
use std::net::SocketAddr;

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use queue::admin::Admin;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// Installs the exporter and serves its page at the address that it returns.
pub(crate) async fn serve(admin: Admin) -> Result<SocketAddr, Box<dyn Error>> {
    let exporter = PrometheusBuilder::new().set_buckets(queue_metrics::BUCKETS)?.install_recorder()?;
    queue_metrics::describe();
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        loop {
            let answered = async { answer(listener.accept().await?.0, &admin, &exporter).await };
            if let Err(error) = answered.await {
                eprintln!("a scrape failed: {error}");
            }
        }
    });
    Ok(address)
}

async fn answer(mut stream: TcpStream, admin: &Admin, exporter: &PrometheusHandle) -> Result<(), Box<dyn Error>> {
    let (reader, mut writer) = stream.split();
    let mut lines = BufReader::new(reader).lines();
    while lines.next_line().await?.is_some_and(|line| !line.is_empty()) {}
    queue_metrics::set_gauges(&admin.gauges().await?);
    exporter.run_upkeep();
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nConnection: close\r\n\r\n";
    writer.write_all([head, &exporter.render()].concat().as_bytes()).await?;
    Ok(writer.shutdown().await?)
}
