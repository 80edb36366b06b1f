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

use crate::client::PASSWORD;

/// The records of a cluster at its coordinator.
pub(super) struct Records {
    coordinator: Arc<dyn Coordinator>,
    runtime: LocalRuntime,
    /// Ctrl-C, from the first wait on: before that it ends the command as usual.
    interrupts: RefCell<Option<Signal>>,
}

/// The flags that name a coordinator.
pub(super) fn address_args() -> [Arg; 3] {
    let flag =
        |name: &'static str, value: &'static str| Arg::new(name).long(name).value_name(value);
    [
        flag("coordinator", "ADDRESS")
            .required(true)
            .help("The coordinator, as the nodes' setting names it; of the embedded one HOST:PORT of its node"),
        flag("cluster-name", "NAME")
            .default_value("hotring")
            .help("The prefix of the records, as the nodes' setting has it"),
        flag("user", "NAME")
            .default_value("")
            .help(format!("Log in as this user, with the password in the variable {PASSWORD}")),
    ]
}

impl Records {
    /// The records that the flags name. The coordinator need not answer yet.
    pub(super) fn connect(flags: &ArgMatches) -> Result<Records, String> {
        let mut config = Config::default();
        for name in ["coordinator", "cluster-name"] {
            let value = flags.get_one::<String>(name).expect("it is required or has a default");
            config.set(name, value, &format!("--{name}")).map_err(|why| why.to_string())?;
        }
        let user = flags.get_one::<String>("user").expect("it has a default");
        let password = std::env::var(PASSWORD).unwrap_or_default();
        let both = [("masteruser", "masterauth"), ("coordinator-user", "coordinator-password")];
        let both = both.into_iter().flat_map(|(name, word)| [(name, user), (word, &password)]);
        for (name, value) in both {
            config.set(name, value, name).map_err(|why| why.to_string())?;
        }
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
