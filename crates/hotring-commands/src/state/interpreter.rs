//! The interface of a script interpreter, for the commands that run scripts. [`crate::script`] implements it with Lua
//! in a layer above the commands, because scripts call commands.

use std::sync::Arc;

use hotring_protocol::ArgsView;

use crate::settings::config::Config;
use crate::state::context::Context;
use crate::state::failure::Failure;
use crate::state::scripts::{Script, Scripts, Sha};

/// The arguments of one run of a script.
#[derive(Clone, Copy)]
pub(crate) struct Run<'a> {
    pub keys: ArgsView<'a>,
    pub args: ArgsView<'a>,
    /// The script must not write.
    pub read_only: bool,
    /// All keys of the script's commands must be in one slot, if the server is a node of a cluster.
    pub in_one_slot: bool,
    /// The script holds the entire store, not only its keys.
    pub has_all: bool,
}

/// The outcome of a run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The reply is written.
    Replied,
    /// Nothing has been written: the script must run again while it holds the entire store.
    NeedsAll,
}

/// Runs the scripts of one thread.
pub(crate) trait Interpreter {
    /// The script with this digest, if this interpreter has compiled it and it is still in the cache.
    fn find(&mut self, sha: &Sha, scripts: &Scripts) -> Option<Arc<Script>>;

    /// Compiles a script.
    fn compile(&mut self, sha: &Sha, script: &Arc<Script>) -> Result<(), Failure>;

    /// Runs a script that this interpreter has compiled, and writes its reply.
    fn run(&mut self, script: &Script, run: Run<'_>, c: &mut Context<'_>)
    -> Result<Ended, Failure>;

    /// Whether a run has damaged the interpreter, which then must not be used again.
    fn is_spent(&self) -> bool;
}

/// The constructor of a thread's interpreter, which reports its runs to [`Scripts`].
pub(crate) type NewInterpreter = fn(&Config, &Scripts) -> Result<Box<dyn Interpreter>, Failure>;
