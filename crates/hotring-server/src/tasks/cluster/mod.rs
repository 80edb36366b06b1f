//! A node of a cluster: registers with the coordinator, keeps the records in view, passes on what the machines ask of
//! them, and asks for the role of a primary that has died.
//!
//! ```text
//!              registry                              view
//!   lease, nodes/ID, alive/ID ---> coordinator ---> records ---> server.cluster, the role of this node
//!                                     ^  |                            |
//!                    requests --------+  +--- outcomes ---> machine   +--> succession: alive/PRIMARY is gone
//! ```
//! While the coordinator is away everything stays as it is: the right to answer comes from the replicas' promises,
//! never from a lease.

pub(crate) mod connect;
mod controller;
pub(crate) mod farewell;
pub(crate) mod full_disk;
pub(crate) mod identity;
pub(crate) mod mirrors;
pub(crate) mod moves;
mod registry;
mod requests;
mod succession;
mod view;

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use hotring_cluster::directory::Node;
use hotring_commands::host::clock;
use hotring_commands::state::server::Server;
use hotring_coordinator::{Coordinator, Failure, Reply};

use super::{run_again, run_on_event_loop};

/// The name of the thread.
pub(crate) const THREAD: &str = "hotring-cluster";

/// Pause before a request to the coordinator is tried again, or after a panic.
const PAUSE: Duration = Duration::from_millis(200);

/// Limit of the time for which the end of the server waits for the coordinator.
const FAREWELL_MAX: Duration = Duration::from_millis(500);

/// This node, as its tasks know it.
struct Member {
    server: Arc<Server>,
    coordinator: Arc<dyn Coordinator>,
    /// What others are told.
    node: Node,
}

impl Member {
    /// How long the lease of this node lives, and a request may take at most.
    fn lease(&self) -> Duration {
        self.server.settings.config().replication.lease()
    }

    /// The result of a request; unknown at the latest after half of a lease, so that a stuck coordinator delays nothing
    /// for longer.
    async fn ask<T>(&self, reply: Reply<'_, T>) -> Result<T, Failure> {
        let result = within(self.lease() / 2, reply).await;
        if let Some(cluster) = &self.server.cluster {
            cluster.coordinator.count(!matches!(result, Err(Failure::Unknown(_))));
        }
        result
    }

    /// Notes that the lease was granted or renewed, or has ended.
    fn note_lease(&self, lives: bool) {
        if let Some(cluster) = &self.server.cluster {
            cluster.coordinator.note_lease(lives);
        }
    }
}

/// The result of a request, unless it comes later: an answer that lay unread while this process stood still shows
/// nothing of now. A refusal holds at any time.
async fn within<T>(limit: Duration, reply: Reply<'_, T>) -> Result<T, Failure> {
    let began = clock::monotonic();
    match tokio::time::timeout(limit, reply).await {
        Ok(Ok(answer)) if began.elapsed() <= limit => Ok(answer),
        Ok(Err(failure)) => Err(failure),
        _ => Err(Failure::Unknown("the time is over".to_string())),
    }
}

/// Serves the cluster until the server stops. `node` is what others are told about this one.
pub(crate) fn run(server: &Arc<Server>, coordinator: &Arc<dyn Coordinator>, node: &Node) {
    // The tasks begin again with what the coordinator and the machines have.
    run_again("the cluster", PAUSE, || run_once(server, coordinator.clone(), node.clone()));
}

fn run_once(server: &Arc<Server>, coordinator: Arc<dyn Coordinator>, node: Node) {
    let member = Rc::new(Member { server: server.clone(), coordinator, node });
    run_on_event_loop(server, async {
        let lease = Rc::new(registry::Registered::default());
        let mut tasks: [Pin<Box<dyn Future<Output = ()>>>; 5] = [
            Box::pin(registry::keep(member.clone(), lease.clone())),
            Box::pin(view::keep(member.clone())),
            Box::pin(requests::pass_on(member.clone())),
            Box::pin(succession::keep(member.clone())),
            Box::pin(controller::keep(member.clone(), lease.clone())),
        ];
        let mut stopping = pin!(server.process.stopping());
        // Each of them ends with the server only. Polling all of them at each wake-up is cheap.
        poll_fn(|cx| {
            tasks.iter_mut().for_each(|task| _ = task.as_mut().poll(cx));
            stopping.as_mut().poll(cx)
        })
        .await;
        drop(tasks);
        // The others need not wait for the end of the lease.
        if let Some(lease) = lease.take() {
            let farewell = tokio::time::timeout(FAREWELL_MAX, member.coordinator.revoke(lease));
            let _ = farewell.await;
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What came while the process stood still counted, and a primary that heard no other node any more acted on it.
    #[test]
    fn an_answer_behind_its_time_is_none() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let limit = Duration::from_millis(200);
        let after = |pause: Duration, result: Result<u8, Failure>| {
            let reply: Reply<'static, u8> = Box::pin(async move {
                // Nothing else runs meanwhile, as in a process that is stopped.
                std::thread::sleep(pause);
                result
            });
            runtime.block_on(within(limit, reply))
        };
        assert_eq!(after(Duration::ZERO, Ok(1)), Ok(1));
        let late = after(2 * limit, Ok(1));
        assert!(matches!(late, Err(Failure::Unknown(_))), "{late:?}");
        let refused = Err(Failure::Refused("no".to_owned()));
        assert_eq!(after(2 * limit, refused.clone()), refused);
    }
}
