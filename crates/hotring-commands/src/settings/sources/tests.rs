//! Where settings come from, and which source wins.

use super::*;
use crate::settings::config::LogFormat;

#[test]
fn environment_wins_over_the_file_and_knows_settings_only() {
    let mut config = Config::default();
    file::read(&mut config, "listen = ['127.0.0.1:1', '127.0.0.1:2']", "x.toml").unwrap();
    assert_eq!(config.addresses(), ["127.0.0.1:1", "127.0.0.1:2"]);
    let mut read = |name: &str, value: &str| {
        let variables = [("PATH", "/"), (name, value)];
        let variables = variables.map(|(n, v)| (n.into(), v.into()));
        config.read_environment(variables.into_iter()).map(|()| config.clone())
    };
    assert_eq!(read("HOTRING_LISTEN", "127.0.0.1:3").unwrap().addresses(), ["127.0.0.1:3"]);
    assert_eq!(read("HOTRING_TCP_KEEPALIVE", "7").unwrap().tcp_keepalive_s, 7);
    assert_eq!(
        read("HOTRING_MAXCLEINTS", "1").unwrap_err().to_string(),
        "environment variable HOTRING_MAXCLEINTS: there is no setting 'maxcleints'; did you mean \
         'maxclients'?"
    );
}

fn variables(named: &[(&str, &str)]) -> impl Iterator<Item = (OsString, OsString)> {
    let owned: Vec<_> = named.iter().map(|(name, value)| (name.into(), value.into())).collect();
    owned.into_iter()
}

#[test]
fn defaults_of_the_environment_are_weaker_than_all_that_is_said() {
    let config = |file: Option<&str>, named: &[(&str, &str)]| {
        let mut config = Config::default();
        config.read_default_environment(variables(named)).unwrap();
        if let Some(file) = file {
            file::read(&mut config, file, "x.toml").unwrap();
        }
        config.read_environment(variables(named)).unwrap();
        config
    };
    let defaults = [("HOTRING_DEFAULT_LISTEN", "127.0.0.1:1"), ("HOTRING_DEFAULT_TIMEOUT", "5")];
    let plain = config(None, &defaults);
    assert_eq!((plain.addresses().join(" ").as_str(), plain.timeout_s), ("127.0.0.1:1", 5));
    let file = config(Some("port = 2\ntimeout = 0"), &defaults);
    assert_eq!((file.addresses().join(" ").as_str(), file.timeout_s), ("127.0.0.1:2", 0));
    let variable = config(None, &[&defaults[..], &[("HOTRING_TIMEOUT", "7")]].concat());
    assert_eq!(variable.timeout_s, 7);
    let mut config = Config::default();
    let wrong = variables(&[("HOTRING_DEFAULT_NONSENSE", "1")]);
    let error = config.read_default_environment(wrong).unwrap_err().to_string();
    assert!(error.contains("HOTRING_DEFAULT_NONSENSE: there is no setting 'nonsense'"), "{error}");
}

/// Its variables once won over the addresses of a file that was mounted.
#[test]
fn the_image_can_be_reached_unless_a_file_says_where_to_listen() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/Dockerfile");
    let text = std::fs::read_to_string(path).unwrap();
    let named: Vec<(&str, &str)> = text
        .lines()
        .filter_map(|line| line.strip_prefix("ENV ")?.split_once('='))
        .map(|(name, value)| (name, value.trim_matches('"')))
        .collect();
    let with_file = |file: &str| {
        let mut config = Config::default();
        config.read_default_environment(variables(&named)).unwrap();
        file::read(&mut config, file, "mounted.toml").unwrap();
        config.read_environment(variables(&named)).unwrap();
        config
    };
    let plain = with_file("");
    assert_eq!(plain.addresses(), ["*:6379", "-[::]:6379"]);
    assert_eq!((plain.protected_mode, plain.admin.as_deref()), (false, Some("0.0.0.0:9121")));
    assert_eq!(with_file("port = 7000").addresses(), ["*:7000", "-[::]:7000"]);
    let own = "listen = '127.0.0.1:1'\nprotected-mode = true\nadmin = '127.0.0.1:2'\nlog-format = 'human'";
    let own = with_file(own);
    assert_eq!(own.addresses(), ["127.0.0.1:1"]);
    assert_eq!((own.protected_mode, own.admin.as_deref()), (true, Some("127.0.0.1:2")));
    assert_eq!(own.log_format, LogFormat::Human);
}

/// They once added up, so that a removed address stayed open.
#[test]
fn addresses_come_from_the_strongest_source_alone() {
    for name in ["listen", "tls-listen", "memcached"] {
        let mut config = Config::default();
        let text = |c: &Config| (find(name).unwrap().get)(c);
        file::read(&mut config, &format!("{name} = ['127.0.0.1:1', '127.0.0.1:2']"), "x.toml")
            .unwrap();
        assert_eq!(text(&config), "127.0.0.1:1 127.0.0.1:2");
        file::read(&mut config, &format!("{name} = '127.0.0.1:3'"), "y.toml").unwrap();
        assert_eq!(text(&config), "127.0.0.1:3");
        let variable = find(name).unwrap().variable();
        let variables = [(variable.into(), "127.0.0.1:4".into())];
        config.read_environment(variables.into_iter()).unwrap();
        assert_eq!(text(&config), "127.0.0.1:4");
    }
}

#[test]
fn endpoints_of_messages_come_from_the_strongest_source_too() {
    let mut config = Config::default();
    file::read(&mut config, "fabric = ['sockets,h:1', 'sockets,unix:/s']", "x.toml").unwrap();
    assert_eq!(config.fabric.listen, ["h:1", "unix:/s"]);
    let variables = [("HOTRING_FABRIC".into(), "sockets,h:2 sockets,h:3".into())];
    config.read_environment(variables.into_iter()).unwrap();
    assert_eq!(config.fabric.listen, ["h:2", "h:3"]);
    file::read(&mut config, "fabric = ['shm,unix:/s', 'tcp,h:1']", "x.toml").unwrap();
    assert_eq!(config.fabric.listen, ["shm,unix:/s", "tcp,h:1"]);
    for wrong in ["udp,h:1", "shm,h:1", "h:1"] {
        assert!(file::read(&mut config, &format!("fabric = '{wrong}'"), "x.toml").is_err());
    }
}

/// `listen` of a file once won over the port of a variable.
#[test]
fn a_stronger_port_wins_over_weaker_addresses() {
    let addresses = |file: &str, variable: &str, value: &str| {
        let mut config = Config::default();
        file::read(&mut config, file, "x.toml").unwrap();
        let variables = [(variable.into(), value.into())];
        config.read_environment(variables.into_iter()).unwrap();
        (config.addresses().join(" "), config.tls_addresses().join(" "))
    };
    let file = "listen = '127.0.0.1:1'\nport = 2\ntls-listen = '127.0.0.1:3'\n";
    let both = |plain: &str, tls: &str| (plain.to_string(), tls.to_string());
    // In one source it goes before the port, wherever it stands.
    assert_eq!(addresses(file, "PATH", "/"), both("127.0.0.1:1", "127.0.0.1:3"));
    let turned = "port = 2\nlisten = '127.0.0.1:1'\n";
    assert_eq!(addresses(turned, "PATH", "/"), both("127.0.0.1:1", ""));
    assert_eq!(addresses(file, "HOTRING_PORT", "4"), both("127.0.0.1:4", "127.0.0.1:3"));
    assert_eq!(addresses(file, "HOTRING_BIND", "::1"), both("[::1]:2", "127.0.0.1:3"));
    assert_eq!(addresses(file, "HOTRING_TLS_PORT", "5"), both("127.0.0.1:1", "127.0.0.1:5"));
}

/// It once took a free port, whoever could reach that.
#[test]
fn port_0_opens_none_where_there_is_another_way_in() {
    let config = |change: fn(&mut Config)| {
        let mut config = Config { port: 0, ..Config::default() };
        change(&mut config);
        config.addresses()
    };
    assert_eq!(config(|_| {}), ["127.0.0.1:0"]);
    assert!(config(|c| c.unixsocket = Some("/run/a.sock".into())).is_empty());
    assert!(config(|c| c.tls.port = 1).is_empty());
    assert!(config(|c| c.memcached.listen = vec!["127.0.0.1:1".to_string()]).is_empty());
    assert_eq!(
        config(|c| {
            c.unixsocket = Some("/run/a.sock".into());
            c.listen = vec!["127.0.0.1:0".to_string()];
        }),
        ["127.0.0.1:0"]
    );
}

/// It was once passed over, and a password with it.
#[test]
fn a_variable_that_is_not_utf_8_is_refused() {
    use std::os::unix::ffi::OsStringExt;

    let read = |name: &str, value: &[u8]| {
        let variables = [(name.into(), OsString::from_vec(value.to_vec()))];
        Config::default().read_environment(variables.into_iter())
    };
    assert_eq!(read("PATH", b"/\xff"), Ok(()));
    assert_eq!(
        read("HOTRING_REQUIREPASS", b"secret\xff").unwrap_err().to_string(),
        "environment variable HOTRING_REQUIREPASS: its value is not UTF-8"
    );
}

/// It once opened a plain port that was not asked for.
#[test]
fn port_0_beside_tls_is_tls_alone() {
    let mut config = Config { port: 0, ..Config::default() };
    assert_eq!(config.addresses(), ["127.0.0.1:0"]);
    config.tls.port = 6380;
    assert!(config.addresses().is_empty());
    assert_eq!(config.tls_addresses(), ["127.0.0.1:6380"]);
    config.tls.port = 0;
    config.tls.listen = vec!["127.0.0.1:7".to_string()];
    assert!(config.addresses().is_empty());
    config.listen = vec!["127.0.0.1:0".to_string()];
    assert_eq!(config.addresses(), ["127.0.0.1:0"], "asked for by name");
    config.listen.clear();
    config.port = 6379;
    assert_eq!(config.addresses(), ["127.0.0.1:6379"]);
}

#[test]
fn config_set_is_all_or_nothing() {
    let config = Config::default();
    let pair = |n: &str, v: &str| (n.to_string(), v.to_string());
    let changed = change_running(&config, &[pair("maxclients", "7"), pair("timeout", "3")], "");
    let changed = changed.unwrap();
    assert_eq!((changed.maxclients, changed.timeout_s), (7, 3));
    assert_eq!(changed.changed, ["maxclients", "timeout"].into());
    let error = |name: &str, value: &str| {
        let failed = change_running(&config, &[pair(name, value)], "").unwrap_err();
        failed.split(" - ").last().unwrap().to_string()
    };
    assert_eq!(error("maxclients", "x"), "argument couldn't be parsed into an integer");
    assert_eq!(error("timeout", "-1"), "argument must be between 0 and 2147483647 inclusive");
    assert_eq!(error("hz", "x"), "argument couldn't be parsed into an integer");
    assert_eq!(error("repl-backlog-size", "x"), "argument must be a memory value");
    assert_eq!(error("activerehashing", "x"), "argument must be 'yes' or 'no'");
    let names = "argument(s) must be one of the following: everysec, always, no";
    assert_eq!(error("appendfsync", "x"), names);
    assert_eq!(error("save", "900"), "Invalid save parameters");
    assert_eq!(error("dbfilename", "x"), "can't set protected config");
    assert_eq!(error("io-threads-do-reads", "yes"), "can't set immutable config");
    let given = change_running(&config, &[pair("HZ", "50")], "").unwrap();
    assert!(given.passive.shown().any(|shown| shown == ("hz", "50")));
    let twice =
        change_running(&config, &[pair("slave-priority", "1"), pair("replica-priority", "1")], "");
    assert!(twice.unwrap_err().ends_with("duplicate parameter"));
    let bad = change_running(&config, &[pair("maxclients", "7"), pair("port", "3")], "");
    assert!(bad.unwrap_err().contains("can't set immutable config"));
    assert!(change_running(&config, &[pair("nonsense", "3")], "").is_err());
    let twice = [pair("loglevel", "debug"), pair("timeout", "3"), pair("log-level", "error")];
    assert_eq!(
        change_running(&config, &twice, "").unwrap_err(),
        "ERR CONFIG SET failed (possibly related to argument 'log-level') - duplicate parameter"
    );
}
