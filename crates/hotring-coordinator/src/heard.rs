//! Whether an answer shows that this node hears now.

use std::time::Duration;

use tokio::time::Instant;

use crate::Failure;

/// How long after its question an answer shows that, if a request may take `limit`: half of it. What came while this
/// process stood still is older when it is read.
pub(crate) fn heard_max(limit: Duration) -> Duration {
    limit / 2
}

/// Whether what was asked at this moment has been answered soon enough.
pub(crate) fn check_heard(asked: Instant, limit: Duration) -> Result<(), Failure> {
    if asked.elapsed() <= heard_max(limit) {
        return Ok(());
    }
    Err(Failure::Unknown("an answer lay unread, and shows nothing of now".to_owned()))
}
