//! The addresses of etcd's members: `etcd://a:2379,b:2379`, or `etcds://` for TLS.

use std::fmt;
use std::str::FromStr;

/// The port of a member that names none.
const PORT: u16 = 2379;

/// Most members.
const MEMBERS_MAX: usize = 32;

/// Where etcd is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdAddress {
    /// Host and port of each member, or of a proxy before them.
    pub members: Vec<(String, u16)>,
    /// The connections are TLS.
    pub tls: bool,
}

/// A text that is no address of etcd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadAddress(String);

impl fmt::Display for BadAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; write etcd://HOST:PORT,HOST:PORT, or etcds:// for TLS", self.0)
    }
}

impl std::error::Error for BadAddress {}

impl FromStr for EtcdAddress {
    type Err = BadAddress;

    fn from_str(text: &str) -> Result<Self, BadAddress> {
        let (tls, members) = match (text.strip_prefix("etcd://"), text.strip_prefix("etcds://")) {
            (Some(members), _) => (false, members),
            (_, Some(members)) => (true, members),
            (None, None) => return Err(BadAddress(format!("'{text}' is no address of etcd"))),
        };
        if members.contains('@') {
            let why = "user and password do not belong in the address, which others may see";
            return Err(BadAddress(why.to_owned()));
        }
        let members: Vec<_> = members.split(',').map(member).collect::<Result<_, _>>()?;
        if members.len() > MEMBERS_MAX {
            let why =
                format!("{} members of etcd; at most {MEMBERS_MAX} are allowed", members.len());
            return Err(BadAddress(why));
        }
        Ok(EtcdAddress { members, tls })
    }
}

fn member(text: &str) -> Result<(String, u16), BadAddress> {
    let bad = |why: &str| BadAddress(format!("'{text}' is no member of etcd: {why}"));
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']').ok_or_else(|| bad("a bracket is missing"))?;
            (host, port.strip_prefix(':').or((port.is_empty()).then_some("")))
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port).filter(|port| !port.is_empty())),
            None => (text, Some("")),
        },
    };
    let may_be = |c: char| c.is_ascii_alphanumeric() || "-._:%".contains(c);
    if host.is_empty() || !host.chars().all(may_be) {
        return Err(bad("the host is missing, or no name"));
    }
    let port = match port {
        Some("") => PORT,
        port => port
            .and_then(|port| port.parse().ok())
            .filter(|port| *port != 0)
            .ok_or_else(|| bad("the port is no number from 1 to 65535"))?,
    };
    Ok((host.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read() {
        let read = |text: &str| {
            let address: EtcdAddress = text.parse().unwrap();
            (address.members, address.tls)
        };
        let member = |host: &str, port| (host.to_owned(), port);
        assert_eq!(read("etcd://a:1,b"), (vec![member("a", 1), member("b", 2379)], false));
        assert_eq!(read("etcds://[::1]:7,[fe80::1%eth0]").0[0], member("::1", 7));
        assert!(read("etcds://10.0.0.1").1);
    }

    #[test]
    fn what_is_no_address_is_told() {
        let bad = [
            ("http://a", "no address of etcd"),
            ("etcd://", "the host is missing"),
            ("etcd://a,,b", "the host is missing"),
            ("etcd://a:0", "the port"),
            ("etcd://a:", "the port"),
            ("etcd://a:65536", "the port"),
            ("etcd://[::1", "a bracket"),
            ("etcd://[::1]7", "the port"),
            ("etcd://a/b", "no name"),
            ("etcd://root:secret@a:1", "do not belong"),
        ];
        for (text, why) in bad {
            let error = text.parse::<EtcdAddress>().unwrap_err().to_string();
            assert!(error.contains(why) && !error.contains("secret"), "{text}: {error}");
        }
    }
}
