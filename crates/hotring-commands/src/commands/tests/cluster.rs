//! CLUSTER and the commands of cluster clients, which this server refuses.

use crate::exec::dialogue::play;

/// The replies of Redis 7.0 without a cluster. Clients treat them differently from an unknown command.
#[test]
fn cluster_commands_are_refused_as_by_redis() {
    play(
        "
        CLUSTER INFO            -> -ERR This instance has cluster support disabled¶
        cluster myid            -> -ERR This instance has cluster support disabled¶
        CLUSTER KEYSLOT a       -> -ERR This instance has cluster support disabled¶
        CLUSTER NODES           -> -ERR This instance has cluster support disabled¶
        CLUSTER HELP            -> -ERR This instance has cluster support disabled¶
        READONLY                -> -ERR This instance has cluster support disabled¶
        READWRITE               -> -ERR This instance has cluster support disabled¶
        ASKING                  -> -ERR This instance has cluster support disabled¶
        CLUSTER                 -> -ERR wrong number of arguments for 'cluster' command¶
        CLUSTER NONSENSE        -> -ERR unknown subcommand 'NONSENSE'. Try CLUSTER HELP.¶
        ",
    );
}
