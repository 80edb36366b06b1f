//! `hotring proxy`: one address for all keys of a cluster, or of a pool of other servers.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use hotring_commands::host::threads;
use hotring_proxy::{Proxy, Settings};
use hotring_server::{AuthClients, LogFormat, LogLevel, TlsSettings};
use tokio::signal::unix::{SignalKind, signal};

use crate::client::password;

const NOTES: &str = "\
Clients talk to the proxy as to a single server: any Redis client, no cluster support needed. Their passwords and \
permissions are checked by the nodes. The proxy keeps no data, and any number of proxies may run side by side.

Not atomic through a proxy: MGET, MSET, DEL, UNLINK, EXISTS and TOUCH with keys in several slots. A write whose node dies \
before its reply gets the error UNKNOWN: it may or may not have been done, and is never sent again.

With --pool the proxy serves a pool of Redis, Valkey, memcached and hotring servers that know nothing of each other: a \
file names them, with a line for each below [servers]:
  a = { address = \"127.0.0.1:6379\", protocol = \"redis\" }
  b = { address = \"127.0.0.1:11211\", protocol = \"memcached\", weight = 50 }
POOL RELOAD, sent to the proxy, reads the file again; POOL RELOAD COPY also copies the keys that change their server, \
until the end or POOL COPY STOP.

Examples:
  hotring proxy --listen 127.0.0.1:6380 --node 127.0.0.1:7000 --node 127.0.0.1:7001
  hotring proxy --listen 127.0.0.1:6380 --memcached 127.0.0.1:11311 --pool pool.toml

Exit codes: 0 after Ctrl-C or SIGTERM; 1 if it cannot start";

/// The flags that are numbers: unit, largest value, meaning, and the default of the library.
type Number = (&'static str, &'static str, u64, &'static str, fn(&Settings) -> u128);

const NUMBERS: [Number; 9] = [
    ("threads", "N", 1_024, "Threads", |s| s.threads as u128),
    ("maxclients", "N", 10_000_000, "Most clients", |s| s.clients_max as u128),
    (
        "merge-window",
        "MS",
        20,
        "Let requests wait this long, so that reads of one key are sent once",
        |s| s.merge_window.as_millis(),
    ),
    (
        "retry-for",
        "MS",
        600_000,
        "Try requests again for this long while their node cannot be reached",
        |s| s.retry_for.as_millis(),
    ),
    (
        "node-timeout",
        "MS",
        3_600_000,
        "Give a node up that owes a reply and is silent for this long",
        |s| s.node_timeout.as_millis(),
    ),
    (
        "pipeline-max",
        "N",
        1 << 20,
        "Most requests of a client that wait for replies; it is not read meanwhile",
        |s| s.pipeline_max as u128,
    ),
    ("memcached-max-item-size", "BYTES", 1 << 29, "Longest value of memcached's clients", |s| {
        s.memcached_item_len_max as u128
    }),
    ("request-max", "BYTES", 1 << 40, "Longest argument of a request", |s| {
        s.request_len_max as u128
    }),
    (
        "output-max",
        "BYTES",
        1 << 40,
        "Longest reply of a node; and close the connection of a client with more replies that it has not fetched",
        |s| s.output_max as u128,
    ),
];

const FILES: [(&str, &str); 6] = [
    (
        "clients-password-file",
        "Redis's clients of a pool must log in with the password in the first line of this file",
    ),
    (
        "memcached-password-file",
        "Take the password of --memcached-user from the first line of this file",
    ),
    ("password-file", "Take the password from the first line of this file"),
    ("tls-ca-cert-file", "The authority whose certificates nodes and clients must show"),
    ("tls-cert-file", "The proxy's certificate, for clients and for nodes that ask for one"),
    ("tls-key-file", "Its key"),
];

/// The subcommand and its flags.
pub(crate) fn cli() -> Command {
    let defaults = Settings::default();
    let flag = |name: &'static str| Arg::new(name).long(name);
    let listed = |name: &'static str, value: &'static str| {
        flag(name).value_name(value).action(ArgAction::Append)
    };
    let address = |name| listed(name, "ADDR:PORT").value_parser(value_parser!(SocketAddr));
    let numbers = NUMBERS.iter().map(|(name, unit, most, help, default)| {
        let help = format!("{help} [default: {}]", default(&defaults));
        flag(name).value_name(*unit).value_parser(value_parser!(u64).range(0..=*most)).help(help)
    });
    Command::new("proxy")
        .about("Run one address for all keys of a cluster or of a pool of servers")
        .after_help(NOTES)
        .arg(address("listen").default_value("127.0.0.1:6380").help("Serve Redis's clients here"))
        .arg(address("tls-listen").help("Serve Redis's clients over TLS here"))
        .arg(address("memcached").help("Serve memcached's clients here, without a password"))
        .arg(
            listed("node", "HOST:PORT")
                .required_unless_present("pool")
                .help("A node of the cluster; it names the others"),
        )
        .arg(flag("pool").value_name("FILE").conflicts_with("node").help(
            "Serve the pool of servers in this TOML file, instead of a cluster",
        ))
        .arg(flag("user").value_name("NAME").default_value("default").help(
            "Ask the nodes for their slots as this user, with the password in REDISCLI_AUTH or of \
             --password-file. Clients never act as this user",
        ))
        .arg(flag("memcached-user").value_name("NAME").default_value("default").help(
            "Do what memcached's clients ask as this user, with the password of --memcached-password-file; \
             it needs +hotring.memcached",
        ))
        .args(numbers)
        .arg(flag("tls-nodes").action(ArgAction::SetTrue).help("Reach the nodes over TLS"))
        .args(FILES.map(|(name, help)| flag(name).value_name("FILE").help(help)))
        .arg(
            flag("tls-auth-clients")
                .value_parser(["yes", "no", "optional"])
                .default_value("yes")
                .help("Whether clients over TLS must show a certificate of the authority"),
        )
        .arg(
            flag("loglevel")
                .value_parser(["warning", "notice", "verbose", "debug"])
                .default_value("notice")
                .help("What to log"),
        )
}

/// Runs the proxy until it is stopped.
pub(crate) fn run(flags: &ArgMatches) -> ExitCode {
    match settings(flags).and_then(|settings| serve(settings, flags)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("hotring proxy: {why}");
            ExitCode::FAILURE
        }
    }
}

fn serve(settings: Settings, flags: &ArgMatches) -> Result<(), String> {
    let level = match flags.get_one::<String>("loglevel").map(String::as_str) {
        Some("warning") => LogLevel::Warning,
        Some("verbose") => LogLevel::Verbose,
        Some("debug") => LogLevel::Debug,
        _ => LogLevel::Notice,
    };
    hotring_server::log_to_stderr(level, LogFormat::Human);
    let proxy = Proxy::start(settings)?;
    for address in proxy.addresses() {
        tracing::info!(%address, "serving Redis's clients");
    }
    let waited = threads::event_loop().and_then(|runtime| {
        runtime.block_on(async {
            let (mut interrupt, mut terminate) =
                (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            Ok(())
        })
    });
    waited.map_err(|why| format!("cannot wait for signals: {why}"))?;
    tracing::info!("answering what has arrived, then bye");
    drop(proxy);
    Ok(())
}

fn settings(flags: &ArgMatches) -> Result<Settings, String> {
    let usual = Settings::default();
    let number = |name, usual: usize| flags.get_one(name).map_or(usual, |n: &u64| *n as usize);
    let time = |name, usual| flags.get_one(name).map_or(usual, |ms| Duration::from_millis(*ms));
    let addresses =
        |name| flags.get_many::<SocketAddr>(name).into_iter().flatten().copied().collect();
    let path = |name| flags.get_one::<String>(name).map(PathBuf::from);
    let user = flags.get_one::<String>("user").expect("it has a default");
    let memcached_login = match flags.get_one::<String>("memcached-password-file") {
        Some(file) => {
            let user = flags.get_one::<String>("memcached-user").expect("it has a default");
            Some((user.clone(), password(Some(file))?))
        }
        None => None,
    };
    let clients_password = match flags.get_one::<String>("clients-password-file") {
        Some(_) if !flags.contains_id("pool") => {
            return Err("--clients-password-file is for --pool: the nodes of a cluster check passwords themselves".to_string());
        }
        Some(file) => Some(password(Some(file))?).filter(|password| !password.is_empty()),
        None => None,
    };
    let auth_clients = match flags.get_one::<String>("tls-auth-clients").map(String::as_str) {
        Some("no") => AuthClients::No,
        Some("optional") => AuthClients::Optional,
        _ => AuthClients::Yes,
    };
    Ok(Settings {
        listen: addresses("listen"),
        tls_listen: addresses("tls-listen"),
        memcached: addresses("memcached"),
        memcached_login,
        memcached_item_len_max: number("memcached-max-item-size", usual.memcached_item_len_max),
        nodes: flags.get_many::<String>("node").into_iter().flatten().cloned().collect(),
        pool: path("pool"),
        clients_password,
        login: Some(password(flags.get_one::<String>("password-file"))?)
            .filter(|password| !password.is_empty())
            .map(|password| (user.clone(), password)),
        tls_nodes: flags.get_flag("tls-nodes"),
        tls: TlsSettings {
            cert_file: path("tls-cert-file"),
            key_file: path("tls-key-file"),
            ca_cert_file: path("tls-ca-cert-file"),
            auth_clients,
            ..TlsSettings::default()
        },
        threads: number("threads", usual.threads).max(1),
        clients_max: number("maxclients", usual.clients_max),
        merge_window: time("merge-window", usual.merge_window),
        retry_for: time("retry-for", usual.retry_for),
        node_timeout: time("node-timeout", usual.node_timeout),
        pipeline_max: number("pipeline-max", usual.pipeline_max).max(1),
        request_len_max: number("request-max", usual.request_len_max),
        output_max: number("output-max", usual.output_max),
    })
}
