//! The library, opened when it is first needed: the program runs without it.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io::{self, ErrorKind};
use std::mem::{MaybeUninit, transmute};
use std::sync::OnceLock;

use super::abi::{FabricAttr, FabricObject, Info};

/// The file of all versions of the interface from 1.0 to today.
const FILE: &CStr = c"libfabric.so.1";

/// Version, node, service, flags, hints, result.
type GetInfo = unsafe extern "C" fn(
    u32,
    *const c_char,
    *const c_char,
    u64,
    *const Info,
    *mut *mut Info,
) -> c_int;
type DupInfo = unsafe extern "C" fn(*const Info) -> *mut Info;
type FreeInfo = unsafe extern "C" fn(*mut Info);
type OpenFabric =
    unsafe extern "C" fn(*mut FabricAttr, *mut *mut FabricObject, *mut c_void) -> c_int;
type StrError = unsafe extern "C" fn(c_int) -> *const c_char;
type GetVersion = unsafe extern "C" fn() -> u32;

/// The functions that are not reached through an object.
#[derive(Debug)]
pub struct Library {
    pub getinfo: GetInfo,
    pub dupinfo: DupInfo,
    pub freeinfo: FreeInfo,
    pub fabric: OpenFabric,
    strerror: StrError,
    version: GetVersion,
}

impl Library {
    /// The library, which stays open until the process ends.
    ///
    /// # Errors
    /// It is not installed.
    pub fn get() -> io::Result<&'static Library> {
        static LIBRARY: OnceLock<Result<Library, String>> = OnceLock::new();
        let library = LIBRARY.get_or_init(Library::open).as_ref();
        library.map_err(|why| io::Error::new(ErrorKind::NotFound, why.clone()))
    }

    fn open() -> Result<Library, String> {
        let missing = |why: String| {
            format!(
                "{why}; install libfabric: apt-get install libfabric1, or dnf install libfabric"
            )
        };
        // SAFETY: a text; what the library runs when it is opened is as trusted as the system's other libraries.
        let handle = unsafe { libc::dlopen(FILE.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() {
            return Err(missing(last_error()));
        }
        let symbol = |name: &CStr| {
            // SAFETY: an open library and a text.
            let found = unsafe { libc::dlsym(handle, name.as_ptr()) };
            if found.is_null() { Err(missing(last_error())) } else { Ok(found) }
        };
        // SAFETY: each symbol is the function of that name, which has had this type since version 1.0 of the interface.
        unsafe {
            Ok(Library {
                getinfo: transmute::<*mut c_void, GetInfo>(symbol(c"fi_getinfo")?),
                dupinfo: transmute::<*mut c_void, DupInfo>(symbol(c"fi_dupinfo")?),
                freeinfo: transmute::<*mut c_void, FreeInfo>(symbol(c"fi_freeinfo")?),
                fabric: transmute::<*mut c_void, OpenFabric>(symbol(c"fi_fabric")?),
                strerror: transmute::<*mut c_void, StrError>(symbol(c"fi_strerror")?),
                version: transmute::<*mut c_void, GetVersion>(symbol(c"fi_version")?),
            })
        }
    }

    /// The version of the library, major and minor.
    pub fn version(&self) -> (u32, u32) {
        // SAFETY: only tells it.
        let version = unsafe { (self.version)() };
        (version >> 16, version & 0xffff)
    }

    /// The error of a number that one of the library's functions returned.
    pub fn error(&self, what: &str, code: isize) -> io::Error {
        let code = code.unsigned_abs() as c_int;
        // SAFETY: takes any number, and returns a text that stays.
        let why = unsafe { (self.strerror)(code) };
        // SAFETY: see above.
        let why = (!why.is_null()).then(|| unsafe { CStr::from_ptr(why) }.to_string_lossy());
        io::Error::other(format!("libfabric: {what}: {}", why.unwrap_or_default()))
    }
}

fn last_error() -> String {
    // SAFETY: returns NULL or a text that stays until this thread's next call.
    let why = unsafe { libc::dlerror() };
    match why.is_null() {
        true => format!("{} cannot be opened", FILE.to_string_lossy()),
        // SAFETY: see above.
        false => unsafe { CStr::from_ptr(why) }.to_string_lossy().into_owned(),
    }
}

/// A text for C, which must have no zero.
pub fn text(text: &str) -> io::Result<CString> {
    CString::new(text).map_err(|_| ErrorKind::InvalidInput.into())
}

/// Puts the process's handlers of signals back on drop: the library, those that it loads and its provider `shm` replace
/// those of signals that end a process, and a process with them may not end.
pub struct Handlers(Vec<(c_int, libc::sigaction)>);

impl Handlers {
    pub fn keep() -> Handlers {
        let all = 1..=libc::SIGSYS;
        Handlers(all.filter_map(|signal| Some((signal, handler(signal)?))).collect())
    }
}

impl Drop for Handlers {
    fn drop(&mut self) {
        for (signal, kept) in &self.0 {
            if handler(*signal).is_some_and(|now| now.sa_sigaction != kept.sa_sigaction) {
                // SAFETY: a handler that was there before.
                unsafe { libc::sigaction(*signal, kept, std::ptr::null_mut()) };
            }
        }
    }
}

fn handler(signal: c_int) -> Option<libc::sigaction> {
    let mut handler = MaybeUninit::uninit();
    // SAFETY: only asks; the result is written if it succeeds.
    let asked = unsafe { libc::sigaction(signal, std::ptr::null(), handler.as_mut_ptr()) };
    // SAFETY: see above.
    (asked == 0).then(|| unsafe { handler.assume_init() })
}
