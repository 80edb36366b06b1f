//! Checks that each crate depends only on the crates that a table allows.

use anyhow::{Context, Result};

use crate::workspace::packages;

/// Each crate of the workspace with the crates that it may use.
const ALLOWED: &[(&str, &[&str])] = &[
    ("hotring-index", &[]),
    ("hotring-engines", &["hotring-index"]),
    ("hotring-protocol", &[]),
    ("hotring-log", &[]),
    ("hotring-containers", &[]),
    // Who may answer is decided without knowing what is stored or how it travels.
    ("hotring-cluster", &[]),
    // Incarnations and epochs.
    ("hotring-messages", &["hotring-cluster"]),
    // C's side of its client.
    ("hotring-c", &["hotring-messages"]),
    // The embedded coordinator has files and a link of its own: the log's storage and frames.
    ("hotring-coordinator", &["hotring-cluster", "hotring-log"]),
    ("hotring-store", &["hotring-index", "hotring-containers", "hotring-log"]),
    (
        "hotring-commands",
        &[
            "hotring-cluster",
            "hotring-store",
            "hotring-engines",
            "hotring-protocol",
            "hotring-messages",
            "hotring-log",
        ],
    ),
    (
        "hotring-server",
        &[
            "hotring-cluster",
            "hotring-coordinator",
            "hotring-commands",
            "hotring-proxy",
            "hotring-store",
            "hotring-protocol",
            "hotring-messages",
            "hotring-log",
        ],
    ),
    // The table of commands, and TLS; it runs no command itself.
    ("hotring-proxy", &["hotring-cluster", "hotring-commands", "hotring-protocol"]),
    (
        "hotring",
        &[
            "hotring-proxy",
            "hotring-cluster",
            "hotring-coordinator",
            "hotring-server",
            "hotring-commands",
            "hotring-store",
            "hotring-protocol",
            "hotring-log",
        ],
    ),
    ("hotring-cpp-peers", &[]),
    (
        "hotring-bench",
        &[
            "hotring-index",
            "hotring-engines",
            "hotring-store",
            "hotring-protocol",
            "hotring-cluster",
            "hotring-cpp-peers",
        ],
    ),
];

/// Additional uses in tests and examples.
const ALLOWED_IN_TESTS: &[(&str, &[&str])] = &[
    ("xtask", &["hotring-server", "hotring-commands", "hotring-store"]),
    ("hotring-bench", &["hotring-server", "hotring-commands"]),
    // A client of messages against a server that is killed.
    ("hotring", &["hotring-messages"]),
    // The suites that every engine must pass.
    ("hotring-index", &["hotring-engines"]),
    ("hotring-store", &["hotring-engines"]),
];

/// Edges of the package graph that are not in the tables.
pub fn check() -> Result<Vec<String>> {
    let mut faults = Vec::new();
    for package in packages()? {
        let name = package["name"].as_str().context("a package has a name")?;
        for dependency in package["dependencies"].as_array().context("and dependencies")? {
            let used = dependency["name"].as_str().context("and these have names")?;
            let in_tests = dependency["kind"] == "dev";
            if used.starts_with("hotring") && !is_allowed(name, used, in_tests) {
                faults
                    .push(format!("{name} may not depend on {used}, see xtask/src/tidy/edges.rs"));
            }
        }
    }
    Ok(faults)
}

pub(super) fn is_allowed(name: &str, used: &str, in_tests: bool) -> bool {
    let lists = |table: &[(&str, &[&str])]| {
        table.iter().any(|(crate_name, uses)| *crate_name == name && uses.contains(&used))
    };
    lists(ALLOWED) || (in_tests && lists(ALLOWED_IN_TESTS))
}
