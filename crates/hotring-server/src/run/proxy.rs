//! The proxy of a node of a cluster (`proxy-listen`, `proxy-memcached`).

use std::net::SocketAddr;
use std::sync::Arc;

use hotring_commands::host::start_error::StartError;
use hotring_commands::state::server::Server;
use hotring_proxy::{Proxy, Settings};

/// Starts the proxy, if the settings want one.
pub(super) fn start(
    server: &Arc<Server>,
    tls_addresses: &[SocketAddr],
) -> Result<Option<Proxy>, StartError> {
    let config = server.settings.config();
    let cluster = &config.replication.cluster;
    if cluster.proxy_listen.is_empty() && cluster.proxy_memcached.is_empty() {
        return Ok(None);
    }
    let failed = |why: &str| StartError::new(format!("cannot start the proxy: {why}"));
    if cluster.coordinator.is_none() {
        return Err(failed("proxy-listen and proxy-memcached are for nodes of a cluster"));
    }
    let tls = config.replication.tls;
    let own = if tls { tls_addresses } else { &server.process.addresses[..] };
    let own = own.first().ok_or_else(|| failed("this node has no address of its own"))?;
    let login = match (&config.replication.user[..], config.replication.password.reveal()) {
        (_, "") => None,
        ("", password) => Some(("default".to_string(), password.to_string())),
        (user, password) => Some((user.to_string(), password.to_string())),
    };
    let guarding = server.clone();
    let admits = move |peer, is_memcached| !guarding.is_proxy_protected_from(peer, is_memcached);
    let proxy = Proxy::start_guarded(
        Settings {
            listen: cluster.proxy_listen.clone(),
            memcached: cluster.proxy_memcached.clone(),
            nodes: vec![reachable(*own).to_string()],
            login: login.clone(),
            memcached_login: login,
            memcached_item_len_max: config.memcached.value_len_max,
            tls_nodes: tls,
            tls: config.tls.clone(),
            threads: config.threads,
            clients_max: config.maxclients,
            request_len_max: config.bulk_len_max,
            ..Settings::default()
        },
        Box::new(admits),
    );
    proxy.map(Some).map_err(|why| failed(&why))
}

/// An address at which this machine reaches what listens there.
fn reachable(address: SocketAddr) -> SocketAddr {
    match (address.ip().is_unspecified(), address.is_ipv4()) {
        (false, _) => address,
        (true, true) => SocketAddr::from(([127, 0, 0, 1], address.port())),
        (true, false) => SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, address.port())),
    }
}
