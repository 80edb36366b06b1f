//! The list of the commands of cluster clients, in the format of `list.rs`. Their subcommands are in `sublist.rs`.

/// Passes the given commands, and those of cluster clients, to the list of subcommands.
macro_rules! with_cluster {
    ($make:ident commands { $($commands:tt)* }) => { $crate::table::with_subcommands! { $make
    commands { $($commands)*
        Cluster = "cluster" -2 Cluster => command::holder .since("3.0.0")
            .about("Holds the commands about the cluster.");
        Asking = "asking" 1 Cluster => cluster::asking .flags(FAST).since("3.0.0")
            .categories_too(Categories::CONNECTION)
            .about("Answers OK: no slot is ever between two shards.");
        ReadOnly = "readonly" 1 Cluster => cluster::readonly
            .flags(ALWAYS_FAST.with(Flags::ENDS_BATCH)).since("3.0.0")
            .categories_too(Categories::CONNECTION)
            .about("Allows the connection to read from a replica, which may be behind its primary.");
        ReadWrite = "readwrite" 1 Cluster => cluster::readwrite
            .flags(ALWAYS_FAST.with(Flags::ENDS_BATCH)).since("3.0.0")
            .categories_too(Categories::CONNECTION)
            .about("Ends what READONLY began: a replica sends the connection to its primary.");
    }

    } };
}
pub(crate) use with_cluster;
