//! Links by TLS and with a user's password: the right ones lead to a replica, and wrong ones are told clearly.

use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use hotring_protocol::Reply;

use super::clients::Wire;
use super::wait_for;
use crate::{Server, hotring};

fn file(name: &str) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../hotring-server/tests/it/certificates");
    format!("{folder}/{name}")
}

fn say(server: &Server, line: &str) -> String {
    match Wire::connect(&server.address).and_then(|mut wire| wire.say(line)) {
        Ok(Reply::Bulk(text)) => String::from_utf8(text).unwrap(),
        Ok(Reply::Simple(text) | Reply::Error(text)) => text,
        other => format!("{other:?}"),
    }
}

#[test]
fn a_link_by_tls_with_a_password_tells_what_is_wrong() {
    // Bound and released: the ports are most likely still free a moment later.
    let bound = [0; 2].map(|_| TcpListener::bind("127.0.0.1:0").unwrap());
    let [plain, port] = bound.map(|bound| bound.local_addr().unwrap().port().to_string());
    let mut command = hotring(&["serve", "--port", &plain, "--tls-port", &port]);
    command.args(["--tls-cert-file", &file("server.pem"), "--tls-key-file", &file("server.key")]);
    command.args(["--tls-auth-clients", "no", "--enable-debug-command", "yes"]);
    let mut primary = Server::start(&mut command);
    primary.read_log_beside();
    let mut operator = Wire::connect(&primary.address).unwrap();
    for line in ["SET k 1", "ACL SETUSER follower on >right-pass +hotring.replicate"] {
        assert_eq!(operator.say(line).unwrap(), Reply::Simple("OK".into()), "{line}");
    }
    let source = format!("localhost {port}");
    let serve = |ca: &str| {
        let mut command = hotring(&["serve", "--port", "0", "--replicaof", &source]);
        command.args(["--tls-replication", "yes", "--tls-ca-cert-file", &file(ca)]);
        command.args(["--masteruser", "follower", "--masterauth", "wrong-pass"]);
        let mut server = Server::start(command.args(["--enable-debug-command", "yes"]));
        let told = server.read_log_beside();
        (server, told)
    };
    let told_at_both = |(server, told): &(Server, Arc<Mutex<String>>), why: &str| {
        wait_for(why, || {
            let info = say(server, "INFO replication");
            let error = info.lines().find_map(|line| line.strip_prefix("master_link_error:"));
            let told = told.lock().unwrap();
            let is_told =
                |line: &str| line.contains("the link to the primary is down") && line.contains(why);
            error.is_some_and(|error| error.contains(why)) && told.lines().any(is_told)
        });
        assert!(!told.lock().unwrap().contains("wrong-pass"), "the password is in the log");
        assert!(say(server, "INFO replication").contains("master_link_status:down"));
    };
    told_at_both(&serve("stranger.pem"), "invalid peer certificate: UnknownIssuer");
    let replica = serve("ca.pem");
    told_at_both(&replica, "the primary refuses: WRONGPASS");
    assert_eq!(say(&replica.0, "CONFIG SET masterauth right-pass"), "OK");
    wait_for("the link comes up", || {
        say(&replica.0, "INFO replication").contains("master_link_status:up")
    });
    for n in 0..200 {
        assert_eq!(operator.say(&format!("RPUSH list {n}")).unwrap(), Reply::Int(n + 1));
    }
    wait_for("the digests are equal", || {
        say(&replica.0, "DEBUG DIGEST") == say(&primary, "DEBUG DIGEST")
    });
}
