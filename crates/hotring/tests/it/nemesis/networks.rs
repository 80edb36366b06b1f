//! A network between two servers that loses everything: neither side is told of the end of a connection. Each server
//! has a network namespace of its own. Where these cannot be made, the test prints so and does nothing.

use std::path::PathBuf;
use std::process::Command;

use hotring_protocol::Reply;

use super::clients::Wire;
use super::wait_for;
use crate::{Folder, Server, hotring};

/// Runs `ip` with these words.
fn ip(words: &str) -> bool {
    let output = Command::new("ip").args(words.split(' ')).output();
    output.is_ok_and(|output| output.status.success())
}

/// Two namespaces with a cable between them, removed after the test.
struct Network {
    names: [String; 2],
}

impl Network {
    fn make() -> Option<Network> {
        let names = [0, 1].map(|n| format!("hotring-{}-{n}", std::process::id()));
        let [one, other] = &names;
        let is_made = ip(&format!("netns add {one}"))
            && ip(&format!("netns add {other}"))
            && ip(&format!("-n {one} link add cable type veth peer name cable netns {other}"));
        let network = Network { names };
        if !is_made {
            eprintln!("not tried: network namespaces cannot be made here");
            return None;
        }
        for (n, name) in network.names.iter().enumerate() {
            assert!(ip(&format!("-n {name} address add {}/24 dev cable", address(n))));
            assert!(ip(&format!("-n {name} link set cable up")));
        }
        Some(network)
    }

    /// Whether packets pass.
    fn set(&self, state: &str) {
        assert!(ip(&format!("-n {} link set cable {state}", self.names[0])));
    }

    /// A command that runs in a namespace.
    fn command(&self, n: usize, words: &[&str]) -> Command {
        let inner = hotring(words);
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.names[n]]).arg(inner.get_program());
        command.args(inner.get_args());
        let removed = inner.get_envs().filter(|(_, value)| value.is_none());
        removed.for_each(|(name, _)| _ = command.env_remove(name));
        command
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for name in &self.names {
            let _ = ip(&format!("netns del {name}"));
        }
    }
}

fn address(n: usize) -> String {
    format!("10.213.47.{}", n + 1)
}

/// A server that is asked through a unix socket.
struct Reached {
    _server: Server,
    socket: PathBuf,
}

impl Reached {
    fn start(network: &Network, n: usize, folder: &Folder) -> Reached {
        let socket = folder.0.join(format!("socket-{n}"));
        let mut command = network.command(n, &["serve", "--port", "7000", "--bind", &address(n)]);
        command
            .args(["--protected-mode", "no", "--repl-timeout", "3", "--unixsocket"])
            .arg(&socket);
        command.args(["--ack", "replicated", "--enable-debug-command", "local"]);
        command.args(["--in-sync-replicas", &format!("{}:7000", address(1 - n))]);
        if n == 1 {
            command.args(["--replicaof", &format!("{} 7000", address(0))]);
        }
        let mut server = Server::start(&mut command);
        server.read_log_beside();
        Reached { _server: server, socket }
    }

    fn say(&self, line: &str) -> Reply {
        let reply = Wire::unix(&self.socket).and_then(|mut wire| wire.say(line));
        reply.unwrap_or_else(|error| Reply::Error(error.to_string()))
    }

    fn tells(&self, field: &str) -> bool {
        match self.say("INFO everything") {
            Reply::Bulk(text) => String::from_utf8_lossy(&text).contains(&format!("{field}\r\n")),
            _ => false,
        }
    }
}

fn ok() -> Reply {
    Reply::Simple("OK".into())
}

#[test]
fn a_network_that_loses_everything_costs_no_acknowledged_write() {
    let Some(network) = Network::make() else { return };
    let folder = Folder::new("networks");
    let [primary, replica] = [0, 1].map(|n| Reached::start(&network, n, &folder));
    wait_for("the replica is in sync", || primary.say("SET k 1") == ok());
    network.set("down");
    let reply = primary.say("SET k 2");
    assert!(matches!(&reply, Reply::Error(_)), "acknowledged without the replica: {reply:?}");
    wait_for("the primary notices", || primary.tells("connected_slaves:0"));
    wait_for("the replica notices", || replica.tells("master_link_status:down"));
    assert_eq!(replica.say("GET k"), Reply::Bulk(b"1".into()));
    network.set("up");
    wait_for("the replica is in sync again", || primary.say("SET k 3") == ok());
    assert_eq!(replica.say("GET k"), Reply::Bulk(b"3".into()));
    assert_eq!(replica.say("DEBUG DIGEST"), primary.say("DEBUG DIGEST"));
    assert!(primary.tells("sync_full:1"), "the backlog has what was missed");
}
