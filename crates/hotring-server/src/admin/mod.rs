//! The admin listener: metrics, health checks and a status page over HTTP.
//!
//! It runs on its own address and thread, and only reads. No client request may wait for it. It
//! keeps answering while clients are served, refused or closed, and is the last thread to end.

mod metrics;
mod page;

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, HeaderName};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::tasks::watchdog;
use hotring_commands::host::clock;
use hotring_commands::host::threads;
use hotring_commands::state::cluster_facts::ClusterFacts;
use hotring_commands::state::facts::Facts;
use hotring_commands::state::loading::Stage;
use hotring_commands::state::server::Server;
use metrics::{CommandFigures, Figures};

pub use metrics::markdown;

/// The name of the thread and of its session.
pub(crate) const THREAD: &str = "hotring-admin";

/// Limits of the admin connections.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    /// Maximum number of open connections. Each serves one request.
    connections: usize,
    /// Minimum age at which a connection may be aborted to make way for a new one: far longer
    /// than a request and its reply take.
    min_age: Duration,
    /// Time limit for the head of the request.
    head: Duration,
    /// Time limit for the entire connection, so that a client that neither sends nor reads cannot
    /// keep it open.
    total: Duration,
}

const BOUNDS: Bounds = Bounds {
    connections: 64,
    min_age: Duration::from_secs(1),
    head: Duration::from_secs(10),
    total: Duration::from_secs(60),
};

/// Longest request head.
const HEAD_MAX: usize = 16 << 10;

/// Delay after a failed accept, so that a repeated error does not become a busy loop.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Time between two checks whether all clients have gone.
const END_PAUSE: Duration = Duration::from_millis(10);

/// The state that handlers read.
#[derive(Clone)]
struct Admin {
    server: Arc<Server>,
}

/// Serves until the server has ended. Runs on its own OS thread.
pub(crate) fn run(server: &Arc<Server>, listener: TcpListener) -> io::Result<()> {
    threads::event_loop()?.block_on(async {
        let is_loopback = listener.local_addr()?.ip().is_loopback();
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let admin = Admin { server: server.clone() };
        tokio::task::spawn_local(accept(router(admin, is_loopback), listener, BOUNDS));
        server.process.stopping().await;
        // The I/O threads close the clients that do not end on their own.
        while server.clients.len() > 0 {
            tokio::time::sleep(END_PAUSE).await;
        }
        Ok(())
    })
}

async fn accept(router: Router, listener: tokio::net::TcpListener, bounds: Bounds) {
    let permits = Arc::new(Semaphore::new(bounds.connections));
    // Oldest first.
    let mut open: VecDeque<(Instant, AbortHandle)> = VecDeque::new();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                open.retain(|(_, connection)| !connection.is_finished());
                let permit = acquire_permit(&permits, open.front(), bounds.min_age).await;
                let connection = serve(stream, router.clone(), bounds);
                let connection = tokio::task::spawn_local(async move {
                    connection.await;
                    drop(permit);
                });
                open.push_back((Instant::now(), connection.abort_handle()));
            }
            Err(error) => {
                tracing::debug!(%error, "accept failed on the admin address");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Waits for a free connection slot. If none becomes free, the oldest connection is aborted once it
/// is `min_age` old: its client neither sends nor reads, and must not keep others out. Requests
/// that arrive in a burst are never cut off.
async fn acquire_permit(
    permits: &Arc<Semaphore>,
    oldest: Option<&(Instant, AbortHandle)>,
    min_age: Duration,
) -> OwnedSemaphorePermit {
    let permit = || permits.clone().acquire_owned();
    let permit = match oldest {
        Some((since, oldest)) => match tokio::time::timeout_at(*since + min_age, permit()).await {
            Ok(permit) => permit,
            Err(_) => {
                oldest.abort();
                permit().await
            }
        },
        None => permit().await,
    };
    permit.expect("the semaphore is never closed")
}

async fn serve(stream: TcpStream, router: Router, bounds: Bounds) {
    let connection = http1::Builder::new()
        .keep_alive(false)
        .max_buf_size(HEAD_MAX)
        .timer(TokioTimer::new())
        .header_read_timeout(bounds.head)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    match tokio::time::timeout(bounds.total, connection).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "a connection to the admin address failed"),
        Err(_) => tracing::debug!("a connection to the admin address took too long"),
    }
}

fn router(admin: Admin, is_loopback: bool) -> Router {
    let router = Router::new()
        .route("/", get(status))
        .route("/metrics", get(metrics))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/readyz/hot", get(readyz_hot))
        .with_state(admin);
    if is_loopback { router.layer(middleware::from_fn(local_only)) } else { router }
}

/// Refuses requests for a foreign host name, against DNS rebinding: a page in a browser on this
/// machine can have its own name resolve to the loopback address. An honest client of a loopback
/// address uses an address or `localhost`.
async fn local_only(request: Request, next: Next) -> Response {
    if is_for_us(request.headers()) {
        return next.run(request).await;
    }
    plain(StatusCode::MISDIRECTED_REQUEST, "use an IP address or localhost as the host name\n")
}

fn is_for_us(headers: &HeaderMap) -> bool {
    // Every browser sends a Host header.
    let Some(host) = headers.get(HOST) else { return true };
    let host = host.to_str().ok().and_then(|host| host.parse::<Authority>().ok());
    host.is_some_and(|host| {
        let name = host.host().trim_start_matches('[').trim_end_matches(']');
        name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
    })
}

impl Admin {
    fn figures(&self) -> Figures<'_> {
        let of = |protocol| move |(name, totals)| CommandFigures { name, protocol, totals };
        let redis = self.server.command_totals_since_start().into_iter();
        let redis = redis.map(|(spec, totals)| (spec.name, totals)).map(of("redis"));
        let memcached = self.server.memcached_totals_since_start().into_iter().map(of("memcached"));
        Figures {
            facts: Facts::collect(&self.server, clock::unix_ms()),
            cluster: ClusterFacts::collect(&self.server),
            totals: self.server.totals_since_start(),
            commands: redis.chain(memcached).filter(|c| c.totals.is_used()).collect(),
        }
    }
}

async fn metrics(State(admin): State<Admin>) -> Response {
    typed(metrics::CONTENT_TYPE, metrics::page(&admin.figures()))
}

async fn status(State(admin): State<Admin>) -> Response {
    let largest = admin.server.observe.big_keys.largest();
    let mut response = typed("text/html; charset=utf-8", page::page(&admin.figures(), &largest));
    let policy = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'";
    response.headers_mut().insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    response
}

/// Says whether the process is alive and able to work.
async fn healthz(State(admin): State<Admin>) -> Response {
    let error = admin.server.persist.durability.log().and_then(|log| log.error());
    let error = error.map(|error| format!("the log cannot be written: {error}"));
    match error.or_else(|| watchdog::stuck(&admin.server)) {
        Some(why) => plain(StatusCode::SERVICE_UNAVAILABLE, &format!("{why}\n")),
        None => plain(StatusCode::OK, "ok\n"),
    }
}

/// Says whether the server is ready for clients.
async fn readyz(State(admin): State<Admin>) -> Response {
    ready(&admin, Stage::All)
}

/// Says whether the server is ready for clients that need only the hottest keys at first.
async fn readyz_hot(State(admin): State<Admin>) -> Response {
    ready(&admin, Stage::Hot)
}

/// Ready once loading has reached the stage `enough`, while writes are accepted and the server is not
/// shutting down.
fn ready(admin: &Admin, enough: Stage) -> Response {
    let stage = admin.server.persist.loading.stage();
    let refusal = admin.server.persist.durability.refuses(&admin.server.settings.config().log);
    let (is_ready, text) = match stage {
        _ if admin.server.process.is_stopping() || admin.server.process.is_retiring() => {
            (false, "shutting down\n")
        }
        _ if refusal.is_some() => (false, "writes are refused; /healthz has the reason\n"),
        Stage::Nothing => (false, "loading\n"),
        Stage::Hot => (stage >= enough, "hot-ready\n"),
        Stage::All => (true, "ready\n"),
    };
    plain(if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, text)
}

fn plain(status: StatusCode, text: &str) -> Response {
    (status, typed("text/plain; charset=utf-8", text.to_string())).into_response()
}

fn typed(content_type: &'static str, body: String) -> Response {
    let headers: [(HeaderName, &str); 2] =
        [(CONTENT_TYPE, content_type), (CACHE_CONTROL, "no-store")];
    (headers, body).into_response()
}

#[cfg(test)]
mod tests;
