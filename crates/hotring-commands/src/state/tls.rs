//! TLS: the certificates and keys for new connections.
//!
//! A connection's handshake runs on the thread that will serve the connection (`worker`); afterwards the connection is
//! a stream like any other. When the files are reloaded, open connections keep their certificates.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::server::danger::ClientCertVerifier;
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig, SupportedProtocolVersion};

use crate::settings::config::{AuthClients, Protocols, TlsSettings};

/// The TLS versions that the setting allows.
fn versions(protocols: Protocols) -> Vec<&'static SupportedProtocolVersion> {
    match protocols {
        Protocols::Both => vec![&TLS13, &TLS12],
        Protocols::Tls12 => vec![&TLS12],
        Protocols::Tls13 => vec![&TLS13],
    }
}

/// A fault in the setup of TLS, for the operator.
#[derive(Debug)]
pub struct TlsError(String);

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The configuration of new connections, if TLS is on.
#[derive(Debug, Default)]
pub struct Tls(RwLock<Option<Arc<ServerConfig>>>);

impl Tls {
    /// The configuration of the next connection.
    pub fn current(&self) -> Option<Arc<ServerConfig>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads the files; if there is a fault in them, the previous configuration stays in force.
    pub fn load(&self, settings: &TlsSettings) -> Result<(), TlsError> {
        let read = read(settings)?;
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(read));
        Ok(())
    }
}

fn read(settings: &TlsSettings) -> Result<ServerConfig, TlsError> {
    // Chosen here and not for the entire process, because the server may be embedded.
    let provider = Arc::new(ring::default_provider());
    let certificates = certificates(named(&settings.cert_file, "tls-cert-file")?)?;
    let key_file = named(&settings.key_file, "tls-key-file")?;
    let key = PrivateKeyDer::from_pem_file(key_file).map_err(|e| unreadable(key_file, &e))?;
    let verifier = verifier(settings, &provider)?;
    let builder = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&versions(settings.protocols))
        .map_err(|e| TlsError(format!("TLS cannot be set up: {e}")))?;
    let builder = match verifier {
        Some(verifier) => builder.with_client_cert_verifier(verifier),
        None => builder.with_no_client_auth(),
    };
    builder.with_single_cert(certificates, key).map_err(|e| {
        TlsError(format!("the key of {} does not go with the certificate: {e}", key_file.display()))
    })
}

/// The configuration of a link to a primary. The primary's certificate must come from an authority in
/// `tls-ca-cert-file`; the server's own certificate, if it has one, is shown to primaries that ask for it.
pub fn client(settings: &TlsSettings) -> Result<Arc<ClientConfig>, TlsError> {
    let provider = Arc::new(ring::default_provider());
    let roots = roots(named(&settings.ca_cert_file, "tls-ca-cert-file")?)?;
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&versions(settings.protocols))
        .map_err(|e| TlsError(format!("TLS cannot be set up: {e}")))?
        .with_root_certificates(roots);
    let (Some(file), Some(key_file)) = (&settings.cert_file, &settings.key_file) else {
        return Ok(Arc::new(builder.with_no_client_auth()));
    };
    let key = PrivateKeyDer::from_pem_file(key_file).map_err(|e| unreadable(key_file, &e))?;
    let config = builder.with_client_auth_cert(certificates(file)?, key);
    Ok(Arc::new(config.map_err(|e| TlsError(format!("{}: {e}", file.display())))?))
}

fn roots(file: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(file)? {
        roots.add(certificate).map_err(|e| TlsError(format!("{}: {e}", file.display())))?;
    }
    Ok(roots)
}

fn named<'a>(file: &'a Option<PathBuf>, setting: &str) -> Result<&'a Path, TlsError> {
    file.as_deref().ok_or_else(|| TlsError(format!("TLS needs the setting {setting}")))
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let read = read.map_err(|e| unreadable(file, &e))?;
    if read.is_empty() {
        return Err(unreadable(file, &pem::Error::NoItemsFound));
    }
    Ok(read)
}

fn unreadable(file: &Path, error: &pem::Error) -> TlsError {
    TlsError(format!("cannot read {}: {error}", file.display()))
}

fn verifier(
    settings: &TlsSettings,
    provider: &Arc<CryptoProvider>,
) -> Result<Option<Arc<dyn ClientCertVerifier>>, TlsError> {
    if settings.auth_clients == AuthClients::No {
        return Ok(None);
    }
    let Some(file) = &settings.ca_cert_file else {
        return Err(TlsError(
            "clients are asked for a certificate: TLS needs the setting tls-ca-cert-file, or \
             tls-auth-clients no"
                .to_string(),
        ));
    };
    let roots = roots(file)?;
    let builder = WebPkiClientVerifier::builder_with_provider(roots.into(), provider.clone());
    let builder = match settings.auth_clients {
        AuthClients::Optional => builder.allow_unauthenticated(),
        _ => builder,
    };
    builder.build().map(Some).map_err(|e| TlsError(format!("{}: {e}", file.display())))
}
