//! Settings of access: clients, users and their permissions.

use std::path::PathBuf;

use crate::settings::config::Secret;
use crate::settings::guard::Guard;
use crate::settings::setting::{Change, Setting};
use crate::settings::values::{boolean, number, yes_no};

pub(super) static SECURITY: &[Setting] = &[
    Setting {
        name: "protected-mode",
        alias: "",
        placeholder: "yes|no",
        help: "Refuse connections from other machines while the default user has no password",
        change: Change::Running,
        get: |c| yes_no(c.protected_mode),
        set: |c, v| boolean(v).map(|b| c.protected_mode = b),
    },
    Setting {
        name: "requirepass",
        alias: "",
        placeholder: "PASSWORD",
        help: "Password of the default user, unless an ACL file defines that user; empty: none",
        change: Change::Running,
        get: |c| c.requirepass.reveal().to_string(),
        set: |c, v| {
            c.requirepass = Secret::new(v);
            Ok(())
        },
    },
    Setting {
        name: "aclfile",
        alias: "",
        placeholder: "PATH",
        help: "File of users, in Redis's form; ACL LOAD and SIGHUP reload it, ACL SAVE writes it",
        change: Change::Start,
        get: |c| c.aclfile.as_ref().map(|p| p.display().to_string()).unwrap_or_default(),
        set: |c, v| {
            c.aclfile = (!v.is_empty()).then(|| PathBuf::from(v));
            Ok(())
        },
    },
    Setting {
        name: "acllog-max-len",
        alias: "",
        placeholder: "N",
        help: "Denied requests kept by ACL LOG; the oldest go first",
        change: Change::Running,
        get: |c| c.acllog_len_max.to_string(),
        set: |c, v| number(v, 0, 1 << 20).map(|n| c.acllog_len_max = n),
    },
    Setting {
        name: "enable-protected-configs",
        alias: "",
        placeholder: "no|yes|local",
        help: "Whether CONFIG SET may change settings that name files; local: only for clients on this machine",
        change: Change::Start,
        get: |c| c.enable_protected_configs.name().to_string(),
        set: |c, v| Guard::parse(v).map(|g| c.enable_protected_configs = g),
    },
    Setting {
        name: "auth-failure-delay",
        alias: "",
        placeholder: "MILLISECONDS",
        help: "Delay after each wrong password, for the reply and all later requests of the connection",
        change: Change::Running,
        get: |c| c.auth_failure_delay_ms.to_string(),
        set: |c, v| number(v, 0, 60_000).map(|n| c.auth_failure_delay_ms = n),
    },
];
