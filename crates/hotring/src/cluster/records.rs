//! The way of the command line to a cluster's records.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use clap::{Arg, ArgMatches};
use hotring_cluster::directory::Directory;
use hotring_commands::host::threads;
use hotring_coordinator::{Coordinator, Outcome, Transaction};
use hotring_server::Config;
use tokio::runtime::LocalRuntime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_rustls::rustls::ClientConfig;

use crate::client::{PASSWORD, password};

/// The records of a cluster at its coordinator.
pub(super) struct Records {
    coordinator: Arc<dyn Coordinator>,
    runtime: LocalRuntime,
    /// Ctrl-C, from the first wait on: before that it ends the command as usual.
    interrupts: RefCell<Option<Signal>>,
}

/// The settings of TLS that are flags here as well. Each of them turns TLS on.
const TLS_FILES: [(&str, &str); 3] = [
    (
        "tls-ca-cert-file",
        "PEM file of the authorities that must have signed the coordinator's certificate",
    ),
    ("tls-cert-file", "PEM file of the certificate to show to the coordinator"),
    ("tls-key-file", "PEM file of that certificate's private key"),
];

/// The flags that name a coordinator, and the way to it.
pub(super) fn address_args() -> Vec<Arg> {
    let flag =
        |name: &'static str, value: &'static str| Arg::new(name).long(name).value_name(value);
    let mut flags = vec![
        flag("coordinator", "ADDRESS")
            .required(true)
            .help("The coordinator, as the nodes' setting names it; of the embedded one HOST:PORT of its node"),
        flag("cluster-name", "NAME")
            .default_value("hotring")
            .help("The prefix of the records, as the nodes' setting has it"),
        flag("user", "NAME")
            .default_value("")
            .help(format!("Log in as this user, with the password in the variable {PASSWORD} or of --password-file")),
        flag("password-file", "FILE").help("Take the password from the first line of this file"),
    ];
    flags.extend(TLS_FILES.map(|(name, help)| flag(name, "FILE").help(help)));
    flags
}

/// The settings for the way to a coordinator.
fn config(flags: &ArgMatches) -> Result<Config, String> {
    let mut config = Config::default();
    let mut set = |name: &str, value: &str, from: &str| {
        config.set(name, value, from).map_err(|why| why.to_string())
    };
    for name in ["coordinator", "cluster-name"] {
        let value = flags.get_one::<String>(name).expect("it is required or has a default");
        set(name, value, &format!("--{name}"))?;
    }
    let user = flags.get_one::<String>("user").expect("it has a default");
    let password = password(flags.get_one::<String>("password-file"))?;
    for (name, word) in [("masteruser", "masterauth"), ("coordinator-user", "coordinator-password")]
    {
        set(name, user, "--user")?;
        set(word, &password, "the password")?;
    }
    for (name, _) in TLS_FILES {
        if let Some(file) = flags.get_one::<String>(name) {
            set(name, file, &format!("--{name}"))?;
            // Of an etcd its address says whether it speaks TLS.
            set("tls-replication", "yes", &format!("--{name}"))?;
        }
    }
    Ok(config)
}

/// TLS to the nodes, if the flags name its files.
pub(super) fn tls(flags: &ArgMatches) -> Result<Option<Arc<ClientConfig>>, String> {
    let has_files = TLS_FILES.iter().any(|(name, _)| flags.get_one::<String>(name).is_some());
    match has_files {
        true => {
            let client = hotring_commands::state::tls::client(&config(flags)?.tls);
            client.map(Some).map_err(|why| why.to_string())
        }
        false => Ok(None),
    }
}

impl Records {
    /// The records that the flags name. The coordinator need not answer yet.
    pub(super) fn connect(flags: &ArgMatches) -> Result<Records, String> {
        let config = config(flags)?;
        let coordinator = hotring_server::coordinator(&config).map_err(|why| why.to_string())?;
        let runtime = threads::event_loop().map_err(|why| why.to_string())?;
        Ok(Records { coordinator, runtime, interrupts: RefCell::default() })
    }

    /// All records.
    pub(super) fn read(&self) -> Result<Directory, String> {
        let read = self.runtime.block_on(self.coordinator.read());
        let snapshot = read.map_err(|why| {
            format!("{why}. Is its node up, and is its setting coordinator 'embedded'?")
        })?;
        let records = snapshot.records.iter();
        let records = records.map(|record| (&record.name[..], record.revision, &record.value[..]));
        Directory::read(records).map_err(|why| why.to_string())
    }

    /// Makes changes if the records are as expected.
    pub(super) fn transact(&self, transaction: &Transaction) -> Result<Outcome, String> {
        let done = self.runtime.block_on(self.coordinator.transact(transaction));
        done.map_err(|why| format!("{why}. See 'hotring cluster status' for what became of it"))
    }

    /// Waits, and tells whether Ctrl-C has come meanwhile.
    pub(super) fn is_interrupted(&self, wait: Duration) -> Result<bool, String> {
        let mut interrupts = self.interrupts.borrow_mut();
        self.runtime.block_on(async {
            if interrupts.is_none() {
                let signals = signal(SignalKind::interrupt()).map_err(|why| why.to_string())?;
                *interrupts = Some(signals);
            }
            let signals = interrupts.as_mut().expect("it was just made");
            Ok(tokio::time::timeout(wait, signals.recv()).await.is_ok())
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Command;

    use super::*;

    fn configured(words: &[&str]) -> Result<Config, String> {
        let words = ["x", "--coordinator", "h:1"].iter().chain(words);
        config(&Command::new("x").args(address_args()).get_matches_from(words))
    }

    #[test]
    fn the_way_to_a_coordinator_has_a_user_a_password_and_tls() {
        let file = std::env::temp_dir().join(format!("hotring-password-{}", std::process::id()));
        let name = file.display().to_string();
        assert!(configured(&["--password-file", &name]).unwrap_err().contains(&name));
        std::fs::write(&file, "\nsecret").unwrap();
        let error = configured(&["--password-file", &name]).unwrap_err();
        assert!(error.contains("no password") && !error.contains("secret"), "{error}");
        std::fs::write(&file, "secret\nnext").unwrap();
        let config = configured(&["--user", "u", "--password-file", &name]).unwrap();
        std::fs::remove_file(&file).unwrap();
        let (node, etcd) = (&config.replication, &config.replication.cluster);
        assert_eq!((&node.user[..], node.password.reveal(), node.tls), ("u", "secret", false));
        assert_eq!((&etcd.user[..], etcd.password.reveal()), ("u", "secret"));
        let config = configured(&["--tls-ca-cert-file", "/ca.pem"]).unwrap();
        assert!(config.replication.tls);
        assert_eq!(config.tls.ca_cert_file.as_deref(), Some("/ca.pem".as_ref()));
    }
}
