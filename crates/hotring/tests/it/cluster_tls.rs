//! A cluster of processes that speak TLS only, with nodes in zones.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::{Folder, Server, hotring, output, stderr};

fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn certificate(name: &str) -> String {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    folder.join("../hotring-server/tests/it/certificates").join(name).display().to_string()
}

/// Adds the flags of the files of TLS, which a node and the command line share.
fn with_tls<'c>(command: &'c mut Command, name: &str) -> &'c mut Command {
    command.args(["--tls-ca-cert-file", &certificate("ca.pem")]);
    command.args(["--tls-cert-file", &certificate(&format!("{name}.pem"))]);
    command.args(["--tls-key-file", &certificate(&format!("{name}.key"))])
}

/// A port that was free a moment ago. Without an ordinary port nothing tells which one a server has taken.
fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A node without an ordinary port, in a zone; clients need a certificate.
fn serve(data: &Folder, coordinator: &str, zone: &str, port: u16) -> Server {
    let mut command = hotring(&["serve", "--port", "0", "--tls-replication", "yes"]);
    command.args(["--tls-listen", &format!("127.0.0.1:{port}"), "--log", "everysec"]);
    command.args(["--masterauth", "pw", "--requirepass", "pw", "--zone", zone]);
    command.args(["--lease", "4000", "--in-sync-lag", "3000", "--coordinator", coordinator]);
    Server::start(with_tls(&mut command, "server").arg("--data").arg(&data.0))
}

fn cluster(words: &[&str], coordinator: &str, password: &str) -> Command {
    let mut command = hotring(&["cluster"]);
    command.args(words).args(["--coordinator", coordinator]).env("REDISCLI_AUTH", password);
    command
}

/// The answer of a node to redis-cli, which knows TLS.
fn say(port: u16, words: &[&str]) -> String {
    let mut command = Command::new("redis-cli");
    command.args(["-p", &port.to_string(), "--tls", "--cacert", &certificate("ca.pem")]);
    command.args(["--cert", &certificate("client.pem"), "--key", &certificate("client.key")]);
    let said = output(command.args(["--no-auth-warning", "-a", "pw"]).args(words));
    String::from_utf8_lossy(&said.stdout).trim().to_string()
}

#[test]
fn a_cluster_speaks_tls_only_and_puts_copies_into_different_zones() {
    if Command::new("redis-cli").arg("--version").output().is_err() {
        return println!("redis-cli is not installed");
    }
    let folders = ["a", "b", "c", "d"].map(|part| Folder::new(&format!("tls-{part}")));
    let ports = folders.each_ref().map(|_| free_port());
    let address = format!("127.0.0.1:{}", ports[0]);
    let mut nodes = Vec::new();
    for (at, zone) in ["east", "east", "west", "west"].iter().enumerate() {
        let coordinator = if at == 0 { "embedded" } else { &address };
        nodes.push(serve(&folders[at], coordinator, zone, ports[at]));
    }
    let status = || with_tls(&mut cluster(&["status"], &address, "pw"), "client").output().unwrap();
    let shown = || String::from_utf8_lossy(&status().stdout).into_owned();
    wait_for("the nodes register", || shown().matches("idle, alive").count() == 4);
    // No client gets in without TLS, a certificate and the password, and no error shows the password.
    let plain = output(&mut cluster(&["status"], &address, "pw"));
    assert!(!plain.status.success() && !stderr(&plain).contains("pw"), "{}", stderr(&plain));
    let mut stranger = cluster(&["status"], &address, "pw");
    assert!(!output(with_tls(&mut stranger, "stranger")).status.success());
    let mut wrong = cluster(&["status"], &address, "another-word");
    let wrong = output(with_tls(&mut wrong, "client"));
    assert!(
        !wrong.status.success() && !stderr(&wrong).contains("another-word"),
        "{}",
        stderr(&wrong)
    );
    let mut create = cluster(&["create", "--copies", "2", "--yes"], &address, "pw");
    let made = output(with_tls(&mut create, "client"));
    assert!(made.status.success(), "{}", stderr(&made));
    wait_for("the replicas are in sync", || shown().matches("in sync, alive").count() == 2);
    for shard in shown().split("shard ").skip(1) {
        assert_eq!(shard.matches("zone east").count(), 1, "{}", shown());
        assert_eq!(shard.matches("zone west").count(), 1, "{}", shown());
    }
    // Commands that ask the nodes themselves use TLS, too.
    let mut check = cluster(&["check"], &address, "pw");
    let checked = output(with_tls(&mut check, "client"));
    let text = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert!(checked.status.success(), "{text} {}", stderr(&checked));
    let mut failover = cluster(&["failover", "1", "--yes"], &address, "pw");
    let done = output(with_tls(&mut failover, "client"));
    assert!(done.status.success(), "{}", stderr(&done));
    wait_for("the replicas are in sync", || shown().matches("in sync, alive").count() == 2);
    // Each key is found by the redirection of some node, which names a port of TLS.
    for key in ["a", "b", "c", "foo"] {
        let answer = say(ports[0], &["SET", key, "1"]);
        let port = match answer.strip_prefix("MOVED ").and_then(|rest| rest.rsplit_once(':')) {
            Some((_, port)) => port.parse().unwrap(),
            None => ports[0],
        };
        assert!(ports.contains(&port), "{answer}");
        wait_for("it serves", || say(port, &["SET", key, "1"]) == "OK");
        assert_eq!(say(port, &["WAIT", "1", "10000"]), "1", "the replica has it, over TLS");
    }
    let links = |port: &u16| say(*port, &["INFO", "cluster"]).contains("cluster_message_links:3");
    wait_for("messages reach all nodes", || ports.iter().all(links));
}
