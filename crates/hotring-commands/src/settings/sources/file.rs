//! The TOML configuration file. Its keys are the names of the command-line flags.
//!
//! [`read`] takes settings from the file. [`rewrite`] writes changed settings back (CONFIG REWRITE), and must leave
//! comments, order and everything else in the file unchanged.

use std::fs;
use std::io;
use std::path::Path;

use toml_edit::{Document, DocumentMut, Item, Value};

use super::super::setting::Setting;
use super::super::{find, settings};
use crate::host::files;
use crate::host::start_error::StartError;
use crate::settings::config::Config;

/// The end of the error for a value of a wrong type.
const KINDS: &str =
    "must be a string, a whole number in plain decimal, true, false, or a list of strings";

/// Takes settings from the TOML text of a file; `source` names the file in errors.
pub(super) fn read(config: &mut Config, text: &str, source: &str) -> Result<(), StartError> {
    let document = Document::parse(text).map_err(|error| {
        let line = error.span().map_or(1, |span| line_of(text, span.start));
        StartError::new(format!("{source}, line {line}: {}", error.message()))
    })?;
    config.forget_addresses(document.as_table().iter().map(|(name, _)| name));
    let mut seen: Vec<&'static str> = Vec::new();
    for (name, item) in document.as_table() {
        let at = document.as_table().key(name).and_then(|key| key.span());
        let from = format!("{source}, line {}", line_of(text, at.map_or(0, |span| span.start)));
        // An unknown name is reported first: a table header may come from another program's file.
        let value = match (find(name), value_text(item)) {
            (Some(setting), _) if seen.contains(&setting.name) => {
                return Err(StartError::new(format!("{from}: {} is set twice", setting.name)));
            }
            (Some(setting), Some(value)) if is_literal(item, text) => {
                seen.push(setting.name);
                value
            }
            (Some(_), _) => return Err(StartError::new(format!("{from}: {name} {KINDS}"))),
            (None, _) => String::new(),
        };
        config.set(name, &value, &from)?;
    }
    Ok(())
}

fn line_of(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|&byte| byte == b'\n').count() + 1
}

/// The value as it would be written after a flag. The elements of a list are joined by spaces.
fn value_text(item: &Item) -> Option<String> {
    match item.as_value()? {
        Value::Array(parts) => {
            let parts: Option<Vec<&str>> = parts.iter().map(Value::as_str).collect();
            Some(parts?.join(" "))
        }
        Value::String(text) => Some(text.value().clone()),
        Value::Integer(number) => Some(number.value().to_string()),
        Value::Boolean(yes) => Some(if *yes.value() { "yes" } else { "no" }.to_string()),
        _ => None,
    }
}

/// Whether the text in the file equals that of `value_text`. This excludes numbers such as `0o660`, whose decimal
/// digits would differ.
fn is_literal(item: &Item, text: &str) -> bool {
    let Some(Value::Integer(number)) = item.as_value() else { return true };
    let written = number.span().and_then(|span| text.get(span)).unwrap_or_default();
    written.replace('_', "").trim_start_matches('+') == number.value().to_string()
}

/// A setting's value as TOML.
pub fn toml_value(text: &str) -> String {
    value(text).to_string()
}

/// A setting's value as TOML: a number, a boolean for `yes` and `no`, or a string.
fn value(text: &str) -> Value {
    match (text, text.parse::<i64>()) {
        ("yes", _) => true.into(),
        ("no", _) => false.into(),
        (_, Ok(number)) if number.to_string() == text => number.into(),
        _ => text.into(),
    }
}

/// Writes the settings that CONFIG SET has changed to the file. Settings from other sources, such as a password from
/// the environment, must not be written.
pub(crate) fn rewrite(path: &Path, config: &Config) -> io::Result<()> {
    let text = fs::read_to_string(path)?;
    files::replace(path, rewritten(&text, config)?.as_bytes())
}

fn rewritten(text: &str, config: &Config) -> io::Result<String> {
    let mut document: DocumentMut =
        text.parse().map_err(|_| io::Error::other("it is no TOML file any more"))?;
    for setting in settings().filter(|setting| config.changed.contains(setting.name)) {
        let text = (setting.get)(config);
        match own_item(&mut document, setting) {
            Some(item) if value_text(item).as_deref() == Some(text.as_str()) => {}
            Some(item) => {
                let mut new = value(&text);
                if let Some(old) = item.as_value() {
                    *new.decor_mut() = old.decor().clone();
                }
                *item = Item::Value(new);
            }
            None => {
                document.insert(setting.name, Item::Value(value(&text)));
            }
        }
    }
    Ok(document.to_string())
}

/// The item of a document that sets this setting, under any of its names.
fn own_item<'a>(document: &'a mut DocumentMut, setting: &Setting) -> Option<&'a mut Item> {
    let names = |key: &str| find(key).is_some_and(|found| found.name == setting.name);
    let key = document.iter().map(|(key, _)| key.to_string()).find(|key| names(key))?;
    document.get_mut(&key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::config::ReplicationSettings;

    fn error(text: &str) -> String {
        read(&mut Config::default(), text, "x.toml").unwrap_err().to_string()
    }

    #[test]
    fn a_file_sets_the_settings_that_it_names() {
        let mut config = Config::default();
        let text = "# a comment\n\nport = 7000\nmaxclients = 5 # few\nprotected-mode = false\n\
                    unixsocket = '/tmp/a b'\nbind = ['127.0.0.1', '::1']\nsave = \"\"\n\
                    client-query-buffer-limit = '2mb'\n";
        read(&mut config, text, "x.toml").unwrap();
        let expected = Config {
            port: 7000,
            maxclients: 5,
            protected_mode: false,
            unixsocket: Some("/tmp/a b".into()),
            bind: vec!["127.0.0.1".to_string(), "::1".to_string()],
            query_buffer_max: 2 << 20,
            ..Config::default()
        };
        assert_eq!(config, expected);
        assert_eq!(config.addresses(), ["127.0.0.1:7000", "[::1]:7000"]);
    }

    #[test]
    fn errors_name_the_line_and_the_nearest_setting() {
        assert_eq!(
            error("port = 1\nmaxcleints = 5"),
            "x.toml, line 2: there is no setting 'maxcleints'; did you mean 'maxclients'?"
        );
        assert_eq!(
            error("\ncluster-enabled = true"),
            "x.toml, line 2: cluster-enabled can only be 'no' in this version, not 'yes'"
        );
        let message = error("port = 1\ntimeout = 1.5");
        assert!(message.starts_with("x.toml, line 2: timeout must be a string"), "{message}");
        assert!(error("[network]\nport = 1").contains("there is no setting 'network'"));
        assert!(error("listen = [1, 2]").contains("a list of strings"));
        // The lines of a redis.conf.
        let message = error("# x\nport 7000\n");
        assert!(message.starts_with("x.toml, line 2: "), "{message}");
        assert!(error("port = 1\nport = 2").starts_with("x.toml, line 2: "));
        // CONFIG REWRITE would change the first, and the second would win.
        let twice = "loglevel = 'debug'\nlog-level = 'error'";
        assert_eq!(error(twice), "x.toml, line 2: loglevel is set twice");
        assert!(error("port = 1\nPORT = 2").ends_with("line 2: port is set twice"));
        // Its digits in decimal are 432, and 432 in octal is something else.
        assert!(error("unixsocketperm = 0o660").contains("a whole number in plain decimal"));
        assert!(error("maxclients = 0x10").contains("a whole number in plain decimal"));
    }

    #[test]
    fn every_default_can_stand_in_a_file() {
        for setting in settings() {
            let text = format!("{} = {}", setting.name, toml_value(&setting.default_text()));
            let mut config = Config::default();
            read(&mut config, &text, "x.toml").unwrap_or_else(|e| panic!("{text}: {e}"));
            // It is chosen, whatever it is.
            config.policy_is_chosen = false;
            let ReplicationSettings { replicated, lease_ms, in_sync_lag_ms, .. } =
                &mut config.replication;
            assert_ne!(*replicated, Some(true));
            (*replicated, *lease_ms, *in_sync_lag_ms) = (None, None, None);
            assert_eq!(config, Config::default(), "{text}");
        }
    }

    #[test]
    fn changed_settings_are_written_back_and_the_rest_stays() {
        let text = "# mine\nport = 7000\nmaxclients = 5 # few\nlog-level = 'debug'\n\n# end\n";
        let mut config = Config::default();
        read(&mut config, text, "x.toml").unwrap();
        assert_eq!(rewritten(text, &config).unwrap(), text);
        config.maxclients = 7;
        config.port = 1;
        config.timeout_s = 3;
        config.log_level = crate::settings::config::LogLevel::Warning;
        config.tcp_keepalive_s = 300;
        config.requirepass = crate::settings::config::Secret::new("from a variable");
        config.changed = ["maxclients", "timeout", "loglevel", "tcp-keepalive"].into();
        let new = rewritten(text, &config).unwrap();
        assert_eq!(
            new,
            "# mine\nport = 7000\nmaxclients = 7 # few\nlog-level = \"warning\"\ntcp-keepalive = 300\n\
             timeout = 3\n\n# end\n"
        );
        assert_eq!(toml_value("007"), "\"007\"");
    }

    #[test]
    fn a_file_is_replaced_with_its_permissions() {
        use std::os::unix::fs::PermissionsExt;

        let folder = std::env::temp_dir().join(format!("hotring-rewrite-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let (path, link) = (folder.join("a.toml"), folder.join("b.toml"));
        fs::write(&path, "timeout = 1\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        // Where the new text is written first, there is a link to another file.
        let other = folder.join("other");
        fs::write(&other, "precious").unwrap();
        let new = folder.join(format!(".a.toml.{}.tmp", std::process::id()));
        std::os::unix::fs::symlink(&other, new).unwrap();
        let changed = ["timeout"].into();
        rewrite(&link, &Config { timeout_s: 9, changed, ..Config::default() }).unwrap();
        assert_eq!(fs::read_to_string(&other).unwrap(), "precious");
        assert!(fs::symlink_metadata(&path).unwrap().is_file());
        assert_eq!(fs::read_to_string(&path).unwrap(), "timeout = 9\n");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 3, "a file was left behind");
        assert!(rewrite(&folder.join("c.toml"), &Config::default()).is_err());
        fs::remove_dir_all(&folder).unwrap();
    }
}
