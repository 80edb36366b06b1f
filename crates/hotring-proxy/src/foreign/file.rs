//! The file of a pool: its servers, and when they are ejected.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hotring_cluster::{MAX_WEIGHT, USUAL_WEIGHT};
use toml_edit::{Document, TableLike};

use super::server::{Health, Kind, Server};

/// Most servers of a pool.
const SERVERS_MAX: usize = 1_000;

/// What a file says.
#[derive(Debug)]
pub(crate) struct File {
    pub options: Options,
    pub servers: Vec<Server>,
}

/// When servers are ejected, and what happens then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// Failures in a row.
    pub eject_after: u32,
    /// Good probes in a row.
    pub return_after: u32,
    pub probe_interval: Duration,
    /// Time for the answer to a probe.
    pub probe_timeout: Duration,
    /// The keys of an ejected server go to the next one on the circle.
    pub goes_next: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            eject_after: 3,
            return_after: 5,
            probe_interval: Duration::from_millis(500),
            probe_timeout: Duration::from_secs(1),
            goes_next: false,
        }
    }
}

/// Reads a file.
///
/// # Errors
///
/// A text for the operator, without passwords.
pub(crate) fn load(path: &Path) -> Result<File, String> {
    let text = fs::read_to_string(path).map_err(|why| why.to_string());
    let text = text.map_err(|why| format!("cannot read {}: {why}", path.display()))?;
    parse(&text).map_err(|why| format!("{}: {why}", path.display()))
}

fn parse(text: &str) -> Result<File, String> {
    let document = Document::parse(text).map_err(|error| {
        let start = error.span().map_or(0, |span| span.start);
        // The message alone: the text of the line may hold a password.
        format!("line {}: {}", line_of(text, start), error.message())
    })?;
    let top = Part { text, name: "", table: document.as_table() };
    let known =
        ["eject-after", "return-after", "probe-interval", "probe-timeout", "on-eject", "servers"];
    top.knows(&known)?;
    let usual = Options::default();
    let time = |name, usual: Duration| {
        Ok::<_, String>(top.number(name, 1..=3_600_000)?.map_or(usual, Duration::from_millis))
    };
    let count = |name, usual: u32| {
        Ok::<_, String>(top.number(name, 1..=1_000_000)?.map_or(usual, |n| n as u32))
    };
    let options = Options {
        eject_after: count("eject-after", usual.eject_after)?,
        return_after: count("return-after", usual.return_after)?,
        probe_interval: time("probe-interval", usual.probe_interval)?,
        probe_timeout: time("probe-timeout", usual.probe_timeout)?,
        goes_next: match top.string("on-eject")? {
            None | Some("error") => false,
            Some("next") => true,
            Some(_) => return Err(top.at("on-eject", "on-eject must be \"error\" or \"next\"")),
        },
    };
    let listed = top.table.get("servers").and_then(|item| item.as_table_like());
    let listed = listed.ok_or("there is no [servers]: write a line for each server below it")?;
    let mut servers: Vec<Server> = Vec::new();
    for (name, item) in listed.iter() {
        let outer = Part { text, name: "servers", table: listed };
        let table = item.as_table_like().ok_or_else(|| {
            outer.at(name, "a server is a table: { address = \"HOST:PORT\", protocol = \"redis\" }")
        })?;
        let server = server(&Part { text, name, table }).map_err(|why| outer.at(name, &why))?;
        if servers.iter().any(|other| other.address == server.address) {
            return Err(outer.at(name, &format!("{} is there twice", server.address)));
        }
        servers.push(server);
    }
    match servers.len() {
        0 => Err("there is no server below [servers]".to_string()),
        1..=SERVERS_MAX => Ok(File { options, servers }),
        _ => Err(format!("there are more than {SERVERS_MAX} servers")),
    }
}

fn server(part: &Part<'_>) -> Result<Server, String> {
    part.knows(&["address", "protocol", "weight", "user", "password", "tls"])?;
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if !part.name.bytes().all(is_name) {
        return Err("a name has letters, digits and - _ . alone".to_string());
    }
    let address = part.string("address")?.ok_or("address is missing")?;
    let port = address.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
    port.ok_or("address must be HOST:PORT")?;
    let protocol = part.string("protocol")?.ok_or("protocol is missing")?;
    let kind = Kind::named(protocol);
    let kind =
        kind.ok_or("protocol must be \"redis\", \"valkey\", \"memcached\" or \"hotring\"")?;
    let user = part.string("user")?.unwrap_or("default").as_bytes().to_vec();
    let login = part.string("password")?.map(|password| (user, password.as_bytes().to_vec()));
    let tls = part.flag("tls")?;
    if kind == Kind::Memcached && (login.is_some() || tls) {
        return Err("password and tls are for servers of Redis's protocol".to_string());
    }
    let weight = part.number("weight", 1..=MAX_WEIGHT.into())?;
    Ok(Server {
        name: part.name.to_string(),
        address: Arc::from(address),
        kind,
        weight: weight.map_or(USUAL_WEIGHT, |weight| weight as u32),
        login,
        tls,
        health: Arc::new(Health::default()),
    })
}

fn line_of(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|&byte| byte == b'\n').count() + 1
}

/// A table with its name and the text that it comes from.
struct Part<'t> {
    text: &'t str,
    name: &'t str,
    table: &'t dyn TableLike,
}

impl<'t> Part<'t> {
    fn at(&self, name: &str, why: &str) -> String {
        let start = self.table.key(name).and_then(|key| key.span()).map_or(0, |span| span.start);
        format!("line {}: {why}", line_of(self.text, start))
    }

    fn knows(&self, names: &[&str]) -> Result<(), String> {
        match self.table.iter().find(|(name, _)| !names.contains(name)) {
            Some((name, _)) => {
                Err(format!("{name} is unknown here: there are {}", names.join(", ")))
            }
            None => Ok(()),
        }
    }

    fn string(&self, name: &str) -> Result<Option<&'t str>, String> {
        let Some(item) = self.table.get(name) else { return Ok(None) };
        item.as_str().map(Some).ok_or_else(|| format!("{name} must be a string"))
    }

    fn flag(&self, name: &str) -> Result<bool, String> {
        let Some(item) = self.table.get(name) else { return Ok(false) };
        item.as_bool().ok_or_else(|| format!("{name} must be true or false"))
    }

    fn number(
        &self,
        name: &str,
        range: std::ops::RangeInclusive<i64>,
    ) -> Result<Option<u64>, String> {
        let Some(item) = self.table.get(name) else { return Ok(None) };
        let number = item.as_integer().filter(|number| range.contains(number));
        let (first, last) = range.into_inner();
        let why = || format!("{name} must be a number from {first} to {last}");
        number.map(|number| Some(number as u64)).ok_or_else(why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_a_line_for_each_server() {
        let file = parse(
            "eject-after = 2\non-eject = \"next\"\n[servers]\n\
             a = { address = \"h:1\", protocol = \"redis\", password = \"secret\" }\n\
             b = { address = \"[::1]:2\", protocol = \"memcached\", weight = 50 }\n",
        );
        let file = file.unwrap();
        assert_eq!((file.options.eject_after, file.options.goes_next), (2, true));
        assert_eq!(format!("{:?}", file.servers), "[a (redis h:1), b (memcached [::1]:2)]");
        assert_eq!(file.servers[0].login, Some((b"default".to_vec(), b"secret".to_vec())));
        assert_eq!((file.servers[0].weight, file.servers[1].weight), (100, 50));
    }

    #[test]
    fn faults_name_their_line_and_no_password() {
        let server = |rest: &str| format!("[servers]\na = {{ {rest} }}\n");
        for (text, why) in [
            ("x = 1", "x is unknown"),
            ("", "no [servers]"),
            ("[servers]", "no server below"),
            ("eject-after = 0", "eject-after must be a number"),
            ("on-eject = \"x\"\n[servers]", "line 1: on-eject must be"),
            (&server("protocol = \"redis\""), "line 2: address is missing"),
            (&server("address = \"h\", protocol = \"redis\""), "HOST:PORT"),
            (&server("address = \"h:1\", protocol = \"x\""), "protocol must be"),
            (&server("address = \"h:1\", protocol = \"redis\", weight = 0"), "weight must be"),
            (
                &server("address = \"h:1\", protocol = \"memcached\", tls = true"),
                "Redis's protocol",
            ),
            (&server("address = \"h:1\", protocol = \"redis\", password = 5ecret"), "line 2"),
            (
                "[servers]\na = { address = \"h:1\", protocol = \"redis\" }\n\
                 b = { address = \"h:1\", protocol = \"redis\" }",
                "line 3: h:1 is there twice",
            ),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(why) && !error.contains("5ecret"), "{text}: {error}");
        }
    }
}
