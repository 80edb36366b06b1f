//! Which connections to the admin address are cut off, and which never.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread::JoinHandle;

use tokio::sync::oneshot;

use super::*;
use crate::net::listen::bind_admin;
use hotring_commands::settings::config::Config;

/// Longer than any test.
const LONG: Duration = Duration::from_secs(3600);

/// No connection is cut off.
const NONE: Bounds = Bounds { connections: 64, min_age: LONG, head: LONG, total: LONG };

fn listener() -> (TcpListener, SocketAddr) {
    let config = Config { admin: Some("127.0.0.1:0".to_string()), ..Config::default() };
    let listener = bind_admin(&config).unwrap().unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// A thread that answers every request with "ok", until it is dropped.
struct Served {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Served {
    fn begin(listener: TcpListener, bounds: Bounds) -> Self {
        let (stop, stopped) = oneshot::channel();
        let serve = move || {
            threads::event_loop().unwrap().block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                let router =
                    Router::new().route("/", get(|| async { plain(StatusCode::OK, "ok\n") }));
                tokio::task::spawn_local(accept(router, listener, bounds));
                let _ = stopped.await;
            });
        };
        Served { stop: Some(stop), thread: Some(std::thread::spawn(serve)) }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        drop(self.stop.take());
        self.thread.take().expect("it is dropped once").join().unwrap();
    }
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    // A hang must fail the test.
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

fn ask(stream: &mut TcpStream) {
    stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
}

fn is_answered(stream: &mut TcpStream) -> bool {
    let mut text = Vec::new();
    match stream.read_to_end(&mut text) {
        Ok(_) => text.ends_with(b"ok\n"),
        Err(error) => {
            assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
            false
        }
    }
}

/// Regression test: earlier connections were cut off by later ones before their requests had been
/// read.
#[test]
fn requests_that_come_at_the_same_moment_are_all_answered() {
    let (listener, address) = listener();
    let mut clients: Vec<TcpStream> = (0..128).map(|_| connect(address)).collect();
    clients.iter_mut().for_each(ask);
    let _served = Served::begin(listener, Bounds { connections: 16, ..NONE });
    assert!(clients.iter_mut().all(is_answered));
}

#[test]
fn the_oldest_makes_room_once_it_has_had_its_time() {
    let (listener, address) = listener();
    let mut clients: Vec<TcpStream> = (0..3).map(|_| connect(address)).collect();
    let bounds = Bounds { connections: 2, min_age: Duration::ZERO, ..NONE };
    let _served = Served::begin(listener, bounds);
    assert!(!is_answered(&mut clients[0]));
    for client in &mut clients[1..] {
        ask(client);
        assert!(is_answered(client));
    }
}

#[test]
fn a_request_has_to_come_in_time() {
    let (listener, address) = listener();
    let mut silent = connect(address);
    let mut slow = connect(address);
    slow.write_all(b"GET / HTTP/1.1\r\n").unwrap();
    let _served = Served::begin(listener, Bounds { head: Duration::from_millis(1), ..NONE });
    assert!(!is_answered(&mut silent));
    assert!(!is_answered(&mut slow));
}
