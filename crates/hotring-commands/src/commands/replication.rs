//! REPLICAOF and ROLE: who follows whom.

use std::cmp::Ordering;
use std::time::Duration;

use hotring_cluster::directory::MoveId;
use hotring_cluster::{FailoverRefused, ShardId};
use hotring_log::wire::WIRE_VERSION;
use hotring_protocol::parse_i64;

use crate::settings::config::{CoordinatorAddress, Source};
use crate::state::client::Closing;
use crate::state::context::Context;
use crate::state::failure::{Failure, Outcome};
use crate::state::replication::link::LinkStage;

/// Begins to follow a primary, or ends that. The link's task does the rest; its progress is in INFO and ROLE.
pub(crate) fn replicaof(c: &mut Context<'_>) -> Outcome {
    let (host, port) = (c.args.at(1), c.args.at(2));
    if c.server.cluster.is_some() {
        return Err(Failure::text(
            "ERR REPLICAOF not allowed in cluster mode: the coordinator's records say who follows whom, see 'hotring \
             cluster'",
        ));
    }
    let is_forced = match c.args.len() {
        3 => false,
        4 if c.args.at(3).eq_ignore_ascii_case(b"force") => true,
        _ => return Err(Failure::Syntax),
    };
    if host.eq_ignore_ascii_case(b"no") && port.eq_ignore_ascii_case(b"one") {
        if c.server.replication.is_replica() {
            c.server.promote(c.store, is_forced).map_err(Failure::text)?;
            tracing::warn!(
                client = c.client.shared.id,
                "REPLICAOF NO ONE: this server is a primary"
            );
        }
        c.reply.ok();
        return Ok(());
    }
    let port = parse_i64(port).and_then(|number| u16::try_from(number).ok());
    let port = port.ok_or(Failure::text("ERR Invalid master port"))?;
    let host = std::str::from_utf8(host).map_err(|_| Failure::text("ERR Invalid master host"))?;
    let source = Source { host: host.to_string(), port };
    let is_same = c.server.replication.source().is_some_and(|present| present.is_at(&source));
    let gives_up = c.server.replication.link_status().awaits_order;
    if is_same && !gives_up {
        c.reply.simple("OK Already connected to specified master");
        return Ok(());
    }
    let (client, keys) = (c.client.shared.id, c.server.store.len());
    match is_same {
        false => tracing::warn!(
            client, primary = %source, keys,
            "REPLICAOF: this server is a replica, and gives up what its primary does not have"
        ),
        // Perhaps a tool that says it regularly: then the log must tell where the data went.
        true => tracing::warn!(
            client, primary = %source, keys,
            "REPLICAOF again: this replica gives up the data that it has kept so far for that of its primary"
        ),
    }
    c.server.follow(source, c.store);
    c.reply.ok();
    Ok(())
}

/// Begins to hand the role over, or ends that. As in Redis the reply comes at once; INFO shows how it goes on.
pub(crate) fn failover(c: &mut Context<'_>) -> Outcome {
    let Some(log) = c.server.persist.durability.stream() else {
        return Err(Failure::text("ERR FAILOVER requires connected replicas."));
    };
    if c.args.len() == 2 && c.args[1].eq_ignore_ascii_case(b"abort") {
        if !c.server.replication.abort_failover(log) {
            return Err(Failure::text("ERR No failover in progress."));
        }
        c.reply.ok();
        return Ok(());
    }
    let Handing { to, timeout, force } = handing(c)?;
    if c.server.replication.is_replica() {
        return Err(Failure::text("ERR FAILOVER is not valid when server is a replica."));
    }
    let to = to.as_ref().map(|to| c.server.node_at(&to.host, to.port));
    c.server.replication.fail_over(to, timeout, force, log).map_err(|why| {
        Failure::text(match (why, to) {
            (FailoverRefused::NotNow, _) => "ERR FAILOVER already in progress.",
            (FailoverRefused::NoReplica, None) => "ERR FAILOVER requires connected replicas.",
            (FailoverRefused::NoReplica, _) => "ERR FAILOVER target HOST and PORT is not a replica.",
            (FailoverRefused::NotInSync, _) => {
                "ERR FAILOVER target is not among the in-sync replicas and may lack acknowledged writes."
            }
            (FailoverRefused::NeedsTargetAndTime, _) => FORCE_NEEDS,
        })
    })?;
    c.reply.ok();
    Ok(())
}

const FORCE_NEEDS: &str =
    "ERR FAILOVER with force option requires both a timeout and target HOST and IP.";

/// The options of FAILOVER.
#[derive(Default)]
struct Handing {
    to: Option<Source>,
    timeout: Option<Duration>,
    force: bool,
}

fn handing(c: &Context<'_>) -> Result<Handing, Failure> {
    let (mut handing, mut i) = (Handing::default(), 1);
    while i < c.args.len() {
        let (word, left) = (c.args[i].to_ascii_lowercase(), c.args.len() - i);
        match word.as_slice() {
            b"timeout" if left >= 2 && handing.timeout.is_none() => {
                let ms = parse_i64(&c.args[i + 1]).ok_or(Failure::NotAnInteger)?;
                let ms = u64::try_from(ms).ok().filter(|ms| *ms > 0);
                let ms = ms.ok_or(Failure::text("ERR FAILOVER timeout must be greater than 0"))?;
                handing.timeout = Some(Duration::from_millis(ms));
                i += 2;
            }
            b"to" if left >= 3 && handing.to.is_none() => {
                let host = String::from_utf8_lossy(&c.args[i + 1]).into_owned();
                let port = parse_i64(&c.args[i + 2]).ok_or(Failure::NotAnInteger)?;
                let port =
                    u16::try_from(port).map_err(|_| Failure::text("ERR Invalid master port"))?;
                handing.to = Some(Source { host, port });
                i += 3;
            }
            b"force" if !handing.force => {
                handing.force = true;
                i += 1;
            }
            _ => return Err(Failure::Syntax),
        }
    }
    let is_complete = handing.to.is_some() && handing.timeout.is_some();
    if handing.force && !is_complete { Err(Failure::text(FORCE_NEEDS)) } else { Ok(handing) }
}

/// Tells the id that seeds the hash, so that a new replica may begin with the same. It lets one prepare colliding keys.
fn tell_seed(c: &mut Context<'_>) -> Outcome {
    if c.client.access().user().is_open() {
        return Err(Failure::text("ERR the seed is told over authenticated links only"));
    }
    let seed = u128::from_be_bytes(c.server.replication.seed);
    c.reply.simple(format!("{seed:032x}"));
    Ok(())
}

/// Turns the connection into a link. After the reply it speaks the frames of `docs/design/replication-wire.md`.
pub(crate) fn replicate(c: &mut Context<'_>) -> Outcome {
    let version = parse_i64(c.args.at(1)).ok_or(Failure::NotAnInteger)?;
    let older = match version.cmp(&i64::from(WIRE_VERSION)) {
        Ordering::Equal => None,
        Ordering::Less => Some("the replica, which keeps its data meanwhile"),
        Ordering::Greater => Some("this server, to which the replica wants to link"),
    };
    if let Some(older) = older {
        return Err(Failure::from(format!(
            "ERR this server speaks version {WIRE_VERSION} of the link, and the replica version {version}: upgrade {older}"
        )));
    }
    if c.server.replication.is_replica() && c.server.replication.redis.is_on() {
        return Err(Failure::text("ERR this server follows a Redis, and feeds no replicas"));
    }
    if c.args.at(2).eq_ignore_ascii_case(b"seed") {
        return tell_seed(c);
    }
    let port = parse_i64(c.args.at(2)).and_then(|port| u16::try_from(port).ok());
    let port = port.ok_or(Failure::NotAnInteger)?;
    c.client.closing = Some(Closing::BecomesLink(port));
    c.reply.simple("OK");
    Ok(())
}

/// The version of the frames that a connection to the coordinator speaks: `docs/design/coordinator.md`.
const COORDINATION_VERSION: i64 = 1;

/// Turns the connection into one to the coordinator of this node, if the settings give it one.
pub(crate) fn coordinate(c: &mut Context<'_>) -> Outcome {
    let version = parse_i64(c.args.at(1)).ok_or(Failure::NotAnInteger)?;
    if version != COORDINATION_VERSION {
        return Err(Failure::from(format!(
            "ERR connections to a coordinator of version {version} are not spoken here, but of version \
             {COORDINATION_VERSION}"
        )));
    }
    let settings = c.server.settings.config();
    if settings.replication.cluster.coordinator != Some(CoordinatorAddress::Embedded) {
        return Err(Failure::text(
            "ERR this server keeps no cluster's records: its setting coordinator is not 'embedded'",
        ));
    }
    c.client.closing = Some(Closing::BecomesCoordination);
    c.reply.simple("OK");
    Ok(())
}

/// Turns the connection into the link of a move of slots, which brings them here. After the reply it speaks the frames
/// of `docs/design/move-wire.md`.
pub(crate) fn import(c: &mut Context<'_>) -> Outcome {
    let number = |at| parse_i64(c.args.at(at)).ok_or(Failure::NotAnInteger);
    let (version, id, from) = (number(1)?, number(2)?, number(3)?);
    if version != i64::from(WIRE_VERSION) {
        return Err(Failure::from(format!(
            "ERR this server speaks version {WIRE_VERSION} of the link of a move, and the source version {version}: \
             upgrade the older one"
        )));
    }
    let cluster = c.server.cluster.as_ref();
    let cluster = cluster.ok_or(Failure::text("ERR This instance has cluster support disabled"))?;
    let directory = cluster.directory();
    let mine = directory.shard_of_node(cluster.me).map(|(shard, _)| shard);
    let (id, from) = (id as MoveId, ShardId::try_from(from).map_err(|_| Failure::NotAnInteger)?);
    let found = directory.moves.get(&id).map(|(_, wanted)| wanted);
    if found.is_none_or(|wanted| wanted.from != from || Some(wanted.to) != mine) {
        return Err(Failure::text(
            "ERR the records that this node has seen have no such move of slots to its shard",
        ));
    }
    if c.server.replication.led_epoch().is_none() {
        return Err(Failure::text("ERR this node is not the primary of its shard"));
    }
    c.client.closing = Some(Closing::BecomesImport { id, from });
    c.reply.simple("OK");
    Ok(())
}

pub(crate) fn role(c: &mut Context<'_>) -> Outcome {
    let Some(source) = c.server.replication.shown_source() else {
        let replicas = c.server.replication.replicas();
        c.reply.array(3);
        c.reply.bulk(b"master");
        c.reply.int(c.server.persist.durability.stream().map_or(0, |log| log.handed()) as i64);
        c.reply.array(replicas.len());
        for replica in replicas {
            c.reply.array(3);
            c.reply.bulk(replica.ip.as_bytes());
            c.reply.bulk_int(replica.port.into());
            c.reply.bulk_int(replica.applied as i64);
        }
        return Ok(());
    };
    c.reply.array(5);
    c.reply.bulk(b"slave");
    c.reply.bulk(source.host.as_bytes());
    c.reply.int(source.port.into());
    c.reply.bulk(c.server.replication.link_status().stage.name().as_bytes());
    let is_up = c.server.replication.link_status().stage == LinkStage::Connected;
    let replication = &c.server.replication;
    let applied = replication.redis.position().or_else(|| replication.applied());
    c.reply.int(applied.filter(|_| is_up).map_or(-1, |position| position as i64));
    Ok(())
}

#[cfg(test)]
mod tests {
    use hotring_protocol::Version;

    use crate::exec::dialogue::{Dialogue, play};

    #[test]
    fn a_replica_refuses_writes_until_it_is_a_primary_again() {
        play(
            r#"
            SET k 1                     -> +OK¶
            ROLE                        -> *3¶$6¶master¶:0¶*0¶
            REPLICAOF h x               -> -ERR Invalid master port¶
            REPLICAOF h 65536           -> -ERR Invalid master port¶
            REPLICAOF h                 -> -ERR wrong number of arguments for 'replicaof' command¶
            REPLICAOF no one            -> +OK¶
            REPLICAOF h 7               -> +OK¶
            REPLICAOF h 7               -> +OK Already connected to specified master¶
            SLAVEOF H 7                 -> +OK Already connected to specified master¶
            ROLE                        -> *5¶$5¶slave¶$1¶h¶:7¶$7¶connect¶:-1¶
            GET k                       -> $1¶1¶
            SET k 2                     -> -READONLY You can't write against a read only replica.¶
            BLPOP l 0                   -> -READONLY You can't write against a read only replica.¶
            FLUSHALL                    -> -READONLY You can't write against a read only replica.¶
            MULTI                       -> +OK¶
            SET k 2                     -> -READONLY You can't write against a read only replica.¶
            EXEC                        -> -EXECABORT Transaction discarded because of previous errors.¶
            EVAL "return redis.call('get', 'k')" 0 -> $1¶1¶
            SLAVEOF NO ONE              -> +OK¶
            SET k 2                     -> +OK¶
            "#,
        );
    }

    #[test]
    fn a_script_and_a_transaction_that_was_queued_before_write_nothing_on_a_replica() {
        let mut dialogue = Dialogue::new(Version::Resp2);
        let mut other = dialogue.with_version(Version::Resp2);
        assert_eq!(other.say("MULTI\r\nSET k 1"), "+OK¶+QUEUED¶");
        assert_eq!(dialogue.say("REPLICAOF h 7"), "+OK¶");
        let refused = dialogue.say("EVAL \"return redis.call('set', 'k', 1)\" 0");
        assert!(
            refused.starts_with("-READONLY You can't write against a read only replica."),
            "{refused}"
        );
        let aborted = "-EXECABORT Transaction discarded because of: READONLY You can't write against a read only replica.¶";
        assert_eq!(other.say("EXEC"), aborted);
        let info = dialogue.say("INFO replication");
        for line in ["role:slave", "master_host:h", "master_link_status:down", "slave_priority:100"]
        {
            assert!(info.contains(&format!("¶{line}¶")), "{info}");
        }
        assert_eq!(dialogue.say("EXISTS k"), ":0¶");
    }
}
