//! Dials a primary.

use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

use hotring_commands::settings::config::{Config, Source};
use hotring_commands::state::tls;

use super::LinkError;

/// Limit of the time to connect.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// Silence after which the system probes the peer, so that a link whose other end is gone ends.
const KEEPALIVE: Duration = Duration::from_secs(15);

/// A connection to a primary.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// Connects, by TLS if the settings say so.
pub(crate) async fn dial(config: &Config, source: &Source) -> Result<Box<dyn Stream>, LinkError> {
    let limited = tokio::time::timeout(CONNECT_MAX, connect(config, source));
    limited.await.unwrap_or_else(|_| Err(LinkError::Peer("connecting takes too long".to_string())))
}

async fn connect(config: &Config, source: &Source) -> Result<Box<dyn Stream>, LinkError> {
    let stream = TcpStream::connect((source.host.as_str(), source.port)).await?;
    stream.set_nodelay(true)?;
    SockRef::from(&stream).set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE))?;
    if !config.replication.tls {
        return Ok(Box::new(stream));
    }
    let failed = |why: &dyn std::fmt::Display| LinkError::Peer(format!("TLS: {why}"));
    let client = tls::client(&config.tls).map_err(|why| failed(&why))?;
    let name = ServerName::try_from(source.host.clone()).map_err(|why| failed(&why))?;
    let stream = TlsConnector::from(client).connect(name, stream).await?;
    Ok(Box::new(stream))
}
