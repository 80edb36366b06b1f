//! Pub/sub over all nodes of a cluster.

use super::*;
use crate::wire::bulk;

/// Waits until messages of this node reach all others.
fn wait_for_links(nodes: &[&Node]) {
    let others = (nodes.len() - 1).to_string();
    for node in nodes {
        let mut wire = node.wire();
        wait_for("all nodes are linked", || info(&mut wire, "cluster_message_links") == others);
    }
}

fn listen(node: &Node, request: &str) -> Wire {
    let mut wire = node.wire();
    assert!(!wire.say(request).is_error(), "{request}");
    wire
}

fn message(parts: &[&str]) -> Reply {
    Reply::Array(parts.iter().map(|part| bulk(part)).collect())
}

/// Publishes messages that name their publisher, from 0 on.
fn publish(node: &Node, name: &str, count: usize, receivers: i64) {
    let mut wire = node.wire();
    for n in 0..count {
        assert_eq!(wire.say(&format!("PUBLISH news {name}:{n}")), Reply::Int(receivers));
    }
}

/// Reads as many messages of each publisher, and checks that those of each come in their order, once.
fn assert_hears(wire: &mut Wire, names: &[&str], count: usize) {
    let mut next = vec![0; names.len()];
    for _ in 0..count * names.len() {
        let reply = wire.reply();
        let text = reply.items().last().unwrap().text();
        let (name, n) = text.split_once(':').unwrap();
        let at = names.iter().position(|known| *known == name).unwrap();
        assert_eq!(n, next[at].to_string(), "of {name}");
        next[at] += 1;
    }
    assert!(wire.is_silent_for(Duration::from_millis(50)), "each message comes once");
}

/// PUBLISH reached only the clients of its own node, so that a client had to know where others listen.
#[test]
fn a_message_reaches_the_clients_of_all_nodes_in_order() {
    let keeper = Keeper::new();
    let node = |part: &str| Node::new(&keeper, &format!("news-{part}"), None);
    let (a, b, mut c) = (node("a"), node("b"), node("c"));
    found(&keeper, &[vec![&a, &b], vec![&c]]);
    wait_for_links(&[&a, &b, &c]);
    let mut listeners = [&a, &b, &c].map(|node| listen(node, "SUBSCRIBE news"));
    let mut by_pattern = listen(&b, "PSUBSCRIBE n*s");
    std::thread::scope(|scope| {
        for (node, name, receivers) in [(&a, "a", 1), (&b, "b", 2), (&c, "c", 1)] {
            scope.spawn(move || publish(node, name, 200, receivers));
        }
    });
    for wire in listeners.iter_mut().chain([&mut by_pattern]) {
        assert_hears(wire, &["a", "b", "c"], 200);
    }
    // A script and a transaction publish, too.
    let mut wire = a.wire();
    wire.say("MULTI");
    wire.say("PUBLISH news m:0");
    wire.say("EXEC");
    assert!(!wire.ask(&["EVAL", "return redis.call('publish','news','s:0')", "0"]).is_error());
    assert_hears(&mut listeners[2], &["m", "s"], 1);
    // A node that was away hears again once it is back.
    c.kill();
    publish(&b, "b", 10, 2);
    c.start(&keeper);
    wait_for_links(&[&a, &b, &c]);
    let mut again = listen(&c, "SUBSCRIBE news");
    publish(&a, "a", 50, 1);
    assert_hears(&mut again, &["a"], 50);
}

/// Messages on a shard channel stayed at the primary.
#[test]
fn a_message_on_a_shard_channel_reaches_the_replicas_of_its_shard() {
    let keeper = Keeper::new();
    let node = |part: &str| Node::new(&keeper, &format!("shards-{part}"), None);
    let (a, b, c) = (node("a"), node("b"), node("c"));
    found(&keeper, &[vec![&a, &b], vec![&c]]);
    wait_for_links(&[&a, &b, &c]);
    wait_until_it_serves(&a);
    // `b` is in slot 3300, of the first shard.
    let mut listeners = [&a, &b].map(|node| listen(node, "SSUBSCRIBE b"));
    for (node, text) in [(&a, "one"), (&b, "two")] {
        assert_eq!(node.wire().say(&format!("SPUBLISH b {text}")), Reply::Int(1));
        listeners.iter_mut().for_each(|wire| {
            assert_eq!(wire.reply(), message(&["smessage", "b", text]));
        });
    }
    let refused = c.wire().say("SPUBLISH b x");
    assert!(matches!(&refused, Reply::Error(why) if why.starts_with("MOVED 3300 ")), "{refused:?}");
    // An ordinary channel of the same name is another one.
    assert_eq!(a.wire().say("PUBLISH b x"), Reply::Int(0));
    let mut silent = listeners;
    silent.iter_mut().for_each(|wire| assert!(wire.is_silent_for(Duration::from_millis(50))));
}

/// Whoever may not do so must not deliver messages past the rules for channels.
#[test]
fn delivering_needs_the_rights_of_a_node() {
    let keeper = Keeper::new();
    let node = Node::new(&keeper, "rights", None);
    let mut wire = node.wire();
    assert_eq!(wire.say("ACL SETUSER u on >pw ~* &* +@all -@admin"), ok());
    assert_eq!(wire.say("HOTRING.DELIVER"), ok());
    assert_eq!(wire.say("HOTRING.DELIVER all c x"), Reply::Int(0));
    assert_eq!(wire.say("AUTH u pw"), ok());
    assert!(wire.say("HOTRING.DELIVER all c x").is_error());
    assert!(TestServer::new().connect().say("HOTRING.DELIVER").is_error(), "outside a cluster");
}

/// The connections by which other nodes deliver messages.
fn links_to(node: &Node) -> Vec<String> {
    let clients = node.wire().say("CLIENT LIST").text();
    let links = clients.lines().filter(|line| line.contains("cmd=hotring.deliver"));
    links.map(|line| line.split(' ').next().unwrap().to_string()).collect()
}

/// The setting `timeout` is for clients that are gone. It ended links without messages, and those that came before the
/// next link were lost.
#[test]
fn a_link_without_messages_outlives_the_timeout_of_clients() {
    let keeper = Keeper::new();
    let (a, b) = (Node::new(&keeper, "idle-a", None), Node::new(&keeper, "idle-b", None));
    wait_for_links(&[&a, &b]);
    assert_eq!(b.wire().say("CONFIG SET timeout 1"), ok());
    let before = links_to(&b);
    assert_eq!(before.len(), 1, "{before:?}");
    std::thread::sleep(Duration::from_secs(4));
    assert_eq!(links_to(&b), before);
}
