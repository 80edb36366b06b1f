//! `hotring proxy`: one address for all keys of a cluster.

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

Example:
  hotring proxy --listen 127.0.0.1:6380 --node 127.0.0.1:7000 --node 127.0.0.1:7001

Exit codes: 0 after Ctrl-C or SIGTERM; 1 if it cannot start";

/// The subcommand and its flags.
pub(crate) fn cli() -> Command {
    let defaults = Settings::default();
    let address = |name: &'static str| {
        Arg::new(name)
            .long(name)
            .value_name("ADDR:PORT")
            .action(ArgAction::Append)
            .value_parser(value_parser!(SocketAddr))
    };
    let number = |name: &'static str, unit: &'static str, most: u64, default: u128, help: &str| {
        Arg::new(name)
            .long(name)
            .value_name(unit)
            .value_parser(value_parser!(u64).range(0..=most))
            .help(format!("{help} [default: {default}]"))
    };
    let file = |name: &'static str| {
        Arg::new(name).long(name).value_name("FILE").value_parser(value_parser!(PathBuf))
    };
    Command::new("proxy")
        .about("Run one address for all keys of a cluster")
        .after_help(NOTES)
        .arg(address("listen").default_value("127.0.0.1:6380").help("Serve Redis's clients here"))
        .arg(address("tls-listen").help("Serve Redis's clients over TLS here"))
        .arg(
            Arg::new("node")
                .long("node")
                .value_name("HOST:PORT")
                .action(ArgAction::Append)
                .required(true)
                .help("A node of the cluster; it names the others"),
        )
        .arg(Arg::new("user").long("user").value_name("NAME").default_value("default").help(
            "Ask the nodes for their slots as this user, with the password in REDISCLI_AUTH or of --password-file. \
             Clients never act as this user",
        ))
        .arg(
            Arg::new("password-file")
                .long("password-file")
                .value_name("FILE")
                .help("Take the password from the first line of this file"),
        )
        .arg(number("threads", "N", 1_024, defaults.threads as u128, "Threads"))
        .arg(number("maxclients", "N", 10_000_000, defaults.clients_max as u128, "Most clients"))
        .arg(number("merge-window", "MS", 20, defaults.merge_window.as_millis(), "Let requests wait this long, so that reads of one key are sent once"))
        .arg(number("retry-for", "MS", 600_000, defaults.retry_for.as_millis(), "Try requests again for this long while their node cannot be reached"))
        .arg(number("node-timeout", "MS", 3_600_000, defaults.node_timeout.as_millis(), "Give a node up that owes a reply and is silent for this long"))
        .arg(number("pipeline-max", "N", 1 << 20, defaults.pipeline_max as u128, "Most requests of a client that wait for replies; it is not read meanwhile"))
        .arg(number("request-max", "BYTES", 1 << 40, defaults.request_len_max as u128, "Longest argument of a request"))
        .arg(number("output-max", "BYTES", 1 << 40, defaults.output_max as u128, "Close the connection of a client with more replies that it has not fetched"))
        .arg(
            Arg::new("tls-nodes")
                .long("tls-nodes")
                .action(ArgAction::SetTrue)
                .help("Reach the nodes over TLS"),
        )
        .arg(file("tls-ca-cert-file").help("The authority whose certificates nodes and clients must show"))
        .arg(file("tls-cert-file").help("The proxy's certificate, for clients and for nodes that ask for one"))
        .arg(file("tls-key-file").help("Its key"))
        .arg(
            Arg::new("tls-auth-clients")
                .long("tls-auth-clients")
                .value_parser(["yes", "no", "optional"])
                .default_value("yes")
                .help("Whether clients over TLS must show a certificate of the authority"),
        )
        .arg(
            Arg::new("loglevel")
                .long("loglevel")
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
    let path = |name| flags.get_one::<PathBuf>(name).cloned();
    let user = flags.get_one::<String>("user").expect("it has a default");
    let auth_clients = match flags.get_one::<String>("tls-auth-clients").map(String::as_str) {
        Some("no") => AuthClients::No,
        Some("optional") => AuthClients::Optional,
        _ => AuthClients::Yes,
    };
    Ok(Settings {
        listen: addresses("listen"),
        tls_listen: addresses("tls-listen"),
        nodes: flags.get_many::<String>("node").into_iter().flatten().cloned().collect(),
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
