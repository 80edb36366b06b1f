//! The command line: the subcommands and their dispatch.

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::bounds::BoundsArgs;
use crate::columns::ColumnsArgs;
use crate::compare::CompareArgs;
use crate::containers::ContainersArgs;
use crate::crash::CrashArgs;
use crate::durability::DurabilityArgs;
use crate::evict::EvictArgs;
use crate::expiry::ExpiryArgs;
use crate::figures::FiguresArgs;
use crate::gcuckoo::GCuckooArgs;
use crate::memory::MemoryArgs;
use crate::mercury::MercuryArgs;
use crate::moves::MovesArgs;
use crate::pauses::PausesArgs;
use crate::proxy::ProxyArgs;
use crate::reclamation::ReclamationArgs;
use crate::replay::{GenerateArgs, ReplayArgs};
use crate::servers::{NullServerArgs, ServersArgs};
use crate::torture::TortureArgs;
use crate::ycsb::YcsbArgs;

/// Measures the HotRing index, store and server: YCSB workloads, memory per key, recorded traces,
/// and a torture run that checks every answer.
///
/// Progress is shown on standard error if that is a terminal; results go to standard output. Only
/// figures from a release build on an idle machine are valid.
#[derive(Debug, Parser)]
#[command(name = "hotring-bench", version, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Figures(FiguresArgs),
    Replay(ReplayArgs),
    Generate(GenerateArgs),
    Evict(EvictArgs),
    Ycsb(Box<YcsbArgs>),
    Compare(CompareArgs),
    Columns(ColumnsArgs),
    Memory(MemoryArgs),
    Bounds(BoundsArgs),
    Servers(Box<ServersArgs>),
    Containers(ContainersArgs),
    NullServer(NullServerArgs),
    Mercury(MercuryArgs),
    Torture(TortureArgs),
    Crash(CrashArgs),
    Durability(DurabilityArgs),
    Moves(MovesArgs),
    Pauses(PausesArgs),
    Proxy(ProxyArgs),
    Reclamation(ReclamationArgs),
    Expiry(ExpiryArgs),
    #[command(name = "gcuckoo")]
    GCuckoo(GCuckooArgs),
}

impl Cli {
    /// Runs the command.
    pub fn run(self) -> Result<()> {
        match self.command {
            Command::Figures(args) => args.run(),
            Command::Replay(args) => args.run(),
            Command::Generate(args) => args.run(),
            Command::Evict(args) => args.run(),
            Command::Ycsb(args) => args.run(),
            Command::Compare(args) => args.run(),
            Command::Columns(args) => args.run(),
            Command::Memory(args) => args.run(),
            Command::Bounds(args) => args.run(),
            Command::Servers(args) => args.run(),
            Command::Containers(args) => args.run(),
            Command::NullServer(args) => args.run(),
            Command::Mercury(args) => args.run(),
            Command::Torture(args) => args.run(),
            Command::Crash(args) => args.run(),
            Command::Durability(args) => args.run(),
            Command::Moves(args) => args.run(),
            Command::Pauses(args) => args.run(),
            Command::Proxy(args) => args.run(),
            Command::Reclamation(args) => args.run(),
            Command::Expiry(args) => args.run(),
            Command::GCuckoo(args) => args.run(),
        }
    }
}
