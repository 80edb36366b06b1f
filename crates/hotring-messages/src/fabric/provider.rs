//! The providers of libfabric that are offered, and where their endpoints listen.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs, UdpSocket};

use crate::sockets::UNIX;

/// How messages travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provider {
    /// Memory that processes of one machine and one user share.
    Shm,
    /// TCP connections.
    Tcp,
    /// RDMA by InfiniBand's verbs.
    Verbs,
    /// The adapter of Amazon's machines.
    Efa,
}

impl Provider {
    /// All of them.
    pub const ALL: [Provider; 4] = [Provider::Shm, Provider::Tcp, Provider::Verbs, Provider::Efa];

    /// The name in an address.
    pub fn name(self) -> &'static str {
        match self {
            Provider::Shm => "shm",
            Provider::Tcp => "tcp",
            Provider::Verbs => "verbs",
            Provider::Efa => "efa",
        }
    }

    /// Splits `PROVIDER,ADDRESS`. An address alone is that of sockets.
    pub fn split(text: &str) -> (Option<Provider>, &str) {
        let found = Provider::ALL.into_iter().find_map(|provider| {
            let address = text.strip_prefix(provider.name())?.strip_prefix(',')?;
            Some((provider, address))
        });
        found.map_or((None, text), |(provider, address)| (Some(provider), address))
    }

    /// The library's name of the provider of reliable datagrams.
    pub(super) fn of_library(self) -> &'static str {
        match self {
            Provider::Shm => "shm",
            Provider::Tcp => "tcp;ofi_rxm",
            Provider::Verbs => "verbs;ofi_rxm",
            Provider::Efa => "efa",
        }
    }

    /// Whether its addresses are those of IP.
    pub(super) fn has_ip(self) -> bool {
        matches!(self, Provider::Tcp | Provider::Verbs)
    }

    /// Whether such an endpoint may listen there.
    pub fn check(self, address: &str) -> Result<(), String> {
        match self == Provider::Shm && !address.starts_with(UNIX) {
            true => {
                Err(format!("must be such as shm,{UNIX}PATH: clients of shm are on this machine"))
            }
            false => Ok(()),
        }
    }
}

/// The IP address under which a peer of an address of sockets reaches this machine.
pub(super) fn own_ip(address: &str) -> io::Result<IpAddr> {
    if address.starts_with(UNIX) {
        return Ok(Ipv4Addr::LOCALHOST.into());
    }
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for peer in address.to_socket_addrs()? {
        match ip_towards(peer) {
            Ok(ip) => return Ok(ip),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Nothing is sent: the system only chooses a route.
fn ip_towards(peer: SocketAddr) -> io::Result<IpAddr> {
    let any: IpAddr = match peer {
        SocketAddr::V4(_) => [0; 4].into(),
        SocketAddr::V6(_) => [0; 16].into(),
    };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(peer)?;
    Ok(socket.local_addr()?.ip())
}

/// The IP address in the address of an endpoint, which is a `sockaddr`.
pub(super) fn ip_of(name: &[u8]) -> Option<IpAddr> {
    let family = i32::from(u16::from_ne_bytes(*name.first_chunk()?));
    match family {
        libc::AF_INET => Some(IpAddr::from(*name.get(4..)?.first_chunk::<4>()?)),
        libc::AF_INET6 => Some(IpAddr::from(*name.get(8..)?.first_chunk::<16>()?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_providers_part_an_address() {
        assert_eq!(Provider::split("shm,unix:/a,b"), (Some(Provider::Shm), "unix:/a,b"));
        assert_eq!(Provider::split("tcp,h:1"), (Some(Provider::Tcp), "h:1"));
        for plain in ["unix:/a,b", "h:1", "shm", "shmem,h:1", ""] {
            assert_eq!(Provider::split(plain), (None, plain));
        }
    }

    #[test]
    fn shared_memory_needs_a_unix_socket() {
        assert!(Provider::Shm.check("127.0.0.1:1").is_err());
        assert!(Provider::Shm.check("unix:/s").is_ok());
        assert!(Provider::Tcp.check("127.0.0.1:1").is_ok());
    }

    #[test]
    fn the_ip_of_a_name_is_read() {
        let family = (libc::AF_INET as u16).to_ne_bytes();
        let name = [family[0], family[1], 1, 2, 10, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(ip_of(&name), Some([10, 0, 0, 7].into()));
        assert_eq!(ip_of(&name[..6]), None);
        assert_eq!(ip_of(b"fi_shm://hotring"), None);
    }
}
