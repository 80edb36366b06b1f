//! Connections to etcd's members, and requests by HTTP.
//!
//! A connection carries one request at a time and is used again afterwards. Of each request that fails it is known
//! whether any of it may have been sent.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::body::{Body, Incoming};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;

use super::address::EtcdAddress;
use crate::remote::Stream;

/// The longest answer, and the longest message of a watch.
const ANSWER_MAX: usize = 64 << 20;

/// Most connections without a request that are kept.
const IDLE_MAX: usize = 8;

/// The longest time to connect: a member that is gone must not take the time of the others.
const CONNECT_MAX: Duration = Duration::from_secs(1);

/// A request that has no answer.
pub(super) enum Lost {
    /// Nothing of it was sent.
    Unsent(String),
    /// It may have taken effect, or may yet.
    Sent(String),
}

/// The members.
pub(super) struct Members {
    addresses: Vec<(String, u16)>,
    tls: Option<Arc<ClientConfig>>,
    idle: Mutex<Vec<(usize, SendRequest<String>)>>,
}

/// A request for a path of a member's API.
#[derive(Clone)]
pub(super) struct Post<'a> {
    pub(super) path: &'a str,
    pub(super) token: Option<String>,
    pub(super) body: &'a Value,
}

impl Members {
    pub(super) fn new(address: EtcdAddress, tls: Option<Arc<ClientConfig>>) -> Self {
        Members { addresses: address.members, tls, idle: Mutex::default() }
    }

    pub(super) fn count(&self) -> usize {
        self.addresses.len()
    }

    /// The address of a member, for messages and for its HTTP.
    pub(super) fn name(&self, member: usize) -> String {
        let (host, port) = &self.addresses[member];
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }

    /// The status and the whole answer.
    pub(super) async fn ask(
        &self,
        member: usize,
        post: Post<'_>,
        limit: Duration,
    ) -> Result<(u16, Value), Lost> {
        let end = Instant::now() + limit;
        let (response, connection) = self.send(member, post, limit).await?;
        let status = response.status().as_u16();
        let mut lines = Lines::new(response.into_body());
        let left = end.saturating_duration_since(Instant::now());
        let body = timeout(left, lines.whole()).await.unwrap_or_else(|_| Err(late(limit)));
        let body = body.map_err(Lost::Sent)?;
        self.keep(member, connection);
        match serde_json::from_slice(&body) {
            Ok(answer) => Ok((status, answer)),
            Err(_) => {
                Err(Lost::Sent(format!("it answered HTTP {status} and no JSON: is it etcd?")))
            }
        }
    }

    /// The beginning of an answer, and the connection, which must be kept until its end.
    pub(super) async fn send(
        &self,
        member: usize,
        post: Post<'_>,
        limit: Duration,
    ) -> Result<(Response<Incoming>, SendRequest<String>), Lost> {
        let end = Instant::now() + limit;
        let mut request = self.request(member, &post).map_err(Lost::Unsent)?;
        while let Some(mut connection) = self.idle(member) {
            match self.on(&mut connection, request, limit).await {
                Ok(response) => return Ok((response, connection)),
                // The member had closed the connection.
                Err((_, Some(unsent))) => request = unsent,
                Err((why, None)) => return Err(Lost::Sent(why)),
            }
        }
        let opened = timeout(limit.min(CONNECT_MAX), self.open(member)).await;
        let opened = opened.unwrap_or_else(|_| Err("connecting takes too long".to_owned()));
        let mut connection = opened.map_err(Lost::Unsent)?;
        let left = end.saturating_duration_since(Instant::now());
        match self.on(&mut connection, request, left).await {
            Ok(response) => Ok((response, connection)),
            Err((why, Some(_))) => Err(Lost::Unsent(why)),
            Err((why, None)) => Err(Lost::Sent(why)),
        }
    }

    /// Sends a request on a connection. After a failure it comes back if nothing of it was sent.
    async fn on(
        &self,
        connection: &mut SendRequest<String>,
        request: Request<String>,
        limit: Duration,
    ) -> Result<Response<Incoming>, (String, Option<Request<String>>)> {
        match timeout(limit, connection.try_send_request(request)).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(mut error)) => {
                let unsent = error.take_message();
                Err((error.into_error().to_string(), unsent))
            }
            Err(_) => Err((late(limit), None)),
        }
    }

    fn request(&self, member: usize, post: &Post<'_>) -> Result<Request<String>, String> {
        let mut request = Request::post(format!("/v3/{}", post.path))
            .header(HOST, self.name(member))
            .header(CONTENT_TYPE, "application/json");
        if let Some(token) = &post.token {
            request = request.header(AUTHORIZATION, token);
        }
        request.body(post.body.to_string()).map_err(|error| error.to_string())
    }

    async fn open(&self, member: usize) -> Result<SendRequest<String>, String> {
        let (host, port) = &self.addresses[member];
        let told = |error: std::io::Error| error.to_string();
        let stream = TcpStream::connect((host.as_str(), *port)).await.map_err(told)?;
        stream.set_nodelay(true).map_err(told)?;
        let stream: Box<dyn Stream> = match &self.tls {
            None => Box::new(stream),
            Some(tls) => {
                let name = ServerName::try_from(host.clone()).map_err(|error| error.to_string())?;
                let connecting = TlsConnector::from(tls.clone()).connect(name, stream);
                Box::new(connecting.await.map_err(|error| format!("TLS: {error}"))?)
            }
        };
        let (connection, driver) =
            handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
        // It ends with the connection; what went wrong is told by the request.
        tokio::spawn(async move { drop(driver.await) });
        Ok(connection)
    }

    fn idle(&self, member: usize) -> Option<SendRequest<String>> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|(_, connection)| !connection.is_closed());
        let at = idle.iter().position(|(of, it)| *of == member && it.is_ready())?;
        Some(idle.swap_remove(at).1)
    }

    fn keep(&self, member: usize, connection: SendRequest<String>) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE_MAX {
            idle.push((member, connection));
        }
    }
}

/// The lines of an answer. A call that is dropped loses nothing.
pub(super) struct Lines {
    from: Incoming,
    buffer: Vec<u8>,
}

impl Lines {
    pub(super) fn new(from: Incoming) -> Self {
        Lines { from, buffer: Vec::new() }
    }

    /// The next line; an error at the end of the answer, too.
    pub(super) async fn next(&mut self) -> Result<Vec<u8>, String> {
        let mut seen = 0;
        loop {
            if let Some(len) = self.buffer[seen..].iter().position(|byte| *byte == b'\n') {
                let behind = self.buffer.split_off(seen + len + 1);
                return Ok(std::mem::replace(&mut self.buffer, behind));
            }
            seen = self.buffer.len();
            if !self.more().await? {
                return Err("the answer has ended".to_owned());
            }
        }
    }

    /// All of the answer.
    async fn whole(&mut self) -> Result<Vec<u8>, String> {
        while self.more().await? {}
        Ok(std::mem::take(&mut self.buffer))
    }

    /// Adds what comes next to the buffer. False at the end.
    async fn more(&mut self) -> Result<bool, String> {
        loop {
            let frame = poll_fn(|cx| Pin::new(&mut self.from).poll_frame(cx)).await;
            let Some(frame) = frame else { return Ok(false) };
            // Trailers have nothing that the body lacks.
            let Ok(data) = frame.map_err(|error| error.to_string())?.into_data() else { continue };
            if self.buffer.len() + data.len() > ANSWER_MAX {
                return Err(format!("an answer of more than {ANSWER_MAX} bytes"));
            }
            self.buffer.extend_from_slice(&data);
            return Ok(true);
        }
    }
}

fn late(limit: Duration) -> String {
    format!("no answer within {limit:?}")
}
