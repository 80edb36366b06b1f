//! The machines with their wrong variants, their unit tests, and the simulator that checks them.
//!
//! This compiles the crate's own sources, so that `cfg(test)` gives them the wrong variants of `faults.rs`.

#[macro_use]
#[path = "../../src/faults.rs"]
mod faults;
#[path = "../../src/changes.rs"]
#[allow(dead_code)]
mod changes;
#[path = "../../src/circle.rs"]
#[allow(dead_code)]
mod circle;
#[path = "../../src/coded.rs"]
#[allow(dead_code)]
mod coded;
#[path = "../../src/controller.rs"]
#[allow(dead_code)]
mod controller;
#[path = "../../src/directory.rs"]
#[allow(dead_code)]
mod directory;
#[path = "../../src/failover.rs"]
#[allow(dead_code)]
mod failover;
#[path = "../../src/feed.rs"]
#[allow(dead_code)]
mod feed;
#[path = "../../src/founding.rs"]
#[allow(dead_code)]
mod founding;
#[path = "../../src/history.rs"]
#[allow(dead_code)]
mod history;
#[path = "../../src/ids.rs"]
#[allow(dead_code)]
mod ids;
#[path = "../../src/in_sync.rs"]
#[allow(dead_code)]
mod in_sync;
#[path = "../../src/keeper.rs"]
#[allow(dead_code)]
mod keeper;
#[path = "../../src/kept.rs"]
#[allow(dead_code)]
mod kept;
#[path = "../../src/layout.rs"]
#[allow(dead_code)]
mod layout;
#[path = "../../src/lost.rs"]
#[allow(dead_code)]
mod lost;
#[path = "../../src/membership.rs"]
#[allow(dead_code)]
mod membership;
#[path = "../../src/message.rs"]
#[allow(dead_code)]
mod message;
#[path = "../../src/mirrors/mod.rs"]
#[allow(dead_code, unused_imports)]
mod mirrors;
#[path = "../../src/moves/mod.rs"]
#[allow(dead_code, unused_imports)]
mod moves;
#[path = "../../src/plan.rs"]
#[allow(dead_code)]
mod plan;
#[path = "../../src/primary.rs"]
#[allow(dead_code)]
mod primary;
#[path = "../../src/records.rs"]
#[allow(dead_code)]
mod records;
#[path = "../../src/relay.rs"]
#[allow(dead_code)]
mod relay;
#[path = "../../src/replica.rs"]
#[allow(dead_code)]
mod replica;
#[path = "../../src/rules.rs"]
#[allow(dead_code)]
mod rules;
#[path = "../../src/slots.rs"]
#[allow(dead_code)]
mod slots;
#[path = "../../src/succession.rs"]
#[allow(dead_code)]
mod succession;

mod chain;
mod controlling;
mod guards;
mod keeping;
mod layouts;
mod mirroring;
mod moving;
mod pair;
mod plans;
mod schedules;
mod sim;
mod unheard;

/// A check, and the wrong variants that it finds.
type Check = (fn(), &'static [faults::Fault]);

/// Each wrong variant of a check must make it fail.
fn assert_variants_are_found(checks: &[Check]) {
    for (check, variants) in checks {
        for &variant in *variants {
            faults::set(Some(variant));
            let found = std::panic::catch_unwind(check).is_err();
            faults::set(None);
            assert!(found, "{variant:?} is not found");
        }
    }
}
