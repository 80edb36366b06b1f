//! A proxy before a real cluster: what clients that know nothing of clusters see of it.

mod commands;
mod faults;
mod memcached;

use std::time::{Duration, Instant};

use hotring_protocol::Reply;
use hotring_proxy::{Proxy, Settings};

use crate::cluster_demo::Demo;
use crate::nemesis::clients::Wire;

/// Longest wait for anything.
const PATIENCE: Duration = Duration::from_secs(60);

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

#[track_caller]
fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
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
