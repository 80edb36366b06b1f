//! A primary under `ack replicated`, and its one in-sync replica behind a proxy.

use hotring_server::Config;

use super::proxy::Proxy;
use super::{address, follow, wait_for, wait_until_up};
use crate::wire::{TestServer, Wire, ok};

pub struct Pair {
    pub primary: TestServer,
    pub replica: TestServer,
    pub proxy: Proxy,
}

impl Pair {
    pub fn new() -> Pair {
        Pair::with(|_| {})
    }

    /// Both servers with these settings. The replica may be late for seconds, as machines of tests are busy.
    pub fn with(change: impl Fn(&mut Config)) -> Pair {
        let change = |config: &mut Config| {
            (config.replication.lease_ms, config.replication.in_sync_lag_ms) =
                (Some(8_000), Some(7_000));
            change(config);
        };
        let replica = TestServer::with(change);
        let primary = TestServer::with(change);
        let proxy = Proxy::new(primary.address);
        let mut r = replica.connect();
        follow(&mut r, proxy.port());
        wait_until_up(&mut r);
        let set = format!("CONFIG SET ack replicated in-sync-replicas {}", address(&replica));
        assert_eq!(primary.connect().say(&set), ok());
        let pair = Pair { primary, replica, proxy };
        pair.wait_until_in_sync();
        pair
    }

    pub fn wait_until_in_sync(&self) {
        wait_for("the replica is in sync", || self.connect().say("SET begun 1") == ok());
    }

    /// A connection to the primary.
    pub fn connect(&self) -> Wire {
        self.primary.connect()
    }

    /// Makes the replica the primary. The old one must not serve any more.
    pub fn promote(&self) {
        assert_eq!(self.replica.connect().say("REPLICAOF NO ONE"), ok());
    }
}
