//! The commands of cluster clients: CLUSTER, READONLY, READWRITE, ASKING.
//!
//! They show the coordinator's records in Redis's forms, as far as this node has seen them. Which node serves which
//! request is decided in `state/routes.rs`.

mod keys;
mod stats;
mod view;

use std::fmt::Write;
use std::sync::atomic::Ordering;

use hotring_cluster::{PromoteRefused, slot_of};
use hotring_protocol::parse_i64;

use crate::commands::command;
use crate::state::cluster::Cluster;
use crate::state::context::Context;
use crate::state::failure::{Failure, Outcome};
use crate::table::{lookup, quoted, subcommands};
pub(super) use keys::{countkeysinslot, getkeysinslot};
pub(super) use stats::slot_stats;
use view::View;

const NO_CLUSTER: Failure = Failure::text("ERR This instance has cluster support disabled");

/// The server's place in its cluster.
pub(super) fn cluster<'a>(c: &Context<'a>) -> Result<&'a Cluster, Failure> {
    c.server.cluster.as_ref().ok_or(NO_CLUSTER)
}

/// The records of the cluster, for this client.
fn view(c: &Context<'_>) -> Result<View, Failure> {
    Ok(View::new(cluster(c)?, c))
}

pub(crate) fn asking(c: &mut Context<'_>) -> Outcome {
    cluster(c)?;
    c.reply.ok();
    Ok(())
}

pub(crate) fn readonly(c: &mut Context<'_>) -> Outcome {
    read_copies(c, true)
}

pub(crate) fn readwrite(c: &mut Context<'_>) -> Outcome {
    read_copies(c, false)
}

fn read_copies(c: &mut Context<'_>, reads_copies: bool) -> Outcome {
    cluster(c)?;
    // ORDERING: Relaxed, only this connection's thread acts on it.
    c.client.shared.reads_copies.store(reads_copies, Ordering::Relaxed);
    c.reply.ok();
    Ok(())
}

pub(crate) fn help(c: &mut Context<'_>) -> Outcome {
    cluster(c)?;
    command::help(c)
}

pub(crate) fn info(c: &mut Context<'_>) -> Outcome {
    let text = view(c)?.info();
    c.reply.verbatim("txt", &text);
    Ok(())
}

pub(crate) fn nodes(c: &mut Context<'_>) -> Outcome {
    let view = view(c)?;
    let mut text = String::new();
    for node in view.nodes() {
        writeln!(text, "{}", view.line(node)).expect("writing to a string cannot fail");
    }
    c.reply.verbatim("txt", &text);
    Ok(())
}

/// CLUSTER REPLICAS and SLAVES.
pub(crate) fn replicas(c: &mut Context<'_>) -> Outcome {
    let view = view(c)?;
    let primary = view.find(c.args.at(2)).ok_or_else(|| unknown_node(c.args.at(2)))?;
    let replicas =
        view.replicas_of(primary).ok_or(Failure::text("ERR The specified node is not a master"))?;
    c.reply.array(replicas.len());
    replicas.iter().for_each(|node| c.reply.bulk(view.line(*node).as_bytes()));
    Ok(())
}

fn unknown_node(name: &[u8]) -> Failure {
    format!("ERR Unknown node {}", quoted(name)).into()
}

pub(crate) fn slots(c: &mut Context<'_>) -> Outcome {
    view(c)?.write_slots(&mut c.reply);
    Ok(())
}

pub(crate) fn shards(c: &mut Context<'_>) -> Outcome {
    let position = c.server.stream_position();
    view(c)?.write_shards(position, &mut c.reply);
    Ok(())
}

pub(crate) fn myid(c: &mut Context<'_>) -> Outcome {
    let me = cluster(c)?.me;
    c.reply.bulk_fmt(format_args!("{me}"));
    Ok(())
}

/// Answers 40 digits, as Redis does: the number of the shard.
pub(crate) fn myshardid(c: &mut Context<'_>) -> Outcome {
    let cluster = cluster(c)?;
    let directory = cluster.directory();
    let (shard, _) = directory
        .shard_of_node(cluster.me)
        .ok_or(Failure::text("ERR This node belongs to no shard yet"))?;
    c.reply.bulk_fmt(format_args!("{shard:040x}"));
    Ok(())
}

pub(crate) fn keyslot(c: &mut Context<'_>) -> Outcome {
    cluster(c)?;
    c.reply.int(slot_of(c.args.at(2)).into());
    Ok(())
}

/// There is no bus between nodes; their links carry the streams of shards.
pub(crate) fn links(c: &mut Context<'_>) -> Outcome {
    cluster(c)?;
    c.reply.array(0);
    Ok(())
}

/// Nodes do not vote on each other's death: the coordinator's leases show it.
pub(crate) fn count_failure_reports(c: &mut Context<'_>) -> Outcome {
    let view = view(c)?;
    view.find(c.args.at(2)).ok_or_else(|| unknown_node(c.args.at(2)))?;
    c.reply.int(0);
    Ok(())
}

/// Asks the records for the role of the primary, as each in-sync replica does by itself when that is gone.
pub(crate) fn failover(c: &mut Context<'_>) -> Outcome {
    cluster(c)?;
    let accepts_loss = match c.args.len() {
        2 => {
            return Err(Failure::text(
                "ERR while the primary is there, send FAILOVER TO host port to it. Without it: CLUSTER FAILOVER FORCE, or \
                 TAKEOVER if this node may lack acknowledged writes and they are to be lost",
            ));
        }
        3 if c.args.at(2).eq_ignore_ascii_case(b"force") => false,
        3 if c.args.at(2).eq_ignore_ascii_case(b"takeover") => true,
        _ => return Err(Failure::Syntax),
    };
    if !c.server.replication.is_replica() {
        return Err(Failure::text("ERR You should send CLUSTER FAILOVER to a replica"));
    }
    tracing::warn!(client = c.client.shared.id, accepts_loss, "CLUSTER FAILOVER");
    c.server.replication.promote_recorded(accepts_loss).map_err(|why| {
        Failure::text(match why {
            PromoteRefused::HalfReceived => {
                "ERR this node has received only a part of its primary's data and cannot be a primary of it"
            }
            PromoteRefused::Underway => "ERR this node is asking for the role already",
            PromoteRefused::NotInSync => {
                "ERR this node is not known to have all acknowledged writes. Ask another one of the shard, or accept their \
                 loss: CLUSTER FAILOVER TAKEOVER, once the present primary is surely stopped"
            }
            PromoteRefused::NoRecord => "ERR this node belongs to no shard",
        })
    })?;
    c.reply.ok();
    Ok(())
}

/// What changes the layout of a Redis Cluster by hand. Here the coordinator's records are the layout, and only plans
/// change them.
pub(crate) fn by_hand(c: &mut Context<'_>) -> Outcome {
    cluster(c)?;
    let parent = lookup(c.args.at(0)).expect("the request has been resolved by its name");
    let name = c.args.at(1);
    let spec =
        subcommands(parent.id).find(|sub| sub.own_name().as_bytes().eq_ignore_ascii_case(name));
    let instead = match spec.map_or("", |spec| spec.own_name()) {
        "meet" | "replicate" => {
            "nodes register by their setting coordinator, and 'hotring cluster create' and 'hotring cluster add' put them \
             into shards"
        }
        "forget" | "reset" => {
            "nodes leave it by 'hotring cluster drain' and 'hotring cluster remove'"
        }
        "bumpepoch" | "set-config-epoch" => "epochs are raised by promotions (CLUSTER FAILOVER)",
        "saveconfig" => "'hotring cluster status' shows the records",
        _ => {
            "'hotring cluster create' gives shards their slots, and 'hotring cluster move' moves them"
        }
    };
    let name = quoted(name).to_string().to_ascii_uppercase();
    Err(format!("ERR CLUSTER {name} is not used here: the coordinator keeps the layout; {instead}")
        .into())
}

/// Parses the number of a slot.
fn slot(text: &[u8]) -> Option<hotring_cluster::Slot> {
    let number = parse_i64(text)?;
    u16::try_from(number).ok().filter(|slot| *slot < hotring_cluster::SLOTS)
}
