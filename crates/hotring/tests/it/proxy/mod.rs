//! A proxy before a real cluster: what clients that know nothing of clusters see of it.

mod commands;
mod faults;
mod memcached;
mod mirrors;
mod pool;
mod pool_changes;
mod pool_copies;
mod tracking;

use std::net::TcpListener;

use hotring_protocol::Reply;
use hotring_proxy::{Proxy, Settings};
use rustix::process::Signal;

use crate::cluster::{cluster, wait_for};
use crate::cluster_demo::Demo;
use crate::nemesis::clients::Wire;
use crate::{Folder, Server, hotring, output, stderr};

/// A proxy before the nodes of a demo.
fn proxy(demo: &Demo, settings: Settings) -> Proxy {
    let proxy = Proxy::start(Settings {
        listen: vec!["127.0.0.1:0".parse().unwrap()],
        nodes: vec![demo.first.clone()],
        threads: 2,
        ..settings
    });
    let proxy = proxy.unwrap();
    wait_for("the proxy knows the cluster", || proxy.is_ready());
    proxy
}

fn address(proxy: &Proxy) -> String {
    proxy.addresses()[0].to_string()
}

fn connect(proxy: &Proxy) -> Wire {
    Wire::connect(&address(proxy)).unwrap()
}

/// The reply as a line.
fn shown(reply: &Reply) -> String {
    match reply {
        Reply::Simple(text) => text.clone(),
        Reply::Error(text) => format!("-{text}"),
        Reply::Int(number) => number.to_string(),
        Reply::Bulk(text) | Reply::Verbatim(text) => String::from_utf8_lossy(text).into_owned(),
        Reply::Null => "nil".to_string(),
        Reply::Array(parts) | Reply::Push(parts) | Reply::Set(parts) => {
            let parts: Vec<String> = parts.iter().map(shown).collect();
            format!("[{}]", parts.join(" "))
        }
        other => format!("{other:?}"),
    }
}

#[track_caller]
fn say(wire: &mut Wire, line: &str) -> String {
    shown(&wire.say(line).unwrap())
}

/// A number of INFO.
fn counted(wire: &mut Wire, field: &str) -> u64 {
    let text = say(wire, "INFO");
    let value = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    value.unwrap_or_else(|| panic!("{field} in {text}")).trim().parse().unwrap()
}

/// A node serves all keys at an address of its own, and a server without a cluster cannot.
#[test]
fn a_node_is_a_proxy_as_well() {
    let alone = output(&mut hotring(&["serve", "--port", "0", "--proxy-listen", "127.0.0.1:0"]));
    assert!(stderr(&alone).contains("for nodes of a cluster"), "{}", stderr(&alone));
    let bound = [0; 2].map(|_| TcpListener::bind("127.0.0.1:0").unwrap());
    let [any, memcached] = bound.map(|bound| bound.local_addr().unwrap().to_string());
    let words = ["serve", "--port", "0", "--coordinator", "embedded", "--proxy-listen", &any];
    let folder = Folder::new("proxy-node");
    let mut command = hotring(&words);
    command.args(["--proxy-memcached", &memcached]).arg("--data").arg(&folder.0);
    let node = Server::start(&mut command);
    // Once it has registered.
    wait_for("the cluster is made", || {
        cluster(&["create", "--copies", "1", "--yes"], &node.address).status.success()
    });
    let mut wire = Wire::connect(&any).unwrap();
    assert_eq!(say(&mut wire, "MSET a 1 b 2"), "OK");
    assert_eq!(say(&mut wire, "MGET b a"), "[2 1]");
    assert_eq!(memcached::Client::to(&memcached).say("get a"), "VALUE a 0 1¶1¶END¶");
    node.signal(Signal::TERM);
}
