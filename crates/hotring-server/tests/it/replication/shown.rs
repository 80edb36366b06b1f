//! What operators see of replication: INFO, the metrics and the status page of a real pair.

use hotring_server::Config;

use super::{follow, info, server, wait_for, wait_until_even};
use crate::admin::get;
use crate::wire::{TestServer, Wire, ok};

/// The keys of the primary, of about 50 kB each: more than the sockets hold.
const KEYS: u64 = 80;

fn with_admin(config: &mut Config) {
    config.admin = Some("127.0.0.1:0".to_string());
}

/// A metric of a server; labels are part of the name.
fn metric(server: &TestServer, name: &str) -> f64 {
    let (_, page) = get(server.admin(), "/metrics");
    let value = page.lines().find_map(|line| line.strip_prefix("hotring_")?.strip_prefix(name));
    let value = value.unwrap_or_else(|| panic!("no {name} in {page}"));
    value.trim().parse().unwrap_or_else(|_| panic!("{name} is {value}"))
}

fn page(server: &TestServer) -> String {
    get(server.admin(), "/").1
}

fn number(wire: &mut Wire, name: &str) -> u64 {
    info(wire, name).parse().unwrap()
}

#[test]
fn a_copy_a_link_and_its_end_are_shown_on_both_sides() {
    let primary = server(None, |config| {
        with_admin(config);
        // A part of the copy every four seconds, until the test sets another rate.
        config.replication.copy_rate = 64 << 10;
    });
    let replica = server(None, with_admin);
    let (mut p, mut r) = (primary.connect(), replica.connect());
    for key in 0..KEYS {
        assert_eq!(p.say(&format!("SET key:{key} {}", "x".repeat(50_000))), ok());
    }
    let listens = format!("{{replica=\"127.0.0.1:{}\"}}", replica.address.port());
    let of_replica = |name: &str| metric(&primary, &format!("{name}{listens} "));
    assert!(page(&primary).contains("<tr><td>role<td>primary\n<tr><td>replicas<td>0\n"));

    let named = format!("in-sync-replicas 127.0.0.1:{}", replica.address.port());
    assert_eq!(p.say(&format!("CONFIG SET ack replicated {named}")), ok());
    follow(&mut r, primary.address.port());
    wait_for("a part of the copy is there", || {
        info(&mut r, "master_sync_in_progress") == "1"
            && number(&mut r, "master_sync_read_keys") > 0
    });
    assert_eq!(info(&mut r, "master_link_status"), "down");
    assert_eq!(number(&mut r, "master_sync_total_keys"), KEYS);
    assert!(number(&mut r, "master_sync_read_bytes") > 50_000);
    // The length is unknown in advance; the progress is counted in keys.
    assert_eq!(info(&mut r, "master_sync_left_bytes"), "-1");
    let percent: f64 = info(&mut r, "master_sync_perc").parse().unwrap();
    assert!(percent > 0.0 && percent < 100.0, "{percent}");
    let shown = page(&replica);
    assert!(shown.contains("<tr><td>role<td>replica of 127.0.0.1 "), "{shown}");
    assert!(shown.contains("<tr><td>link<td>receiving a full copy: "), "{shown}");
    assert_eq!(metric(&replica, "replica_copying "), 1.0);
    assert_eq!(metric(&replica, "replica_link_up "), 0.0);
    let progress = metric(&replica, "replica_copy_progress_ratio ");
    assert!(progress > 0.0 && progress < 1.0, "{progress}");
    let replicas = info(&mut p, "slave0");
    assert!(replicas.contains(",state=send_bulk,"), "{replicas}");
    let copied = replicas.rsplit_once(",copied_bytes=").unwrap().1;
    assert!(copied.parse::<u64>().unwrap() > 50_000, "{replicas}");
    assert_eq!(of_replica("replication_online"), 0.0);
    // A replica that has only a part of the data is attached, but not in sync.
    assert_eq!(metric(&primary, "replicas_connected "), 1.0);
    assert_eq!(metric(&primary, "replicas_in_sync "), 0.0);
    assert!(of_replica("replication_copy_bytes") > 50_000.0);

    assert_eq!(p.say("CONFIG SET repl-rate 0"), ok());
    wait_until_even(&mut p, &mut r);
    assert_eq!(metric(&replica, "replica_copying "), 0.0);
    assert_eq!(metric(&replica, "replica_link_up "), 1.0);
    assert_eq!(metric(&replica, "replica_copy_progress_ratio "), 1.0);
    assert_eq!(metric(&replica, "replica_copy_keys "), KEYS as f64);
    let [received, sent] =
        [metric(&replica, "replica_copy_bytes "), of_replica("replication_copy_bytes")];
    // Each part has a byte more, for its class.
    assert!(received < sent && received > sent - KEYS as f64, "{received} of {sent}");
    assert_eq!(of_replica("replication_online"), 1.0);
    wait_for("it is in sync", || metric(&primary, "replicas_in_sync ") == 1.0);
    assert_eq!(metric(&primary, "replication_full_copies_total "), 1.0);
    assert!(number(&mut r, "slave_read_repl_offset") >= number(&mut r, "slave_repl_offset"));
    let shown = page(&replica);
    assert!(shown.contains("<tr><td>link<td>up, last bytes 00:00:0"), "{shown}");
    let shown = page(&primary);
    let row = format!("<td>127.0.0.1:{}<td>online<td>yes<td class=n>", replica.address.port());
    assert!(shown.contains("<tr><td>replicas<td>1\n") && shown.contains(&row), "{shown}");

    primary.stop();
    wait_for("the end of the link is shown", || page(&replica).contains("<td>link<td>down for "));
    assert_eq!(metric(&replica, "replica_link_up "), 0.0);
}

#[test]
fn a_primary_that_waits_for_an_absent_replica_says_so() {
    let primary = server(None, with_admin);
    let mut p = primary.connect();
    let refuses = || metric(&primary, "replication_refuses_writes ");
    assert_eq!((refuses(), metric(&primary, "replicas_awaited ")), (0.0, 0.0));
    assert_eq!(p.say("CONFIG SET in-sync-replicas 127.0.0.1:1 ack replicated"), ok());
    wait_for("writes are refused", || refuses() == 1.0);
    assert!(p.say("SET k 1").text().starts_with("NOREPLICAS "));
    assert_eq!(metric(&primary, "replicas_awaited "), 1.0);
    assert_eq!(metric(&primary, "replicas_in_sync "), 0.0);
    let shown = page(&primary);
    assert!(shown.contains("<td>in sync<td>0 of 1 for which replies wait"), "{shown}");
    assert!(shown.contains("<td>writes<td>refused for lack of replicas"), "{shown}");
}
