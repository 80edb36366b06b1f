//! Settings of TLS.

use std::path::PathBuf;

use crate::settings::config::{AuthClients, Protocols};
use crate::settings::setting::{Change, Setting};
use crate::settings::values::number;

pub(super) static TLS: &[Setting] = &[
    Setting {
        name: "tls-listen",
        alias: "",
        placeholder: "ADDR:PORT",
        help: "Address and port for TLS; may be given several times; replaces tls-port",
        change: Change::Start,
        get: |c| c.tls.listen.join(" "),
        set: |c, v| {
            c.tls.listen.extend(v.split_whitespace().map(str::to_string));
            Ok(())
        },
    },
    Setting {
        name: "tls-port",
        alias: "",
        placeholder: "PORT",
        help: "Port for TLS at the addresses of bind; 0: none",
        change: Change::Start,
        get: |c| c.tls.port.to_string(),
        set: |c, v| number(v, 0, u16::MAX).map(|n| c.tls.port = n),
    },
    Setting {
        name: "tls-cert-file",
        alias: "",
        placeholder: "PATH",
        help: "PEM file of the server's certificate and its intermediates; SIGHUP reloads all three files",
        change: Change::Protected,
        get: |c| path_text(&c.tls.cert_file),
        set: |c, v| path(v).map(|p| c.tls.cert_file = p),
    },
    Setting {
        name: "tls-key-file",
        alias: "",
        placeholder: "PATH",
        help: "PEM file of the server's private key",
        change: Change::Protected,
        get: |c| path_text(&c.tls.key_file),
        set: |c, v| path(v).map(|p| c.tls.key_file = p),
    },
    Setting {
        name: "tls-ca-cert-file",
        alias: "",
        placeholder: "PATH",
        help: "PEM file of the authorities that must have signed clients' certificates",
        change: Change::Protected,
        get: |c| path_text(&c.tls.ca_cert_file),
        set: |c, v| path(v).map(|p| c.tls.ca_cert_file = p),
    },
    Setting {
        name: "tls-auth-clients",
        alias: "",
        placeholder: "yes|no|optional",
        help: "Whether clients must present a certificate; optional: only a presented one is checked",
        change: Change::Running,
        get: |c| {
            match c.tls.auth_clients {
                AuthClients::Yes => "yes",
                AuthClients::No => "no",
                AuthClients::Optional => "optional",
            }
            .to_string()
        },
        set: |c, v| {
            c.tls.auth_clients = match v.to_ascii_lowercase().as_str() {
                "yes" => AuthClients::Yes,
                "no" => AuthClients::No,
                "optional" => AuthClients::Optional,
                _ => return Err("must be 'yes', 'no' or 'optional'".to_string()),
            };
            Ok(())
        },
    },
    Setting {
        name: "tls-protocols",
        alias: "",
        placeholder: "VERSIONS",
        help: "TLSv1.2, TLSv1.3, or both, separated by a space",
        change: Change::Running,
        get: |c| {
            match c.tls.protocols {
                Protocols::Both => "TLSv1.2 TLSv1.3",
                Protocols::Tls12 => "TLSv1.2",
                Protocols::Tls13 => "TLSv1.3",
            }
            .to_string()
        },
        set: |c, v| {
            let mut versions: Vec<String> =
                v.split_whitespace().map(str::to_ascii_lowercase).collect();
            versions.sort();
            versions.dedup();
            c.tls.protocols = match versions.iter().map(String::as_str).collect::<Vec<_>>()[..] {
                [] | ["tlsv1.2", "tlsv1.3"] => Protocols::Both,
                ["tlsv1.2"] => Protocols::Tls12,
                ["tlsv1.3"] => Protocols::Tls13,
                _ => return Err("must be 'TLSv1.2', 'TLSv1.3' or both".to_string()),
            };
            Ok(())
        },
    },
];

fn path(text: &str) -> Result<Option<PathBuf>, String> {
    Ok((!text.is_empty()).then(|| PathBuf::from(text)))
}

fn path_text(path: &Option<PathBuf>) -> String {
    path.as_ref().map(|path| path.display().to_string()).unwrap_or_default()
}
