//! Settings of where and how the server listens.

use std::path::PathBuf;

use crate::settings::setting::{Change, Setting};
use crate::settings::values::number;

pub(super) static NETWORK: &[Setting] = &[
    Setting {
        name: "listen",
        alias: "",
        placeholder: "ADDR:PORT",
        help: "Listen here; may be given several times; replaces bind and port",
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
        help: "Addresses to listen on (Redis's way to say it), separated by spaces; a '-' before one says that \
               it may be missing",
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
        help: "Port for the addresses of bind; 0 for none, if there is another way in, else a free one",
        change: Change::Start,
        get: |c| c.port.to_string(),
        set: |c, v| number(v, 0, u16::MAX).map(|n| c.port = n),
    },
    Setting {
        name: "unixsocket",
        alias: "",
        placeholder: "PATH",
        help: "Listen on this unix socket as well: less than half the CPU time of TCP",
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
        help: "Who may connect to the unix socket: the permission bits of its file",
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
        help: "Threads that serve connections; 0 means one for each available core",
        change: Change::Start,
        get: |c| c.threads.to_string(),
        set: |c, v| number(v, 0, 1024).map(|n| c.threads = n),
    },
    Setting {
        name: "tcp-keepalive",
        alias: "",
        placeholder: "SECONDS",
        help: "Probe silent TCP peers after this long; 0 never does",
        change: Change::Running,
        get: |c| c.tcp_keepalive_s.to_string(),
        set: |c, v| number(v, 0, i32::MAX as u64).map(|n| c.tcp_keepalive_s = n),
    },
    Setting {
        name: "tcp-backlog",
        alias: "",
        placeholder: "N",
        help: "Connections that the kernel may queue before they are accepted",
        change: Change::Start,
        get: |c| c.tcp_backlog.to_string(),
        set: |c, v| number(v, 1, i32::MAX as u32).map(|n| c.tcp_backlog = n),
    },
];
