//! The settings of TLS.

use std::path::PathBuf;

/// The settings of TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsSettings {
    /// `ADDR:PORT` of each listener; empty means the addresses of `bind` and `port`.
    pub listen: Vec<String>,
    /// The port for the addresses of `bind`; 0 for none.
    pub port: u16,
    /// The PEM file of the server's certificate and the intermediate certificates.
    pub cert_file: Option<PathBuf>,
    /// The PEM file of the certificate's private key.
    pub key_file: Option<PathBuf>,
    /// The PEM file of the authorities that must have issued clients' certificates.
    pub ca_cert_file: Option<PathBuf>,
    /// Whether clients have to show a certificate.
    pub auth_clients: AuthClients,
    /// The accepted versions of TLS.
    pub protocols: Protocols,
}

/// Whether clients have to show a certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AuthClients {
    /// Clients must present a valid certificate.
    #[default]
    Yes,
    /// Clients are not asked for a certificate.
    No,
    /// Clients may present a certificate, which then must be valid.
    Optional,
}

/// The accepted versions of TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocols {
    /// TLS 1.2 and 1.3.
    #[default]
    Both,
    /// TLS 1.2 only.
    Tls12,
    /// TLS 1.3 only.
    Tls13,
}
