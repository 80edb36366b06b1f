//! The replicas that are attached to this server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use hotring_cluster::{NodeId, Stamp, ToReplica};
use hotring_log::Lsn;
use tokio::sync::mpsc::UnboundedSender;

/// The stage of an attached replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Stage {
    /// It gets a full copy.
    Copying = 0,
    /// It follows the stream.
    Online = 1,
}

/// The progress of a link at the primary. The link's task writes it.
#[derive(Debug, Default)]
pub struct Progress {
    stage: AtomicU8,
    copied: AtomicU64,
}

// ORDERING: Relaxed throughout, figures for people.
impl Progress {
    /// Enters a stage.
    pub fn reach(&self, stage: Stage) {
        self.stage.store(stage as u8, Ordering::Relaxed);
    }

    /// Adds to the bytes of the full copy that are sent.
    pub fn copy(&self, bytes: usize) {
        self.copied.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn stage(&self) -> Stage {
        match self.stage.load(Ordering::Relaxed) == Stage::Online as u8 {
            true => Stage::Online,
            false => Stage::Copying,
        }
    }

    pub(super) fn copied(&self) -> u64 {
        self.copied.load(Ordering::Relaxed)
    }
}

/// A replica that is attached to this server.
#[derive(Debug)]
pub struct Attached {
    pub node: NodeId,
    pub stamp: Stamp,
    /// The address of its connection, and the port on which it listens.
    pub ip: String,
    pub port: u16,
    /// Messages to its link's task.
    pub messages: UnboundedSender<ToReplica>,
    pub progress: Arc<Progress>,
}

/// An attached replica at one moment, for INFO and ROLE.
#[derive(Clone, Debug)]
pub struct ReplicaStatus {
    pub node: NodeId,
    pub ip: String,
    pub port: u16,
    pub stage: Stage,
    /// Bytes of the link's full copy that are sent.
    pub copied: u64,
    pub applied: Lsn,
    pub written: Lsn,
    pub synced: Lsn,
    pub lag: Duration,
    pub lag_bytes: u64,
    /// Replies wait for it, and it keeps up.
    pub is_in_sync: bool,
    /// Its log cannot write at present.
    pub is_full: bool,
}

impl ReplicaStatus {
    /// Redis's name of the stage, in INFO.
    pub fn state(&self) -> &'static str {
        if self.stage == Stage::Online { "online" } else { "send_bulk" }
    }

    /// The address at which it listens.
    pub fn address(&self) -> String {
        format!("{}:{}", self.ip, self.port)
    }
}
