//! CONFIG: reads and changes settings while the server runs.

use hotring_protocol::glob_match;

use crate::settings::{change_running, rewrite_file};
use crate::settings::{find, settings};
use crate::state::context::Context;
use crate::state::failure::{Failure, Outcome};
use crate::table::quoted;

pub(crate) fn get(c: &mut Context<'_>) -> Outcome {
    let config = c.server.settings.config();
    let patterns: Vec<Vec<u8>> =
        c.args.tail(2).iter().map(|pattern| pattern.to_ascii_lowercase()).collect();
    let wanted = |name: &str| patterns.iter().any(|p| glob_match(p, name.as_bytes()));
    let by_names = settings().flat_map(|setting| {
        let names = [setting.name, setting.alias].into_iter();
        names.filter(|name| !name.is_empty()).map(move |name| (name, setting))
    });
    let found: Vec<_> = by_names.filter(|(name, _)| wanted(name)).collect();
    let passive: Vec<_> = config.passive.shown().filter(|(name, _)| wanted(name)).collect();
    c.reply.map(found.len() + passive.len());
    for (name, setting) in found {
        c.reply.bulk(name.as_bytes());
        c.reply.bulk((setting.get)(&config).as_bytes());
    }
    for (name, value) in passive {
        c.reply.bulk(name.as_bytes());
        c.reply.bulk(value.as_bytes());
    }
    Ok(())
}

pub(crate) fn set(c: &mut Context<'_>) -> Outcome {
    let pairs = c.args.tail(2);
    if !pairs.len().is_multiple_of(2) {
        return Err(Failure::Arity("config|set".into()));
    }
    let changes: Result<Vec<_>, _> =
        (0..pairs.len()).step_by(2).map(|i| change(pairs.at(i), pairs.at(i + 1))).collect();
    let changes = changes?;
    let sets =
        |wanted| changes.iter().any(|(name, _)| find(name).is_some_and(|s| s.name == wanted));
    let peer = &c.client.shared.peer;
    c.server.change_config(|config| {
        let changed = change_running(config, &changes, peer)?;
        if changed.tls != config.tls && c.server.process.tls.current().is_some() {
            let failed = |why| format!("ERR CONFIG SET failed: TLS stays as it is: {why}");
            c.server.process.tls.load(&changed.tls).map_err(failed)?;
        }
        // Apply the password even if it is unchanged: ACL SETUSER may have given the user another one since.
        if sets("requirepass") {
            c.server.acl.set_default_password(&changed.requirepass);
            c.server.users_changed();
        }
        Ok::<_, String>(changed)
    })?;
    // In a transaction the keys are held, and the thread of the links does it a moment later.
    if c.client.may_wait() {
        c.server.replication.mark_writes(c.store);
    }
    c.reply.ok();
    Ok(())
}

/// The name of a setting and the text of its new value. The error for a value that is not UTF-8 must not show the
/// value: it may be a password.
fn change(name: &[u8], value: &[u8]) -> Result<(String, String), Failure> {
    let value = std::str::from_utf8(value).map_err(|_| {
        let name = quoted(name);
        Failure::from(format!(
            "ERR CONFIG SET failed (possibly related to argument '{name}') - must be UTF-8"
        ))
    })?;
    Ok((String::from_utf8_lossy(name).into_owned(), value.to_string()))
}

pub(crate) fn resetstat(c: &mut Context<'_>) -> Outcome {
    c.server.reset_totals();
    c.reply.ok();
    Ok(())
}

pub(crate) fn rewrite(c: &mut Context<'_>) -> Outcome {
    // Runs as a change of settings, so that two clients never write the file at the same time.
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
