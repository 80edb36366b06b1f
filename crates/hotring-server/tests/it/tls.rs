//! Tests of TLS: requests, client certificates, reloaded files, and input that is not TLS.
//!
//! The certificates are in `certificates/`, made by the script there.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hotring_server::{AuthClients, Config, Protocols, start};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{
    ClientConfig, ClientConnection, ProtocolVersion, RootCertStore, StreamOwned,
    SupportedProtocolVersion,
};

use crate::requests::Random;
use crate::wire::{TestServer, ok, request};

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/it/certificates").join(name)
}

fn certificate(name: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_file(file(&format!("{name}.pem"))).unwrap()
}

/// A server with a TLS port that does not ask clients for certificates.
fn server(change: impl FnOnce(&mut Config)) -> TestServer {
    TestServer::with(|c| {
        c.listen = vec!["127.0.0.1:0".to_string()];
        c.tls.listen = vec!["127.0.0.1:0".to_string()];
        c.tls.cert_file = Some(file("server.pem"));
        c.tls.key_file = Some(file("server.key"));
        c.tls.auth_clients = AuthClients::No;
        change(c);
    })
}

type Stream = StreamOwned<ClientConnection, TcpStream>;

/// A client's side of a TLS connection.
struct Client {
    versions: Vec<&'static SupportedProtocolVersion>,
    /// The name of its certificate.
    shows: Option<&'static str>,
}

impl Client {
    const PLAIN: Client = Client { versions: Vec::new(), shows: None };

    fn showing(name: &'static str) -> Self {
        Client { shows: Some(name), ..Client::PLAIN }
    }

    fn connect(&self, address: SocketAddr) -> BufReader<Stream> {
        let mut roots = RootCertStore::empty();
        roots.add(certificate("ca")).unwrap();
        let versions =
            if self.versions.is_empty() { vec![&TLS12, &TLS13] } else { self.versions.clone() };
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&versions)
            .unwrap()
            .with_root_certificates(roots);
        let config = match self.shows {
            None => builder.with_no_client_auth(),
            Some(name) => {
                let key = PrivateKeyDer::from_pem_file(file(&format!("{name}.key"))).unwrap();
                builder.with_client_auth_cert(vec![certificate(name)], key).unwrap()
            }
        };
        let name = ServerName::try_from("localhost").unwrap();
        let connection = ClientConnection::new(Arc::new(config), name).unwrap();
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.set_nodelay(true).unwrap();
        BufReader::new(StreamOwned::new(connection, stream))
    }

    /// Whether the server accepts it.
    fn is_let_in(&self, address: SocketAddr) -> bool {
        let mut stream = self.connect(address);
        let sent = stream.get_mut().write_all(b"PING\r\n");
        let mut line = String::new();
        // In TLS 1.3 the refusal of a certificate comes in place of the first reply.
        sent.is_ok() && stream.read_line(&mut line).is_ok() && line == "+PONG\r\n"
    }
}

/// Sends a request with a one-line reply.
fn ask(stream: &mut BufReader<Stream>, args: &[&str]) -> String {
    stream.get_mut().write_all(&request(args)).unwrap();
    let mut line = String::new();
    stream.read_line(&mut line).unwrap();
    line.trim_end().to_string()
}

#[test]
fn both_versions_serve_the_same_keys_as_the_plain_port() {
    for (versions, spoken) in
        [(&TLS12, ProtocolVersion::TLSv1_2), (&TLS13, ProtocolVersion::TLSv1_3)]
    {
        let server = server(|_| {});
        let client = Client { versions: vec![versions], shows: None };
        let mut stream = client.connect(server.tls_address());
        assert_eq!(ask(&mut stream, &["SET", "k", "over-tls"]), "+OK");
        assert_eq!(stream.get_ref().conn.protocol_version(), Some(spoken));
        let mut plain = server.connect();
        assert_eq!(plain.say("GET k").text(), "over-tls");
        // More than a record, more than a buffer, and many in a pipeline.
        let big = "v".repeat(3 << 20);
        assert_eq!(ask(&mut stream, &["SET", "big", &big]), "+OK");
        let n = 50;
        stream.get_mut().write_all(&request(&["GET", "big"]).repeat(n)).unwrap();
        let expected = format!("${}\r\n{big}\r\n", big.len());
        let mut reply = vec![0; expected.len()];
        for _ in 0..n {
            stream.read_exact(&mut reply).unwrap();
            assert!(reply == expected.as_bytes());
        }
        stream.get_mut().write_all(&request(&["INCR", "n"]).repeat(5_000)).unwrap();
        for i in 1..=5_000 {
            let mut line = String::new();
            stream.read_line(&mut line).unwrap();
            assert_eq!(line, format!(":{i}\r\n"));
        }
        // The end is announced, as TLS requires: otherwise the stream would report an error.
        assert_eq!(ask(&mut stream, &["QUIT"]), "+OK");
        assert_eq!(stream.read_to_end(&mut Vec::new()).unwrap(), 0);
    }
}

#[test]
fn a_stop_sends_pending_replies_over_tls() {
    let server = server(|_| {});
    let mut stream = Client::PLAIN.connect(server.tls_address());
    let value = "v".repeat(1 << 20);
    assert_eq!(ask(&mut stream, &["SET", "big", &value]), "+OK");
    // More than the kernel's buffers hold.
    let n = 16;
    stream.get_mut().write_all(&request(&["GET", "big"]).repeat(n)).unwrap();
    let mut all = vec![0; 1];
    // The first byte of the first reply: all requests have been sent, and the server is at work.
    stream.read_exact(&mut all).unwrap();
    server.ask_to_stop();
    stream.read_to_end(&mut all).unwrap();
    assert_eq!(all.len(), n * (value.len() + "$1048576\r\n\r\n".len()));
    server.stop();
}

#[test]
fn clients_show_certificates_if_asked_to() {
    let (good, none, bad) = (Client::showing("client"), Client::PLAIN, Client::showing("stranger"));
    for (asked, let_in) in [
        (AuthClients::Yes, [true, false, false]),
        (AuthClients::Optional, [true, true, false]),
        (AuthClients::No, [true, true, true]),
    ] {
        let server = server(|c| {
            c.tls.auth_clients = asked;
            c.tls.ca_cert_file = Some(file("ca.pem"));
        });
        let address = server.tls_address();
        let found = [&good, &none, &bad].map(|client| client.is_let_in(address));
        assert_eq!(found, let_in, "{asked:?}");
    }
}

#[test]
fn versions_that_are_not_to_be_spoken_are_refused() {
    let old = Client { versions: vec![&TLS12], shows: None };
    let new = Client { versions: vec![&TLS13], shows: None };
    for (spoken, let_in) in [(Protocols::Tls12, [true, false]), (Protocols::Tls13, [false, true])] {
        let server = server(|c| c.tls.protocols = spoken);
        let found = [&old, &new].map(|client| client.is_let_in(server.tls_address()));
        assert_eq!(found, let_in, "{spoken:?}");
    }
}

/// A folder that is removed after the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("hotring-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn copy(&self, from: &str, to: &str) {
        std::fs::copy(file(from), self.0.join(to)).unwrap();
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

#[test]
fn files_are_read_again_without_closing_connections() {
    let folder = Folder::new("tls-reload");
    folder.copy("server.pem", "cert.pem");
    folder.copy("server.key", "key.pem");
    let server = server(|c| {
        c.tls.cert_file = Some(folder.0.join("cert.pem"));
        c.tls.key_file = Some(folder.0.join("key.pem"));
    });
    let shown = || {
        let mut stream = Client::PLAIN.connect(server.tls_address());
        assert_eq!(ask(&mut stream, &["PING"]), "+PONG");
        let name = stream.get_ref().conn.peer_certificates().unwrap()[0].clone().into_owned();
        (stream, name)
    };
    let (mut first, name) = shown();
    assert_eq!(name, certificate("server"));
    folder.copy("server-2.pem", "cert.pem");
    server.reload();
    assert_eq!(shown().1, certificate("server"), "the key does not match it: nothing changes");
    folder.copy("server-2.key", "key.pem");
    server.reload();
    assert_eq!(shown().1, certificate("server-2"));
    assert_eq!(ask(&mut first, &["PING"]), "+PONG", "a connected client stays connected");
    std::fs::write(folder.0.join("cert.pem"), "nothing of use").unwrap();
    server.reload();
    assert_eq!(shown().1, certificate("server-2"));
}

#[test]
fn settings_of_tls_change_while_it_runs_if_that_is_allowed() {
    let refused = server(|_| {});
    let to = file("server-2.pem").display().to_string();
    let set = ["CONFIG", "SET", "tls-cert-file", &to];
    let error = refused.connect().ask(&set).text();
    assert!(error.ends_with("can't set protected config"), "{error}");
    let server = server(|c| c.enable_protected_configs = hotring_server::Guard::Local);
    let mut wire = server.connect();
    let error = wire.ask(&set).text();
    assert!(error.contains("does not match the certificate"), "{error}");
    assert_eq!(
        wire.say("CONFIG GET tls-cert-file").items()[1].text(),
        file("server.pem").display().to_string()
    );
    let key = file("server-2.key").display().to_string();
    assert_eq!(wire.ask(&[&set[..], &["tls-key-file", &key]].concat()), ok());
    let stream = Client::PLAIN.connect(server.tls_address());
    let mut stream = stream;
    assert_eq!(ask(&mut stream, &["PING"]), "+PONG");
    assert_eq!(stream.get_ref().conn.peer_certificates().unwrap()[0], certificate("server-2"));
    assert!(wire.say("CONFIG SET tls-auth-clients yes").text().contains("tls-ca-cert-file"));
    assert_eq!(wire.say("CONFIG SET tls-protocols TLSv1.2"), ok());
    assert!(!Client { versions: vec![&TLS13], shows: None }.is_let_in(server.tls_address()));
}

#[test]
fn a_client_without_tls_ends_only_its_connection() {
    let server = server(|c| c.handshake_timeout_s = 3);
    let mut good = Client::PLAIN.connect(server.tls_address());
    assert_eq!(ask(&mut good, &["PING"]), "+PONG");
    let mut random = Random::new(3);
    let mut inputs: Vec<Vec<u8>> = vec![
        b"PING\r\n".to_vec(),
        request(&["SET", "k", "v"]),
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        // Records: too long, of an unknown type, an alert, a handshake message of 16 MB that never
        // comes.
        b"\x16\x03\x01\xff\xff\x01".to_vec(),
        b"\x99\x03\x01\x00\x01\x00".to_vec(),
        b"\x15\x03\x01\x00\x02\x02\x28".to_vec(),
        b"\x16\x03\x01\x00\x04\x01\xff\xff\xff".to_vec(),
        // Nothing, and the beginning of a record: the time limit for handshakes ends both.
        Vec::new(),
        b"\x16\x03".to_vec(),
    ];
    inputs.extend((0..50).map(|i| (0..i * 7).map(|_| random.below(256) as u8).collect()));
    let connections: Vec<TcpStream> = inputs
        .iter()
        .map(|input| {
            let mut stream = TcpStream::connect(server.tls_address()).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            // The server may refuse it sooner.
            stream.write_all(input).ok();
            stream
        })
        .collect();
    for (mut stream, input) in connections.into_iter().zip(&inputs) {
        let mut reply = Vec::new();
        match stream.read_to_end(&mut reply) {
            // At most an alert.
            Ok(_) => assert!(reply.is_empty() || reply[0] == 0x15, "{}", reply.escape_ascii()),
            Err(error) => assert_eq!(
                error.kind(),
                std::io::ErrorKind::ConnectionReset,
                "{} leaves the connection open",
                input.escape_ascii()
            ),
        }
    }
    // And TLS on a plain port.
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.write_all(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\n").unwrap();
    assert_eq!(ask(&mut good, &["PING"]), "+PONG");
    let mut wire = server.connect();
    assert_eq!(wire.say("EXISTS k").int(), 0);
    // The others are forgotten, perhaps a moment after their end.
    let deadline = Instant::now() + Duration::from_secs(20);
    while !wire.say("INFO clients").text().contains("connected_clients:3\r\n") {
        assert!(Instant::now() < deadline, "{}", wire.say("CLIENT LIST").text());
    }
}

/// Regression test: a connection that had not completed its handshake could not be killed.
#[test]
fn a_handshake_can_be_killed() {
    let server = server(|c| c.handshake_timeout_s = 0);
    let mut stream = TcpStream::connect(server.tls_address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let peer = stream.local_addr().unwrap().to_string();
    let mut admin = server.connect();
    // The acceptor may need a moment.
    while !admin.say("CLIENT LIST").text().contains(&peer) {}
    assert_eq!(admin.ask(&["CLIENT", "KILL", &peer]), ok());
    assert_eq!(stream.read(&mut [0; 16]).unwrap(), 0);
}

/// Regression test: with `port 0`, a free port was opened and served without TLS.
#[test]
fn port_0_serves_tls_alone() {
    let mut config = Config { port: 0, threads: 1, ..Config::default() };
    config.tls.listen = vec!["127.0.0.1:0".to_string()];
    config.tls.cert_file = Some(file("server.pem"));
    config.tls.key_file = Some(file("server.key"));
    config.tls.auth_clients = AuthClients::No;
    let running = start(config).unwrap();
    assert!(running.addresses().is_empty());
    let mut stream = Client::PLAIN.connect(running.tls_addresses()[0]);
    assert_eq!(ask(&mut stream, &["PING"]), "+PONG");
    running.stop();
    running.wait().unwrap();
}

#[test]
fn a_server_does_not_start_with_incomplete_tls_settings() {
    let failure = |change: fn(&mut Config)| {
        let mut config = Config { port: 0, ..Config::default() };
        config.tls.listen = vec!["127.0.0.1:0".to_string()];
        config.tls.cert_file = Some(file("server.pem"));
        config.tls.key_file = Some(file("server.key"));
        change(&mut config);
        start(config).err().expect("it does not start").to_string()
    };
    assert!(failure(|_| {}).contains("tls-ca-cert-file"));
    assert!(failure(|c| c.tls.key_file = None).contains("tls-key-file"));
    assert!(failure(|c| c.tls.cert_file = None).contains("tls-cert-file"));
    assert!(failure(|c| c.tls.cert_file = Some("/nowhere.pem".into())).contains("/nowhere.pem"));
    assert!(failure(|c| c.tls.cert_file = Some(file("server.key"))).contains("server.key"));
    let other = failure(|c| {
        c.tls.key_file = Some(file("client.key"));
        c.tls.auth_clients = AuthClients::No;
    });
    assert!(other.contains("client.key does not match the certificate"), "{other}");
}
