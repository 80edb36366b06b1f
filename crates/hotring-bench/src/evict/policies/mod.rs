//! The eviction policies, one per file. To add a policy, add its file and a line to [`CONTESTANTS`].

mod arc;
mod belady;
mod clock;
mod fifo;
mod heat;
mod lfu;
mod lru;
#[cfg(feature = "peers")]
mod peers;
mod random;
mod s3_fifo;
mod sampled;
mod sieve;
mod two_q;

use super::policy::Contestant;

/// All policies in the order of the table, the upper bound first.
pub const CONTESTANTS: &[Contestant] = &[
    Contestant { name: "optimum", drawn: false, build: |s| Box::new(belady::Belady::new(s)) },
    Contestant { name: "heat", drawn: true, build: |s| Box::new(heat::HeatCache::new(s)) },
    Contestant { name: "s3-fifo", drawn: true, build: |s| Box::new(s3_fifo::S3Fifo::new(s)) },
    Contestant { name: "sieve", drawn: true, build: |s| Box::new(sieve::Sieve::new(s)) },
    Contestant { name: "arc", drawn: true, build: |s| Box::new(arc::Arc::new(s)) },
    Contestant { name: "2q", drawn: false, build: |s| Box::new(two_q::TwoQ::new(s)) },
    Contestant { name: "lru", drawn: true, build: |s| Box::new(lru::Lru::new(s)) },
    Contestant { name: "lfu", drawn: false, build: |s| Box::new(lfu::Lfu::new(s)) },
    Contestant { name: "clock", drawn: false, build: |s| Box::new(clock::Clock::new(s)) },
    Contestant { name: "fifo", drawn: false, build: |s| Box::new(fifo::Fifo::new(s)) },
    Contestant { name: "random", drawn: false, build: |s| Box::new(random::Any::new(s)) },
    Contestant { name: "redis lru", drawn: true, build: |s| Box::new(sampled::Sampled::lru(s)) },
    Contestant { name: "redis lfu", drawn: true, build: |s| Box::new(sampled::Sampled::lfu(s)) },
    #[cfg(feature = "peers")]
    Contestant { name: "moka", drawn: false, build: |s| peers::moka(s) },
    #[cfg(feature = "peers")]
    Contestant { name: "quick_cache", drawn: true, build: |s| peers::quick_cache(s) },
    #[cfg(feature = "peers")]
    Contestant { name: "foyer lru", drawn: false, build: |s| peers::foyer_lru(s) },
    #[cfg(feature = "peers")]
    Contestant { name: "foyer lfu", drawn: false, build: |s| peers::foyer_lfu(s) },
    #[cfg(feature = "peers")]
    Contestant { name: "foyer s3-fifo", drawn: false, build: |s| peers::foyer_s3_fifo(s) },
];
