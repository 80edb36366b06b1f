//! The interface of a script interpreter, for the commands that run scripts. [`crate::script`] implements it with Lua,
//! above the commands that scripts call.

use std::sync::Arc;

use hotring_protocol::ArgsView;

use crate::settings::config::Config;
use crate::state::context::Context;
use crate::state::failure::Failure;
use crate::state::scripts::{Script, Scripts, Sha};

/// The arguments of a run.
#[derive(Clone, Copy)]
pub(crate) struct Run<'a> {
    pub keys: ArgsView<'a>,
    pub args: ArgsView<'a>,
    /// The script must not write.
    pub read_only: bool,
    /// The script holds the whole store, not only its keys.
    pub has_all: bool,
}

/// The end of a run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The reply is written.
    Replied,
    /// Nothing has been written: the script must run again while it holds the whole store.
    NeedsAll,
}

/// Runs the scripts of one thread.
pub(crate) trait Interpreter {
    /// The script with this digest, if it is compiled here and still in the cache.
    fn find(&mut self, sha: &Sha, scripts: &Scripts) -> Option<Arc<Script>>;

    /// Compiles a script.
    fn compile(&mut self, sha: &Sha, script: &Arc<Script>) -> Result<(), Failure>;

    /// Runs a script that was compiled here, and writes its reply.
    fn run(&mut self, script: &Script, run: Run<'_>, c: &mut Context<'_>)
    -> Result<Ended, Failure>;

    /// Whether a run has damaged the interpreter. It must not be used again then.
    fn is_spent(&self) -> bool;
}

/// Makes a thread's interpreter, which reports its runs to [`Scripts`].
pub(crate) type NewInterpreter = fn(&Config, &Scripts) -> Result<Box<dyn Interpreter>, Failure>;
