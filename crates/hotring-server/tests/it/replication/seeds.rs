//! A new replica begins with the seed of its primary's hash, if it has a password for it.

use super::{assert_equal, server};
use crate::wire::{Reply, ok};
use hotring_commands::settings::config::Secret;
use hotring_log::wire::WIRE_VERSION;
use hotring_server::Source;

#[test]
fn a_new_replica_with_a_password_has_the_order_of_its_primary() {
    let primary = server(None, |_| {});
    let mut p = primary.connect();
    for key in 0..200 {
        assert_eq!(p.say(&format!("SET key:{key} 1")), ok());
    }
    let refused = p.say(&format!("HOTRING.REPLICATE {WIRE_VERSION} SEED")).text();
    assert_eq!(refused, "ERR the seed is told over authenticated links only");
    assert_eq!(p.say("ACL SETUSER follower on >pw +hotring.replicate"), ok());
    let Reply::Array(order) = p.say("KEYS *") else { panic!("not a list") };
    for password in ["pw", ""] {
        let replica = server(None, |config| {
            let source = Source { host: "127.0.0.1".into(), port: primary.address.port() };
            config.replication.source = Some(source);
            if !password.is_empty() {
                config.replication.user = "follower".into();
                config.replication.password = Secret::new(password);
            }
        });
        let mut r = replica.connect();
        assert_equal(&mut p, &mut r);
        let Reply::Array(found) = r.say("KEYS *") else { panic!("not a list") };
        assert_eq!(found == order, !password.is_empty(), "the password is {password:?}");
    }
}
