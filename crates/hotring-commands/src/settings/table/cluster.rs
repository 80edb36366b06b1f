//! Settings of a node of a cluster.

use std::collections::HashSet;
use std::net::SocketAddr;

use hotring_cluster::mirrors::Key;

use crate::settings::config::{CoordinatorAddress, Secret};
use crate::settings::setting::{Change, Setting};
use crate::settings::values::{number, size};

/// Most keys of a node that may be mirrored.
const MIRRORED_MAX: usize = 1024;

pub(super) static CLUSTER: &[Setting] = &[
    Setting {
        name: "coordinator",
        alias: "",
        placeholder: "ADDRESS",
        help: "Be a node of the cluster whose records are kept there: 'embedded' for this node itself, HOST:PORT of the \
               node that says so, or etcd://HOST:PORT,...; empty: belong to no cluster",
        change: Change::Start,
        get: |c| {
            let coordinator = c.replication.cluster.coordinator.as_ref();
            coordinator.map(CoordinatorAddress::to_string).unwrap_or_default()
        },
        set: |c, v| {
            CoordinatorAddress::parse(v).map(|address| c.replication.cluster.coordinator = address)
        },
    },
    Setting {
        name: "coordinator-user",
        alias: "",
        placeholder: "USER",
        help: "User as which an etcd is asked; empty: none. The node with the embedded coordinator is asked as masteruser",
        change: Change::Start,
        get: |c| c.replication.cluster.user.clone(),
        set: |c, v| {
            c.replication.cluster.user = v.to_string();
            Ok(())
        },
    },
    Setting {
        name: "coordinator-password",
        alias: "",
        placeholder: "PASSWORD",
        help: "Password of coordinator-user",
        change: Change::Start,
        get: |c| c.replication.cluster.password.reveal().to_string(),
        set: |c, v| {
            c.replication.cluster.password = Secret::new(v);
            Ok(())
        },
    },
    Setting {
        name: "cluster-name",
        alias: "",
        placeholder: "NAME",
        help: "Prefix of the cluster's records, so that several clusters can share an etcd",
        change: Change::Start,
        get: |c| c.replication.cluster.name.clone(),
        set: |c, v| {
            let may_be = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
            if v.is_empty() || v.len() > 128 || !v.chars().all(may_be) {
                return Err("must be 1 to 128 letters, digits and -._".to_string());
            }
            c.replication.cluster.name = v.to_string();
            Ok(())
        },
    },
    Setting {
        name: "announce-host",
        alias: "",
        placeholder: "HOST",
        help: "Address at which clients and other nodes of the cluster reach this one; empty: the first that it listens \
               on",
        change: Change::Start,
        get: |c| c.replication.cluster.announce_host.clone(),
        set: |c, v| {
            c.replication.cluster.announce_host = v.to_string();
            Ok(())
        },
    },
    Setting {
        name: "announce-port",
        alias: "",
        placeholder: "PORT",
        help: "Port at which clients and other nodes of the cluster reach this one; 0: the first that it listens on",
        change: Change::Start,
        get: |c| c.replication.cluster.announce_port.to_string(),
        set: |c, v| number(v, 0, u16::MAX).map(|n| c.replication.cluster.announce_port = n),
    },
    Setting {
        name: "announce-tls-port",
        alias: "",
        placeholder: "PORT",
        help: "The same for TLS, at a node that listens for it",
        change: Change::Start,
        get: |c| c.replication.cluster.announce_tls_port.to_string(),
        set: |c, v| number(v, 0, u16::MAX).map(|n| c.replication.cluster.announce_tls_port = n),
    },
    Setting {
        name: "zone",
        alias: "",
        placeholder: "NAME",
        help: "Where this node of a cluster stands: the copies of a shard go to different zones",
        change: Change::Start,
        get: |c| c.replication.cluster.zone.clone(),
        set: |c, v| {
            c.replication.cluster.zone = v.to_string();
            Ok(())
        },
    },
    Setting {
        name: "node-weight",
        alias: "",
        placeholder: "N",
        help: "What this node of a cluster can carry, in comparison with the others",
        change: Change::Start,
        get: |c| c.replication.cluster.weight.to_string(),
        set: |c, v| {
            number(v, 1, hotring_cluster::MAX_WEIGHT).map(|n| c.replication.cluster.weight = n)
        },
    },
    Setting {
        name: "replace-after",
        alias: "",
        placeholder: "SECONDS",
        help: "A node that is registered and has no shard replaces a replica that has been dead for this long; 0: never. \
               Nodes may differ: that of the controller counts, which is one with another value than 0",
        change: Change::Running,
        get: |c| c.replication.cluster.replace_after_s.to_string(),
        set: |c, v| {
            number(v, 0, i32::MAX as u64).map(|n| c.replication.cluster.replace_after_s = n)
        },
    },
    Setting {
        name: "full-disk-after",
        alias: "",
        placeholder: "MS",
        help: "A primary whose disk has been full for this long hands its role to an in-sync replica that can write. The \
               log is tried again each second",
        change: Change::Running,
        get: |c| c.replication.cluster.full_disk.after_ms.to_string(),
        set: |c, v| number(v, 0, 3_600_000).map(|n| c.replication.cluster.full_disk.after_ms = n),
    },
    Setting {
        name: "full-disk-pause",
        alias: "",
        placeholder: "MS",
        help: "Time between two such handovers, so that nodes with small disks do not pass the role to and fro",
        change: Change::Running,
        get: |c| c.replication.cluster.full_disk.pause_ms.to_string(),
        set: |c, v| number(v, 100, 3_600_000).map(|n| c.replication.cluster.full_disk.pause_ms = n),
    },
    Setting {
        name: "mirror",
        alias: "",
        placeholder: "MODE",
        help: "Whether proxies answer reads of this node's hottest strings by themselves: 'auto', or 'off'. A write of \
               such a key waits until they have dropped it",
        change: Change::Running,
        get: |c| if c.replication.cluster.mirrors { "auto" } else { "off" }.to_string(),
        set: |c, v| {
            c.replication.cluster.mirrors = match v.to_ascii_lowercase().as_str() {
                "auto" => true,
                "off" => false,
                _ => return Err("must be auto or off".to_string()),
            };
            Ok(())
        },
    },
    Setting {
        name: "mirror-keys",
        alias: "",
        placeholder: "N",
        help: "Most keys of this node that are mirrored",
        change: Change::Running,
        get: |c| c.replication.cluster.mirror_budget.keys.to_string(),
        set: |c, v| {
            number(v, 1, MIRRORED_MAX).map(|n| c.replication.cluster.mirror_budget.keys = n)
        },
    },
    Setting {
        name: "mirror-memory",
        alias: "",
        placeholder: "BYTES",
        help: "Most bytes of their values. A proxy has them once for each thread and user",
        change: Change::Running,
        get: |c| c.replication.cluster.mirror_budget.bytes.to_string(),
        set: |c, v| size(v, 1).map(|n| c.replication.cluster.mirror_budget.bytes = n),
    },
    Setting {
        name: "mirror-always",
        alias: "",
        placeholder: "KEY",
        help: "Strings that are mirrored however cold they are, within mirror-keys and mirror-memory; separated by \
               spaces, the most important first. Works with 'mirror auto', at the node that has the key",
        change: Change::Running,
        get: |c| {
            let keys = c.replication.cluster.mirror_always.iter();
            keys.map(|key| String::from_utf8_lossy(key)).collect::<Vec<_>>().join(" ")
        },
        set: |c, v| keys(v).map(|keys| c.replication.cluster.mirror_always = keys),
    },
    Setting {
        name: "proxy-listen",
        alias: "",
        placeholder: "ADDR:PORT",
        help: "Addresses on which this node serves requests for any key of the cluster, separated by spaces",
        change: Change::Start,
        get: |c| shown(&c.replication.cluster.proxy_listen),
        set: |c, v| addresses(v).map(|listen| c.replication.cluster.proxy_listen = listen),
    },
    Setting {
        name: "proxy-memcached",
        alias: "",
        placeholder: "ADDR:PORT",
        help: "Addresses on which it does so for memcached's clients, as masteruser if that has a password",
        change: Change::Start,
        get: |c| shown(&c.replication.cluster.proxy_memcached),
        set: |c, v| addresses(v).map(|listen| c.replication.cluster.proxy_memcached = listen),
    },
];

fn shown(addresses: &[SocketAddr]) -> String {
    let texts: Vec<String> = addresses.iter().map(SocketAddr::to_string).collect();
    texts.join(" ")
}

fn addresses(text: &str) -> Result<Vec<SocketAddr>, String> {
    let wrong = |_| "must be addresses such as 127.0.0.1:6380".to_string();
    text.split_whitespace().map(|word| word.parse().map_err(wrong)).collect()
}

fn keys(text: &str) -> Result<Vec<Key>, String> {
    let keys: Vec<Key> = text.split_whitespace().map(|key| key.as_bytes().into()).collect();
    if keys.len() > MIRRORED_MAX {
        return Err(format!("must be at most {MIRRORED_MAX} keys"));
    }
    if keys.iter().collect::<HashSet<_>>().len() < keys.len() {
        return Err("must name no key twice".to_string());
    }
    Ok(keys)
}
