//! The write-ahead log of hotring: what is in it, how it gets to the disk, and how it is read again.
//!
//! ```text
//!  sessions --Records--> Log (the hand-over) --> Writer --> segments on a Storage --> recover
//!                         |                        |             |
//!                         +--- poll_reached <------+--- Syncer --+    a reply waits here for its record
//! ```
//!
//! A record says what a write did to a key, not what was asked for: replaying it twice is replaying it once. The
//! order of records is the order of [`Log::append`]; a caller that appends within what makes its writes to a key
//! exclude each other has the key's records in the order of its writes.
//!
//! The crate owns no thread and reads no clock: [`Writer::step`] is called by one thread of the owner's, with the
//! time. Files are used through [`Storage`] only. `docs/design/log.md` has the bytes and the promises.

#![forbid(unsafe_code)]

mod log;
mod record;
mod recover;
mod repair;
mod segment;
pub mod storage;
mod syncer;
mod walk;
mod writer;

pub use log::{Log, Lsn, Trouble, When};
pub use record::{Attached, Bad, Effect, Found, Mark, Records, read};
pub use recover::{Checked, RecoverError, Recovered, check, recover};
pub use repair::{RepairError, repair};
pub use segment::{Id, remove_before};
pub use storage::{Disk, File, Storage};
pub use syncer::Syncer;
pub use walk::{Apply, Damage, Part};
pub use writer::{Options, Writer};
