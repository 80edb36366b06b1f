//! CONFIG: reading and changing settings while the server runs.

use hotring_protocol::glob_match;

use crate::config::{change_running, rewrite_file};
use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::settings::settings;

pub(crate) fn get(c: &mut Context<'_>) -> Outcome {
    let config = c.server.config();
    let patterns: Vec<Vec<u8>> =
        c.args.tail(2).iter().map(|pattern| pattern.to_ascii_lowercase()).collect();
    let wanted = |name: &str| patterns.iter().any(|p| glob_match(p, name.as_bytes()));
    let found: Vec<_> = settings().filter(|setting| wanted(setting.name)).collect();
    c.reply.map(found.len());
    for setting in found {
        c.reply.bulk(setting.name.as_bytes());
        c.reply.bulk((setting.get)(&config).as_bytes());
    }
    Ok(())
}

pub(crate) fn set(c: &mut Context<'_>) -> Outcome {
    let pairs = c.args.tail(2);
    if !pairs.len().is_multiple_of(2) {
        return Err(Failure::Arity("config|set".into()));
    }
    let text = |i: usize| String::from_utf8_lossy(pairs.at(i)).into_owned();
    let changes: Vec<(String, String)> =
        (0..pairs.len()).step_by(2).map(|i| (text(i), text(i + 1))).collect();
    let peer = &c.client.shared.peer;
    c.server.change_config(|config| {
        let changed = change_running(config, &changes, peer)?;
        if changed.tls != config.tls && c.server.tls.current().is_some() {
            let failed = |why| format!("ERR CONFIG SET failed: TLS stays as it is: {why}");
            c.server.tls.load(&changed.tls).map_err(failed)?;
        }
        Ok::<_, String>(changed)
    })?;
    c.reply.ok();
    Ok(())
}

pub(crate) fn resetstat(c: &mut Context<'_>) -> Outcome {
    c.server.reset_totals();
    c.reply.ok();
    Ok(())
}

pub(crate) fn rewrite(c: &mut Context<'_>) -> Outcome {
    // Under the lock of the settings, so that two clients do not write at once.
    c.server.change_config(|config| {
        let Some(path) = &config.file else {
            return Err(Failure::text("ERR The server is running without a config file"));
        };
        rewrite_file(path, config).map_err(|error| {
            tracing::warn!(path = %path.display(), %error, "cannot rewrite the configuration file");
            Failure::from(format!("ERR Rewriting config file: {error}"))
        })?;
        Ok(config.clone())
    })?;
    c.reply.ok();
    Ok(())
}
