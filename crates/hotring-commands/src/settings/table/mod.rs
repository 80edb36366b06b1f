//! The table of settings, with one file per family. Flags, environment variables, the configuration file, CONFIG GET,
//! CONFIG SET and the help text are all derived from this table.
//!
//! Names are Redis's wherever Redis has the setting. A fixed setting is a setting that Redis clients and tools ask for
//! and that has only one value here. It can be read, and "set" to that value.

mod cluster;
mod data;
mod diagnosis;
mod durability;
mod engines;
mod fabric;
mod fixed;
mod limits;
mod memcached;
mod network;
mod operations;
mod output_limits;
mod replication;
mod scripts;
mod security;
mod tls;

use super::setting::Setting;

/// Finds a setting by its name or alias, in any case.
pub fn find(name: &str) -> Option<&'static Setting> {
    settings().find(|s| {
        s.name.eq_ignore_ascii_case(name)
            || (!s.alias.is_empty() && s.alias.eq_ignore_ascii_case(name))
    })
}

/// Whether only research needs a setting. Help and documentation show such settings last.
pub fn is_for_research(setting: &Setting) -> bool {
    engines::ENGINES.iter().any(|other| std::ptr::eq(other, setting))
}

/// All settings, in the order of the help text.
pub fn settings() -> impl Iterator<Item = &'static Setting> {
    let families = [
        network::NETWORK,
        security::SECURITY,
        tls::TLS,
        memcached::MEMCACHED,
        fabric::FABRIC,
        limits::LIMITS,
        data::DATA,
        durability::DURABILITY,
        replication::REPLICATION,
        cluster::CLUSTER,
        scripts::SCRIPTS,
        diagnosis::DIAGNOSIS,
        operations::OPERATIONS,
        engines::ENGINES,
        fixed::FIXED,
    ];
    families.into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::config::Config;
    use crate::settings::values::size;

    #[test]
    fn every_default_is_accepted_by_its_own_setting() {
        for setting in settings() {
            let mut config = Config::default();
            (setting.set)(&mut config, &setting.default_text())
                .unwrap_or_else(|e| panic!("{}: {e}", setting.name));
        }
    }

    #[test]
    fn sizes_have_redis_units() {
        assert_eq!(size("1k", 0), Ok(1000));
        assert_eq!(size("1KB", 0), Ok(1024));
        assert_eq!(size("2gb", 0), Ok(2 << 30));
        assert!(size("1tb", 0).is_err());
        assert!(size("99999999999gb", 0).is_err());
        assert!(size("-1", 0).is_err());
        assert!(size("10", 64).is_err());
    }

    #[test]
    fn fixed_settings_refuse_another_value() {
        let mut config = Config::default();
        assert!((find("save").unwrap().set)(&mut config, "900").is_err());
        assert!((find("unreclaimed-limit").unwrap().set)(&mut config, "1000").is_err());
        assert!((find("checksum").unwrap().set)(&mut config, "yes").is_err());
        assert!((find("history").unwrap().set)(&mut config, "17").is_err());
        assert!((find("history-max-bytes").unwrap().set)(&mut config, "2gb").is_err());
        assert!((find("unixsocketperm").unwrap().set)(&mut config, "1000").is_err());
        assert!((find("unixsocketperm").unwrap().set)(&mut config, "788").is_err());
        assert!((find("SAVE").unwrap().set)(&mut config, "").is_ok());
    }
}
