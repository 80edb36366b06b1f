//! The commands, one file a family, and the one place that maps a command's id to its function.
//!
//! A command is a function `fn(&mut Context) -> Outcome`. It reads `args`, asks the store, and
//! writes exactly one reply; it returns a [`Failure`] instead of writing an error itself. Dispatch
//! has already checked the number of arguments against the command table.
//!
//! ```text
//! pub(crate) fn strlen(c: &mut Context<'_>) -> Outcome {
//!     let len = c.store.strlen(&c.args[1], c.now);
//!     c.reply.int(len as i64);
//!     Ok(())
//! }
//! ```

mod acl;
pub(crate) mod answer;
mod bits;
pub(crate) mod client;
mod command;
mod compare;
mod config;
mod connection;
mod counter;
mod debug;
mod dump;
mod expire;
mod flow;
mod function;
mod hash;
mod history;
mod info;
mod key;
mod latency;
mod memory;
mod monitor;
mod multi;
mod numeric;
mod object;
mod pin;
pub(crate) mod process;
pub mod pubsub;
mod range;
pub(crate) mod save;
mod scan;
mod script;
mod scrub;
mod slowlog;
pub(crate) mod string;
#[cfg(test)]
mod tests;
mod tracking;
mod transaction;
mod wait;

use std::time::Duration;

pub(crate) use connection::REDIS_VERSION;
use hotring_protocol::{ArgsView, CommandId};
pub(crate) use transaction::may_touch_any_key;

use crate::acl::ChannelKind;
use crate::acl::has_secrets;
use crate::host::clock;
use crate::observe::counters::Counters;
use crate::observe::latency::COMMAND;
use crate::state::client::Client;
use crate::state::context::Context;
use crate::state::failure::{Failure, Outcome};
use crate::state::server::Server;

/// Runs one command.
#[inline]
pub(crate) fn run(id: CommandId, c: &mut Context<'_>) -> Outcome {
    use CommandId as Id;
    match id {
        Id::Get => string::get(c),
        Id::Set => string::set(c),
        Id::SetNx => string::setnx(c),
        Id::SetEx => string::setex(c),
        Id::PSetEx => string::psetex(c),
        Id::GetSet => string::getset(c),
        Id::GetDel => string::getdel(c),
        Id::GetEx => string::getex(c),
        Id::Append => string::append(c),
        Id::StrLen => string::strlen(c),
        Id::Incr => numeric::incr(c),
        Id::Decr => numeric::decr(c),
        Id::IncrBy => numeric::incrby(c),
        Id::DecrBy => numeric::decrby(c),
        Id::IncrByFloat => numeric::incrbyfloat(c),
        Id::GetRange | Id::SubStr => range::getrange(c),
        Id::SetRange => range::setrange(c),
        Id::MGet => multi::mget(c),
        Id::MSet => multi::mset(c),
        Id::MSetNx => multi::msetnx(c),
        Id::Del | Id::Unlink => key::del(c),
        Id::Exists => key::exists(c),
        Id::Touch => key::touch(c),
        Id::Pin => pin::pin(c),
        Id::Unpin => pin::unpin(c),
        Id::Pinned => pin::pinned(c),
        Id::Type => key::type_of(c),
        Id::Rename => key::rename(c),
        Id::RenameNx => key::renamenx(c),
        Id::Copy => key::copy(c),
        Id::RandomKey => key::randomkey(c),
        Id::Ttl => expire::ttl(c),
        Id::PTtl => expire::pttl(c),
        Id::Expire => expire::expire(c),
        Id::PExpire => expire::pexpire(c),
        Id::ExpireAt => expire::expireat(c),
        Id::PExpireAt => expire::pexpireat(c),
        Id::ExpireTime => expire::expiretime(c),
        Id::PExpireTime => expire::pexpiretime(c),
        Id::Persist => expire::persist(c),
        _ => run_rare(id, c),
    }
}

/// Runs one command and notes how long it took.
#[cold]
pub(crate) fn run_timed(id: CommandId, c: &mut Context<'_>) -> Outcome {
    let begun = clock::monotonic();
    let outcome = run(id, c);
    note_time(id, c.args, begun.elapsed(), c.now, (c.counters, c.client, c.server));
    outcome
}

/// Notes how long a command took, wherever that is told.
pub(crate) fn note_time(
    id: CommandId,
    args: ArgsView<'_>,
    took: Duration,
    now: u64,
    (counters, client, server): (&Counters, &Client, &Server),
) {
    counters.by_command.time(id as usize, took);
    server.latency.note(COMMAND, took, now);
    if !has_secrets(id, args) {
        let shared = &client.shared;
        let who = || (shared.peer.to_string(), shared.labels().name.into());
        server.slowlog.note(args, took, now, who);
    }
}

/// The commands about connections, users, the process, transactions, messages, scripts, bits and earlier values,
/// and those that wait, kept out of the code that every request runs; and the walks over all keys.
#[cold]
fn run_rare(id: CommandId, c: &mut Context<'_>) -> Outcome {
    use CommandId as Id;
    match id {
        Id::Scan => scan::scan(c),
        Id::Keys => scan::keys(c),
        Id::SlowLogGet => slowlog::get(c),
        Id::SlowLogLen => slowlog::len(c),
        Id::SlowLogReset => slowlog::reset(c),
        Id::SlowLogHelp => command::help(c, Id::SlowLog),
        Id::SetBit => bits::setbit(c),
        Id::GetBit => bits::getbit(c),
        Id::BitCount => bits::bitcount(c),
        Id::BitPos => bits::bitpos(c),
        Id::BitOp => bits::bitop(c),
        Id::Dump => dump::dump(c),
        Id::Restore => dump::restore(c),
        Id::ObjectEncoding => object::encoding(c),
        Id::ObjectFreq => object::freq(c),
        Id::ObjectIdleTime => object::idletime(c),
        Id::ObjectRefCount => object::refcount(c),
        Id::ObjectHelp => command::help(c, Id::Object),
        Id::MemoryUsage => memory::usage(c),
        Id::MemoryPurge => memory::purge(c),
        Id::MemoryStats => memory::stats(c),
        Id::MemoryDoctor => memory::doctor(c),
        Id::MemoryHelp => command::help(c, Id::Memory),
        Id::LastSave => save::lastsave(c),
        Id::Save => save::save(c),
        Id::BgSave => save::bgsave(c),
        Id::BgRewriteAof => save::bgrewriteaof(c),
        Id::Role => process::role(c),
        Id::Wait => process::wait(c),
        Id::WaitAof => process::waitaof(c),
        Id::ModuleList => process::modules(c),
        Id::ModuleHelp => command::help(c, Id::Module),
        Id::Monitor => monitor::monitor(c),
        Id::Debug => debug::debug(c),
        Id::LatencyLatest => latency::latest(c),
        Id::LatencyHistogram => latency::histogram(c),
        Id::LatencyHistory => latency::history(c),
        Id::LatencyReset => latency::reset(c),
        Id::LatencyGraph => latency::graph(c),
        Id::LatencyDoctor => latency::doctor(c),
        Id::LatencyHelp => command::help(c, Id::Latency),
        Id::HSet => hash::hset(c),
        Id::HMSet => hash::hmset(c),
        Id::HSetNx => hash::hsetnx(c),
        Id::HGet => hash::hget(c),
        Id::HMGet => hash::hmget(c),
        Id::HGetAll => hash::hgetall(c),
        Id::HKeys => hash::hkeys(c),
        Id::HVals => hash::hvals(c),
        Id::HLen => hash::hlen(c),
        Id::HExists => hash::hexists(c),
        Id::HStrLen => hash::hstrlen(c),
        Id::HDel => hash::hdel(c),
        Id::HIncrBy => hash::hincrby(c),
        Id::HIncrByFloat => hash::hincrbyfloat(c),
        Id::HScan => hash::hscan(c),
        Id::MSetEx => multi::msetex(c),
        Id::DelEx => compare::delex(c),
        Id::DelIfEq => compare::delifeq(c),
        Id::Digest => compare::digest(c),
        Id::IncrEx => counter::increx(c),
        Id::Multi => transaction::multi(c),
        Id::Exec => transaction::exec(c),
        Id::Discard => transaction::discard(c),
        Id::Watch => transaction::watch(c),
        Id::Unwatch => transaction::unwatch(c),
        Id::Publish => pubsub::publish(c),
        Id::Subscribe => pubsub::subscribe(c, ChannelKind::Channel),
        Id::Unsubscribe => pubsub::unsubscribe(c, ChannelKind::Channel),
        Id::PSubscribe => pubsub::subscribe(c, ChannelKind::Pattern),
        Id::PUnsubscribe => pubsub::unsubscribe(c, ChannelKind::Pattern),
        Id::PubSubChannels => pubsub::channels(c),
        Id::PubSubNumSub => pubsub::numsub(c),
        Id::PubSubNumPat => pubsub::numpat(c),
        Id::PubSubHelp => command::help(c, Id::PubSub),
        Id::Eval | Id::EvalRo => script::eval(c, id == Id::EvalRo),
        Id::EvalSha | Id::EvalShaRo => script::evalsha(c, id == Id::EvalShaRo),
        Id::ScriptLoad => script::load(c),
        Id::ScriptExists => script::exists(c),
        Id::ScriptFlush => script::flush(c),
        Id::ScriptKill => script::kill(c),
        Id::ScriptHelp => command::help(c, Id::Script),
        Id::FunctionFlush => function::flush(c),
        Id::FunctionList => function::list(c),
        Id::FunctionStats => function::stats(c),
        Id::FunctionKill => function::kill(c),
        Id::FunctionHelp => command::help(c, Id::Function),
        Id::WaitKey => wait::waitkey(c),
        Id::History => history::history(c),
        Id::Rollback => history::rollback(c),
        Id::Ping => connection::ping(c),
        Id::Echo => connection::echo(c),
        Id::Hello => connection::hello(c),
        Id::Quit => connection::quit(c),
        Id::Reset => connection::reset(c),
        Id::Select => connection::select(c),
        Id::Auth => connection::auth(c),
        Id::ClientId => client::id(c),
        Id::ClientGetName => client::getname(c),
        Id::ClientSetName => client::setname(c),
        Id::ClientSetInfo => client::setinfo(c),
        Id::ClientInfo => client::info(c),
        Id::ClientList => client::list(c),
        Id::ClientKill => client::kill(c),
        Id::ClientNoEvict => client::no_evict(c),
        Id::ClientNoTouch => client::no_touch(c),
        Id::ClientPause => flow::pause(c),
        Id::ClientUnpause => flow::unpause(c),
        Id::ClientReply => flow::reply(c),
        Id::ClientUnblock => flow::unblock(c),
        Id::ClientTracking => tracking::tracking(c),
        Id::ClientCaching => tracking::caching(c),
        Id::ClientGetRedir => tracking::getredir(c),
        Id::ClientTrackingInfo => tracking::info(c),
        Id::ClientHelp => command::help(c, Id::Client),
        Id::ConfigGet => config::get(c),
        Id::ConfigSet => config::set(c),
        Id::ConfigResetStat => config::resetstat(c),
        Id::ConfigRewrite => config::rewrite(c),
        Id::ConfigHelp => command::help(c, Id::Config),
        Id::Command => command::command(c),
        Id::CommandCount => command::count(c),
        Id::CommandDocs => command::docs(c),
        Id::CommandInfo => command::info(c),
        Id::CommandList => command::list(c),
        Id::CommandGetKeys => command::getkeys(c, false),
        Id::CommandGetKeysAndFlags => command::getkeys(c, true),
        Id::CommandHelp => command::help(c, Id::Command),
        Id::Info => info::info(c),
        Id::AclCat => acl::cat(c),
        Id::AclDelUser => acl::deluser(c),
        Id::AclDryRun => acl::dryrun(c),
        Id::AclGenPass => acl::genpass(c),
        Id::AclGetUser => acl::getuser(c),
        Id::AclHelp => command::help(c, Id::Acl),
        Id::AclList => acl::list(c),
        Id::AclLoad => acl::load(c),
        Id::AclLog => acl::log(c),
        Id::AclSave => acl::save(c),
        Id::AclSetUser => acl::setuser(c),
        Id::AclUsers => acl::users(c),
        Id::AclWhoAmI => acl::whoami(c),
        Id::ScrubStart => scrub::start(c),
        Id::ScrubStatus => scrub::status(c),
        Id::ScrubStop => scrub::stop(c),
        Id::ScrubHelp => command::help(c, Id::Scrub),
        Id::Time => process::time(c),
        Id::DbSize => process::dbsize(c),
        Id::Shutdown => process::shutdown(c),
        Id::FlushAll | Id::FlushDb => process::flush(c),
        _ => Err(Failure::text(NOT_BUILT_IN)),
    }
}

/// The reply of a command that the table lists and that has no function here. A test sees to it
/// that there is none; CLIENT and CONFIG alone lack an argument, which dispatch refuses first.
pub(crate) const NOT_BUILT_IN: &str = "ERR this command is listed, but not built in";
