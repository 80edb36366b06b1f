//! What a node of a cluster is called: its name, which it keeps over restarts, and what it tells the others.

use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::SocketAddr;
use std::path::Path;

use hotring_cluster::NodeId;
use hotring_cluster::directory::Node;
use hotring_commands::host::files::replace;
use hotring_commands::host::start_error::StartError;
use hotring_commands::settings::config::Config;

/// The name of the file in the folder of the log.
const NAME: &str = "node-id";

/// The node's name: that of the file in `folder`, or else `new`, which is then kept there.
///
/// # Errors
/// The file cannot be read or written, or has no name.
pub(crate) fn node_id(folder: Option<&Path>, new: NodeId) -> Result<NodeId, StartError> {
    let Some(path) = folder.map(|folder| folder.join(NAME)) else { return Ok(new) };
    let failed = |why: &dyn std::fmt::Display| {
        StartError::new(format!("cannot start: the node's name in {}: {why}", path.display()))
    };
    match fs::read_to_string(&path) {
        Ok(text) => NodeId::parse(text.trim()).ok_or_else(|| {
            failed(&"it must be 40 hexadecimal digits. To join as a new node, begin with an empty folder")
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            replace(&path, format!("{new}\n").as_bytes()).map_err(|why| failed(&why))?;
            Ok(new)
        }
        Err(error) => Err(failed(&error)),
    }
}

/// Which boot of the machine this is.
pub(crate) fn boot_id() -> String {
    boot_of(fs::read_to_string("/proc/sys/kernel/random/boot_id"))
}

/// The boot of this text. Without it each start counts as one after a power cut.
fn boot_of(read: io::Result<String>) -> String {
    let unlike = || RandomState::new().hash_one(std::process::id());
    read.map_or_else(|_| format!("unknown {:x}", unlike()), |text| text.trim().to_string())
}

/// What the others are told, if the server listens on these addresses.
///
/// # Errors
/// They could not reach it.
pub(crate) fn announced(
    config: &Config,
    addresses: &[SocketAddr],
    tls: &[SocketAddr],
) -> Result<Node, StartError> {
    let settings = &config.replication.cluster;
    let first = addresses.first().or(tls.first());
    let first = first.ok_or_else(|| {
        StartError::new("cannot start: a node of a cluster must listen on a TCP address")
    })?;
    let host = match &settings.announce_host[..] {
        "" if first.ip().is_unspecified() => {
            return Err(StartError::new(format!(
                "cannot start: others cannot reach {}: name the address for them by announce-host",
                first.ip()
            )));
        }
        "" => first.ip().to_string(),
        host => host.to_string(),
    };
    let port = match settings.announce_port {
        0 => addresses.first().map_or(0, SocketAddr::port),
        port => port,
    };
    let tls_port = tls.first().map(|first| match settings.announce_tls_port {
        0 => first.port(),
        port => port,
    });
    Ok(Node { host, port, tls_port, zone: settings.zone.clone(), weight: settings.weight })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_keeps_its_name_while_its_folder_lives() {
        let folder = std::env::temp_dir().join(format!("hotring-node-id-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (one, two) = (NodeId([1; 20]), NodeId([2; 20]));
        assert_eq!(node_id(Some(&folder), one).unwrap(), one);
        assert_eq!(node_id(Some(&folder), two).unwrap(), one);
        assert_eq!(node_id(None, two).unwrap(), two);
        fs::write(folder.join(NAME), "12").unwrap();
        let error = node_id(Some(&folder), two).unwrap_err().to_string();
        assert!(error.contains("40 hexadecimal digits"), "{error}");
        fs::remove_dir_all(&folder).unwrap();
    }

    /// All boots that could not be told were the same one, so a power cut between two of them went unnoticed.
    #[test]
    fn a_boot_that_cannot_be_told_is_like_no_other() {
        let unknown = || boot_of(Err(io::ErrorKind::NotFound.into()));
        assert_ne!(unknown(), unknown());
        assert_eq!(boot_of(Ok("a\n".into())), "a");
    }

    #[test]
    fn a_node_tells_where_it_is_reached() {
        let mut config = Config::default();
        let all = [SocketAddr::from(([0, 0, 0, 0], 7))];
        let one = [SocketAddr::from(([127, 0, 0, 1], 8))];
        let node = announced(&config, &one, &all).unwrap();
        assert_eq!((&node.host[..], node.port, node.tls_port), ("127.0.0.1", 8, Some(7)));
        let error = announced(&config, &all, &[]).unwrap_err().to_string();
        assert!(error.contains("announce-host"), "{error}");
        assert!(announced(&config, &[], &[]).is_err());
        config.replication.cluster.announce_host = "a.example".into();
        config.replication.cluster.announce_port = 9;
        config.replication.cluster.announce_tls_port = 10;
        let node = announced(&config, &all, &one).unwrap();
        assert_eq!((&node.host[..], node.port, node.tls_port), ("a.example", 9, Some(10)));
        let node = announced(&config, &all, &[]).unwrap();
        assert_eq!((node.port, node.tls_port), (9, None), "it does not listen for TLS");
    }
}
