//! Asks the nodes for the layout of the cluster: at the start, from time to time, and when a request has shown that it
//! has changed.

use std::sync::Arc;
use std::time::Duration;

use hotring_protocol::ReplyReader;

use crate::layout::{Address, Layout};
use crate::link::{Link, Login, Protocol};
use crate::shared::Shared;

/// Time between two questions when nothing happens.
const USUAL: Duration = Duration::from_secs(5);

/// Shortest time between two questions.
const SHORTEST: Duration = Duration::from_millis(100);

/// Limit of the time for one answer.
const ANSWER_MAX: Duration = Duration::from_secs(1);

const QUESTION: &[u8] = b"*2\r\n$7\r\nCLUSTER\r\n$5\r\nSLOTS\r\n";

/// Keeps the layout up to date. Never ends.
pub(crate) async fn keep_looking(shared: &Arc<Shared>) {
    let (mut told, mut turn) = (None, 0usize);
    loop {
        turn = turn.wrapping_add(1);
        match look(shared, turn).await {
            Ok(layout) => {
                if told.take().is_some() {
                    tracing::info!("the cluster answers again");
                }
                shared.publish(layout);
            }
            Err(why) if told.as_ref() != Some(&why) => {
                tracing::warn!("no node of the cluster tells its layout: {why}");
                told = Some(why);
            }
            Err(_) => {}
        }
        tokio::time::sleep(SHORTEST).await;
        let usual = if told.is_some() { SHORTEST } else { USUAL };
        _ = tokio::time::timeout(usual, shared.looked_for()).await;
    }
}

/// Asks one node after the other until one answers: those that the last layout names, each time another one first,
/// since a node that is cut off may tell an old layout; then those of the settings.
async fn look(shared: &Shared, turn: usize) -> Result<Layout, String> {
    let layout = shared.layout();
    let known = layout.shards().iter();
    let known = known.flat_map(|shard| std::iter::once(&shard.primary).chain(&shard.replicas));
    let mut known: Vec<Address> = known.cloned().collect();
    let first = turn.checked_rem(known.len()).unwrap_or(0);
    known.rotate_left(first);
    let given = shared.settings.nodes.iter().map(|node| Address::from(node.as_str()));
    let mut last = "no node is known".to_string();
    for address in known.into_iter().chain(given) {
        let asked = tokio::time::timeout(ANSWER_MAX, ask(shared, &address)).await;
        match asked.unwrap_or_else(|_| Err("it does not answer in time".to_string())) {
            Ok(layout) if layout.first().is_some() => return Ok(layout),
            Ok(_) => last = format!("{address}: the cluster has no shards yet"),
            Err(why) => last = format!("{address}: {why}"),
        }
    }
    Err(last)
}

async fn ask(shared: &Shared, address: &str) -> Result<Layout, String> {
    let user = shared.settings.login.clone();
    let user = user.map(|(name, password)| (name.into_bytes(), password.into_bytes()));
    let login = Login { user, protocol: Protocol::Resp2 };
    let mut link = Link::dial(shared, address, &login).await.map_err(|why| why.to_string())?;
    let reply = link.ask(QUESTION).await.map_err(|why| why.to_string())?;
    let mut reader = ReplyReader::default();
    reader.push(&reply);
    let reply = reader.next_reply().map_err(|why| why.to_string())?;
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    Layout::read(&reply.expect("it is whole"), host)
}
