//! The access setting (`no`, `local`, `yes`) of dangerous commands.

use std::net::SocketAddr;

/// The connections that may use a dangerous command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Guard {
    /// No connections.
    #[default]
    No,
    /// All connections.
    Yes,
    /// Connections from the same machine.
    Local,
}

impl Guard {
    const NAMES: [(Guard, &'static str); 3] =
        [(Guard::No, "no"), (Guard::Yes, "yes"), (Guard::Local, "local")];

    /// Redis's name of the value.
    pub(crate) fn name(self) -> &'static str {
        Self::NAMES.iter().find(|n| n.0 == self).map_or("no", |n| n.1)
    }

    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let named = Self::NAMES.iter().find(|n| n.1.eq_ignore_ascii_case(text));
        named.map(|n| n.0).ok_or_else(|| "must be 'no', 'yes' or 'local'".to_string())
    }

    /// Whether a connection from this address, as shown by CLIENT LIST, may use the command.
    pub(crate) fn allows(self, peer: &str) -> bool {
        match self {
            Guard::No => false,
            Guard::Yes => true,
            Guard::Local => {
                let is_loopback = |a: SocketAddr| a.ip().to_canonical().is_loopback();
                // The address of a connection by a unix socket is the socket's path.
                peer.starts_with('/') || peer.parse().is_ok_and(is_loopback)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Guard;

    #[test]
    fn loopback_and_unix_peers_are_local() {
        for (peer, is_local) in [
            ("127.0.0.1:5000", true),
            ("127.3.2.1:5000", true),
            ("[::1]:5000", true),
            ("[::ffff:127.0.0.1]:5000", true),
            ("/run/hotring.sock:0", true),
            ("192.168.1.1:5000", false),
            ("[fe80::1]:5000", false),
            ("nonsense", false),
        ] {
            assert_eq!(Guard::Local.allows(peer), is_local, "{peer}");
            assert!(Guard::Yes.allows(peer) && !Guard::No.allows(peer));
        }
        assert_eq!(Guard::parse("LOCAL"), Ok(Guard::Local));
        assert!(Guard::parse("maybe").is_err());
    }
}
