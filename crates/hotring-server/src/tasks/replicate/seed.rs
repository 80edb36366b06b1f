//! The seed of the hash of a server that begins empty as a replica.
//!
//! A primary sends its items in the order of their hashes. A table with the same seed gets those of one slot together,
//! so they are in the cache, and the copy loads in about half the time. The seed must stay secret, because it lets one
//! prepare keys that collide: the primary tells it to authenticated links only.

use std::time::Duration;

use hotring_commands::host::threads;
use hotring_commands::settings::config::{Config, Source};
use hotring_log::Id;
use hotring_log::wire::WIRE_VERSION;

use super::LinkError;
use super::dial::dial;
use super::greet::{ask, log_in, refused};

/// Limit of the time for which a start waits for the primary.
const PATIENCE: Duration = Duration::from_secs(2);

/// The id that seeds the hash of the primary, if the settings name one and a password for it, and it answers soon.
pub(crate) fn seed_of_primary(config: &Config) -> Option<Id> {
    let source = config.replication.source.as_ref()?;
    if config.replication.password.is_empty() {
        return None;
    }
    let runtime = threads::event_loop().ok()?;
    let asked = runtime.block_on(async {
        let limited = tokio::time::timeout(PATIENCE, ask_for(config, source)).await;
        limited.unwrap_or_else(|_| Err(LinkError::Peer("it does not answer".to_string())))
    });
    asked.inspect_err(|why| {
        tracing::info!(primary = %source, "the primary does not tell its seed, so its data will load more slowly: {why}");
    })
    .ok()
}

async fn ask_for(config: &Config, source: &Source) -> Result<Id, LinkError> {
    let mut stream = dial(config, source).await?;
    log_in(&mut stream, config).await?;
    let words = ["HOTRING.REPLICATE", &WIRE_VERSION.to_string(), "SEED"];
    let answer = ask(&mut stream, &words).await?.map_err(refused)?;
    let id = u128::from_str_radix(&answer, 16).ok().filter(|_| answer.len() == 32);
    let id = id.ok_or_else(|| LinkError::Peer("its answer is no seed".to_string()))?;
    Ok(id.to_be_bytes())
}
