//! Settings of the server's addresses, sockets and I/O threads.

use std::path::PathBuf;

use crate::settings::setting::{Change, Setting};
use crate::settings::values::number;

pub(super) static NETWORK: &[Setting] = &[
    Setting {
        name: "listen",
        alias: "",
        placeholder: "ADDR:PORT",
        help: "Address and port to listen on; may be given several times; replaces bind and port",
        change: Change::Start,
        get: |c| c.listen.join(" "),
        set: |c, v| {
            c.listen.extend(v.split_whitespace().map(str::to_string));
            Ok(())
        },
    },
    Setting {
        name: "bind",
        alias: "",
        placeholder: "ADDR",
        help: "Addresses to listen on, separated by spaces, as in Redis; a '-' in front allows an address to be \
               missing",
        change: Change::Start,
        get: |c| c.bind.join(" "),
        set: |c, v| {
            c.bind = v.split_whitespace().map(str::to_string).collect();
            Ok(())
        },
    },
    Setting {
        name: "port",
        alias: "",
        placeholder: "PORT",
        help: "Port for the addresses of bind; 0: none if the server has another address, else any free port",
        change: Change::Start,
        get: |c| c.port.to_string(),
        set: |c, v| number(v, 0, u16::MAX).map(|n| c.port = n),
    },
    Setting {
        name: "unixsocket",
        alias: "",
        placeholder: "PATH",
        help: "Unix socket to listen on as well; it takes less than half the CPU time of TCP",
        change: Change::Start,
        get: |c| c.unixsocket.as_ref().map(|p| p.display().to_string()).unwrap_or_default(),
        set: |c, v| {
            c.unixsocket = (!v.is_empty()).then(|| PathBuf::from(v));
            Ok(())
        },
    },
    Setting {
        name: "unixsocketperm",
        alias: "",
        placeholder: "OCTAL",
        help: "Permission bits of the unix socket: they decide who may connect",
        change: Change::Start,
        get: |c| format!("{:o}", c.unixsocketperm),
        set: |c, v| match u32::from_str_radix(v, 8) {
            Ok(mode) if mode <= 0o777 => {
                c.unixsocketperm = mode;
                Ok(())
            }
            _ => Err("must be an octal number from 0 to 777".to_string()),
        },
    },
    Setting {
        name: "threads",
        alias: "io-threads",
        placeholder: "N",
        help: "Threads that serve connections; 0: one per available core",
        change: Change::Start,
        get: |c| c.threads.to_string(),
        set: |c, v| number(v, 0, 1024).map(|n| c.threads = n),
    },
    Setting {
        name: "tcp-keepalive",
        alias: "",
        placeholder: "SECONDS",
        help: "Probe silent TCP peers after this time; 0: never",
        change: Change::Running,
        get: |c| c.tcp_keepalive_s.to_string(),
        set: |c, v| number(v, 0, i32::MAX as u64).map(|n| c.tcp_keepalive_s = n),
    },
    Setting {
        name: "tcp-backlog",
        alias: "",
        placeholder: "N",
        help: "Connections that the kernel may queue before the server accepts them",
        change: Change::Start,
        get: |c| c.tcp_backlog.to_string(),
        set: |c, v| number(v, 1, i32::MAX as u32).map(|n| c.tcp_backlog = n),
    },
];
