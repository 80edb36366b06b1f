//! The records of a node: that it is alive, and what it is.

use hotring_cluster::directory::alive_name;

use super::*;

/// A write of an attempt to register came late, hung the record on that attempt's lease, and the record went with it.
/// The node kept its second lease alive and never registered again.
#[test]
fn a_node_whose_record_is_gone_writes_it_again() {
    let keeper = Keeper::new();
    let node = Node::new(&keeper, "gone", None);
    wait_for("it registers", || !keeper.directory().alive.is_empty());
    let changes = vec![Change::Delete { name: alive_name(node.id(&keeper)) }];
    let done = keeper.transact(Transaction { expect: Vec::new(), changes });
    assert!(matches!(done, Ok(Outcome::Done(_))), "{done:?}");
    wait_for("it registers again", || !keeper.directory().alive.is_empty());
}

/// An attempt to register got no answer, and its lease lived on beside that of the next attempt.
#[test]
fn an_attempt_without_an_answer_leaves_no_lease() {
    let keeper = Keeper::new();
    let door = keeper.door();
    door.lose_answer_once();
    let node = TestServer::in_cluster(door.coordinator(), |_| {});
    wait_for("it registers", || door.granted().len() == 2);
    wait_for("the first lease is over", || !keeper.keeps(door.granted()[0]));
    wait_for("the node is alive", || !keeper.directory().alive.is_empty());
    assert!(keeper.keeps(door.granted()[1]));
    drop(node);
}

/// Each start of a node without a folder has another name, and left a record for ever.
#[test]
fn the_record_of_an_idle_node_without_a_folder_ends_with_it() {
    let keeper = Keeper::new();
    let mut nodes = [("kept", Some(AckWhen::Written)), ("idle", None)]
        .map(|(n, log)| Node::new(&keeper, n, log));
    wait_for("they register", || keeper.directory().alive.len() == 2);
    let names = [nodes[0].id(&keeper), nodes[1].id(&keeper)];
    nodes.iter_mut().for_each(Node::kill);
    wait_for("the leases end", || keeper.directory().alive.is_empty());
    assert_eq!(names.map(|name| keeper.directory().node(name).is_some()), [true, false]);
}

/// Clients find a primary by its record, also while its lease is over.
#[test]
fn the_record_of_a_placed_node_outlives_its_lease() {
    let keeper = Keeper::new();
    let node = Node::new(&keeper, "placed", None);
    found(&keeper, &[vec![&node]]);
    let name = node.id(&keeper);
    wait_for("it writes its record again", || {
        let directory = keeper.directory();
        directory.nodes[&name].0 > directory.shards[&0].0
    });
    node.door.shut();
    wait_for("the lease ends", || keeper.directory().alive.is_empty());
    assert!(keeper.directory().node(name).is_some());
}
