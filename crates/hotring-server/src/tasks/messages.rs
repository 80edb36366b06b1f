//! Links to the other nodes of a cluster, over which messages of PUBLISH and SPUBLISH go. What is sent waits in
//! `hotring_commands::state::forwarding`, which states the invariants.
//!
//! A link is an ordinary connection that authenticates as that of a replica does, and sends HOTRING.DELIVER. All of
//! them are on a thread of their own: many messages must not delay the renewal of the lease.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use hotring_cluster::NodeId;
use hotring_cluster::directory::Directory;
use hotring_protocol::{Reply, ReplyReader};
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf, split};
use tokio::task::AbortHandle;

use crate::tasks::replicate::dial::{Stream, dial};
use crate::tasks::replicate::greet::{ask, log_in};
use crate::tasks::replicate::{LinkError, unless};
use hotring_commands::settings::config::Source;
use hotring_commands::state::cluster::Cluster;
use hotring_commands::state::forwarding::Outbox;
use hotring_commands::state::server::Server;

use super::{run_again, run_on_event_loop};

/// The name of the thread.
pub(crate) const THREAD: &str = "hotring-messages";

/// Time between two looks at the records.
const LOOK: Duration = Duration::from_millis(100);

/// Pause before a link is tried again, or after a panic.
const PAUSE: Duration = Duration::from_millis(500);

/// Time after which an idle link says something, so that the setting `timeout` of the other node does not end it. Less
/// than the shortest one.
const BEAT: Duration = Duration::from_millis(500);

/// Longest time without an answer. What is published after that is lost, and waits for nothing.
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// The request that a node answers with OK if it takes messages.
const HELLO: &str = "HOTRING.DELIVER";

/// Bytes of answers that are read at once.
const ANSWERS_LEN: usize = 4 << 10;

/// Keeps a link to each other node until the server stops.
pub(crate) fn run(server: &Arc<Server>) {
    run_again("the messages between nodes", PAUSE, || run_once(server));
}

fn run_once(server: &Arc<Server>) {
    let Some(cluster) = &server.cluster else { return };
    run_on_event_loop(server, async {
        let links = keep_links(server, cluster);
        _ = unless(server.process.stopping(), links).await;
    });
}

/// A link to another node. Its task and its outbox end with it.
struct Link<'a> {
    cluster: &'a Cluster,
    source: Source,
    outbox: Arc<Outbox>,
    task: AbortHandle,
}

impl<'a> Link<'a> {
    fn begin(server: &Arc<Server>, cluster: &'a Cluster, node: NodeId, source: Source) -> Self {
        let outbox = cluster.forwarding.open(node);
        let task = keep(server.clone(), source.clone(), outbox.clone());
        let task = tokio::task::spawn_local(task).abort_handle();
        Link { cluster, source, outbox, task }
    }
}

impl Drop for Link<'_> {
    fn drop(&mut self) {
        self.task.abort();
        self.cluster.forwarding.close(&self.outbox);
    }
}

async fn keep_links(server: &Arc<Server>, cluster: &Cluster) {
    let mut links: BTreeMap<NodeId, Link<'_>> = BTreeMap::new();
    let mut version = 0;
    loop {
        if cluster.version() != version {
            version = cluster.version();
            let directory = cluster.directory();
            let wanted = sources(server, cluster, &directory);
            links.retain(|node, link| wanted.get(node) == Some(&link.source));
            for (node, source) in wanted {
                links.entry(node).or_insert_with(|| Link::begin(server, cluster, node, source));
            }
            let shard = |node| directory.shard_of_node(node).map(|(shard, _)| shard);
            let own = shard(cluster.me);
            links.iter().for_each(|(node, link)| {
                link.outbox.set_of_shard(own.is_some() && shard(*node) == own);
            });
        }
        for link in links.values() {
            let dropped = link.outbox.take_overflowed();
            if dropped > 0 {
                tracing::warn!(node = %link.source, dropped, "messages were dropped: the node does not keep up");
            }
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// The addresses of the other nodes. A dead one is tried as well, since only its lease may be over. Of nodes at one
/// address only the last that registered can be there: the others are earlier starts of a node without a folder.
fn sources(server: &Server, cluster: &Cluster, directory: &Directory) -> BTreeMap<NodeId, Source> {
    let is_tls = server.settings.config().replication.tls;
    let mut nodes: Vec<_> = directory.nodes.iter().collect();
    nodes.sort_by_key(|(_, (revision, _))| *revision);
    let mut last: BTreeMap<(String, u16), NodeId> = BTreeMap::new();
    for (id, (_, node)) in nodes {
        let port = if is_tls { node.tls_port } else { Some(node.port) };
        if let Some(port) = port {
            last.insert((node.host.clone(), port), *id);
        }
    }
    let is_known = last.values().any(|id| *id == cluster.me);
    let others = last.into_iter().filter(|(_, id)| is_known && *id != cluster.me);
    others.map(|((host, port), id)| (id, Source { host, port })).collect()
}

/// Links to a node again and again.
async fn keep(server: Arc<Server>, source: Source, outbox: Arc<Outbox>) {
    let mut told = None;
    loop {
        let Err(why) = link(&server, &source, &outbox, &mut told).await;
        outbox.set_linked(false);
        let why = why.to_string();
        if told.as_ref() != Some(&why) {
            tracing::warn!(node = %source, "no messages reach this node: {why}");
            told = Some(why);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Links to a node, and passes messages on until the link ends.
async fn link(
    server: &Server,
    source: &Source,
    outbox: &Outbox,
    told: &mut Option<String>,
) -> Result<Infallible, LinkError> {
    let config = server.settings.config();
    let mut stream = dial(&config, source).await?;
    log_in(&mut stream, &config).await?;
    let greeted = ask(&mut stream, &[HELLO]).await?;
    greeted.map_err(|error| LinkError::Peer(format!("the node refuses: {error}")))?;
    if told.take().is_some() {
        tracing::info!(node = %source, "messages reach this node again");
    }
    outbox.set_linked(true);
    let (answers, requests) = split(stream);
    // Both at once: a node whose answers are not read stops reading.
    let (mut read, mut write) = (pin!(read(answers)), pin!(write(requests, server, outbox)));
    let ended = poll_fn(|cx| match read.as_mut().poll(cx) {
        Poll::Pending => write.as_mut().poll(cx),
        ended => ended,
    });
    ended.await
}

async fn write(
    mut requests: WriteHalf<Box<dyn Stream>>,
    server: &Server,
    outbox: &Outbox,
) -> Result<Infallible, LinkError> {
    loop {
        let taken = tokio::time::timeout(BEAT, outbox.take()).await;
        let (bytes, messages) = taken.unwrap_or_else(|_| (format!("{HELLO}\r\n").into_bytes(), 0));
        requests.write_all(&bytes).await?;
        requests.flush().await?;
        if let Some(cluster) = &server.cluster {
            cluster.forwarding.count_sent(messages);
        }
    }
}

/// Reads the answers, which are of interest only if one is an error.
async fn read(mut answers: ReadHalf<Box<dyn Stream>>) -> Result<Infallible, LinkError> {
    let mut chunk = vec![0; ANSWERS_LEN];
    let mut replies = ReplyReader::default();
    loop {
        let read = tokio::time::timeout(SILENCE_MAX, answers.read(&mut chunk)).await;
        let len = read.map_err(|_| LinkError::Peer("the node does not answer".to_string()))??;
        if len == 0 {
            return Err(LinkError::Peer("the node closed the connection".to_string()));
        }
        replies.push(&chunk[..len]);
        let broken = |error| LinkError::Peer(format!("the node answers nonsense: {error}"));
        while let Some(reply) = replies.next_reply().map_err(broken)? {
            if let Reply::Error(error) = reply {
                return Err(LinkError::Peer(format!("the node refuses: {error}")));
            }
        }
    }
}
