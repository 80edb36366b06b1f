//! The settings of TLS.

use std::path::PathBuf;

/// The settings of TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsSettings {
    /// `ADDR:PORT` of each listener; empty means the addresses of `bind` and `port`.
    pub listen: Vec<String>,
    /// The port for the addresses of `bind`; 0 for none.
    pub port: u16,
    /// PEM file of the server's certificate and those between it and a root.
    pub cert_file: Option<PathBuf>,
    /// PEM file of its private key.
    pub key_file: Option<PathBuf>,
    /// PEM file of the certificates that clients' ones have to come from.
    pub ca_cert_file: Option<PathBuf>,
    /// Whether clients have to show a certificate.
    pub auth_clients: AuthClients,
    /// Which versions are spoken.
    pub protocols: Protocols,
}

/// Whether clients have to show a certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AuthClients {
    /// They have to.
    #[default]
    Yes,
    /// They are not asked.
    No,
    /// They are asked; if they show one it has to be good.
    Optional,
}

/// Which versions of the protocol are spoken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocols {
    /// 1.2 and 1.3.
    #[default]
    Both,
    /// 1.2 alone.
    Tls12,
    /// 1.3 alone.
    Tls13,
}
