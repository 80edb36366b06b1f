//! memcached's commands by name, and which of them have a data block.

use crate::args::ArgsView;

use super::number::parse_i32;

/// The command of a request. Names are lower case and compared byte by byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the command of its name")]
pub enum Command {
    Get,
    Gets,
    Gat,
    Gats,
    Set,
    Add,
    Replace,
    Append,
    Prepend,
    Cas,
    Delete,
    Incr,
    Decr,
    Touch,
    FlushAll,
    Version,
    Stats,
    Verbosity,
    Quit,
    CacheMemlimit,
    Shutdown,
    Watch,
    LruCrawler,
    Lru,
    Slabs,
    MetaGet,
    MetaSet,
    MetaDelete,
    MetaArithmetic,
    MetaDebug,
    MetaNoop,
}

/// The commands' names, in the order of [`Command`].
pub const NAMES: [&str; Command::MetaNoop as usize + 1] = [
    "get",
    "gets",
    "gat",
    "gats",
    "set",
    "add",
    "replace",
    "append",
    "prepend",
    "cas",
    "delete",
    "incr",
    "decr",
    "touch",
    "flush_all",
    "version",
    "stats",
    "verbosity",
    "quit",
    "cache_memlimit",
    "shutdown",
    "watch",
    "lru_crawler",
    "lru",
    "slabs",
    "mg",
    "ms",
    "md",
    "ma",
    "me",
    "mn",
];

impl Command {
    /// The command of this name.
    #[inline]
    pub fn of(name: &[u8]) -> Option<Command> {
        Some(match name {
            b"get" | b"bget" => Self::Get,
            b"gets" => Self::Gets,
            b"mg" => Self::MetaGet,
            b"ms" => Self::MetaSet,
            b"set" => Self::Set,
            _ => return Self::of_rest(name),
        })
    }

    fn of_rest(name: &[u8]) -> Option<Command> {
        Some(match name {
            b"gat" => Self::Gat,
            b"gats" => Self::Gats,
            b"add" => Self::Add,
            b"replace" => Self::Replace,
            b"append" => Self::Append,
            b"prepend" => Self::Prepend,
            b"cas" => Self::Cas,
            b"delete" => Self::Delete,
            b"incr" => Self::Incr,
            b"decr" => Self::Decr,
            b"touch" => Self::Touch,
            b"flush_all" => Self::FlushAll,
            b"version" => Self::Version,
            b"stats" => Self::Stats,
            b"verbosity" => Self::Verbosity,
            b"quit" => Self::Quit,
            b"cache_memlimit" => Self::CacheMemlimit,
            b"shutdown" => Self::Shutdown,
            b"watch" => Self::Watch,
            b"lru_crawler" => Self::LruCrawler,
            b"lru" => Self::Lru,
            b"slabs" => Self::Slabs,
            b"md" => Self::MetaDelete,
            b"ma" => Self::MetaArithmetic,
            b"me" => Self::MetaDebug,
            b"mn" => Self::MetaNoop,
            _ => return None,
        })
    }

    /// Whether it is a meta command with a key and flags.
    pub fn is_meta(self) -> bool {
        matches!(
            self,
            Self::MetaGet
                | Self::MetaSet
                | Self::MetaDelete
                | Self::MetaArithmetic
                | Self::MetaDebug
        )
    }

    /// The words that name keys, in order. The word of a meta command is the key itself, unless a
    /// flag says that it is encoded.
    #[inline]
    pub fn keys(self, args: ArgsView<'_>) -> ArgsView<'_> {
        match self {
            Self::Get | Self::Gets => args.tail(1),
            Self::Gat | Self::Gats => args.tail(2),
            Self::FlushAll
            | Self::Version
            | Self::Stats
            | Self::Verbosity
            | Self::Quit
            | Self::CacheMemlimit
            | Self::Shutdown
            | Self::Watch
            | Self::LruCrawler
            | Self::Lru
            | Self::Slabs
            | Self::MetaNoop => args.tail(args.len()),
            _ => args.slice(1.min(args.len())..2.min(args.len())),
        }
    }

    /// The length of the data block, if the line has one and its length is valid. Otherwise the
    /// next request follows at once.
    pub(super) fn data_len(self, args: ArgsView<'_>) -> Option<usize> {
        let word = match self {
            Self::Set | Self::Add | Self::Replace | Self::Append | Self::Prepend => {
                (args.len() == 5 || args.len() == 6).then_some(4)
            }
            Self::Cas => (args.len() == 6 || args.len() == 7).then_some(4),
            Self::MetaSet => (args.len() >= 3).then_some(2),
            _ => None,
        }?;
        let len = parse_i32(args.get(word)?)?;
        usize::try_from(len).ok().filter(|_| len <= i32::MAX - 2)
    }
}
