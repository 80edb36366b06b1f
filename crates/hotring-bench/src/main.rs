//! `hotring-bench`: measures, replays and tortures the HotRing index, store and server.

#![forbid(unsafe_code)]

mod address;
mod bounds;
mod cli;
mod cluster;
mod columns;
mod compare;
mod containers;
mod count;
mod crash;
mod durability;
mod evict;
mod expiry;
mod figures;
mod folder;
mod gcuckoo;
mod machine;
mod measure;
mod memory;
mod mercury;
mod moves;
mod pauses;
mod plots;
mod proxy;
mod reclamation;
mod replay;
mod report;
mod resp;
mod servers;
mod targets;
mod torture;
mod workload;
mod ycsb;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    match cli::Cli::parse().run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
