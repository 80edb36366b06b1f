//! An endpoint of libfabric with all that it needs: reliable datagrams between any number of peers. One thread uses it
//! at a time.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_int, c_void};
use std::fmt::{self, Debug, Formatter};
use std::io::{self, ErrorKind};
use std::mem::zeroed;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::ptr::{self, NonNull, null, null_mut};
use std::sync::Arc;

use super::abi::*;
use super::guard::{self, Calls, Guard};
use super::library::{Handlers, Library, text};

/// Completions that one look takes at most.
const BATCH: usize = 16;

/// The longest address of all providers.
const NAME_LEN_MAX: usize = 512;

/// Where messages go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address(u64);

/// What became of a message.
pub enum Sent {
    /// It has left its buffer.
    Now,
    /// A completion will tell it.
    Later,
    /// There is no room: look for completions, and try again.
    Again,
    /// It cannot be sent.
    Never,
}

/// The end of an operation.
#[derive(Debug)]
pub struct Done {
    /// The number that the operation was given.
    pub slot: usize,
    /// The length of what was received; none if the operation failed.
    pub len: Option<usize>,
}

/// An object of the library, which begins with a [`Fid`] and is closed on drop.
struct Object<T>(NonNull<T>);

impl<T> Object<T> {
    /// The result of a function that makes an object.
    fn made(
        library: &Library,
        what: &str,
        make: impl FnOnce(*mut *mut T) -> c_int,
    ) -> io::Result<Object<T>> {
        let mut object = null_mut();
        let code = make(&mut object);
        match NonNull::new(object) {
            Some(object) if code == 0 => Ok(Object(object)),
            _ => Err(library.error(what, code as isize)),
        }
    }

    fn get(&self) -> *mut T {
        self.0.as_ptr()
    }

    fn fid(&self) -> *mut Fid {
        self.0.as_ptr().cast()
    }

    fn control(&self, command: c_int, argument: *mut c_void) -> c_int {
        // SAFETY: the object is open, and each has this table.
        unsafe { ((*(*self.fid()).ops).control)(self.fid(), command, argument) }
    }
}

impl<T> Debug for Object<T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T> Drop for Object<T> {
    fn drop(&mut self) {
        // SAFETY: the object is open, and used no more. A failure leaks it.
        unsafe { ((*(*self.fid()).ops).close)(self.fid()) };
    }
}

/// What is known of an endpoint before it is made.
struct Found {
    library: &'static Library,
    info: NonNull<Info>,
}

impl Drop for Found {
    fn drop(&mut self) {
        // SAFETY: the library made it, and nothing refers to it any more.
        unsafe { (self.library.freeinfo)(self.info.as_ptr()) };
    }
}

impl Found {
    /// What the library has of a provider, for an endpoint of the name `node`.
    fn find(library: &'static Library, provider: &str, node: Option<&str>) -> io::Result<Found> {
        let hints = Found::hints(library, provider)?;
        let node = node.map(text).transpose()?;
        let flags = if node.is_some() { FI_SOURCE } else { 0 };
        let node = node.as_ref().map_or(null(), |node| node.as_ptr());
        let mut info = null_mut();
        // SAFETY: texts and hints that stay until it returns.
        let code = unsafe {
            (library.getinfo)(VERSION, node, null(), flags, hints.info.as_ptr(), &mut info)
        };
        match NonNull::new(info) {
            Some(info) if code == 0 => Ok(Found { library, info }),
            _ if -code as isize == FI_ENODATA => {
                let why = format!(
                    "this machine has nothing that libfabric's provider {provider} could use: see fi_info of the \
                     package libfabric-bin"
                );
                Err(io::Error::new(ErrorKind::NotFound, why))
            }
            _ => Err(library.error(provider, code as isize)),
        }
    }

    fn hints(library: &'static Library, provider: &str) -> io::Result<Found> {
        let provider = text(provider)?;
        // SAFETY: without something to copy it makes an empty one with all its parts.
        let info = NonNull::new(unsafe { (library.dupinfo)(null()) });
        let hints = Found { library, info: info.ok_or(ErrorKind::OutOfMemory)? };
        // SAFETY: the parts are there, and only this function has them. The text is freed with them.
        unsafe {
            let info = hints.info.as_ptr();
            (*info).caps = FI_MSG;
            (*info).mode = FI_CONTEXT | FI_CONTEXT2;
            (*(*info).ep_attr).kind = FI_EP_RDM;
            let domain = (*info).domain_attr;
            (*domain).threading = FI_THREAD_DOMAIN;
            (*domain).resource_mgmt = FI_RM_ENABLED;
            (*domain).mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
            (*(*info).fabric_attr).prov_name = libc::strdup(provider.as_ptr());
        }
        Ok(hints)
    }

    fn limits(&self) -> (usize, usize) {
        let info = self.info.as_ptr();
        // SAFETY: the library fills all parts.
        unsafe { ((*(*info).tx_attr).inject_size, (*(*info).ep_attr).max_msg_size) }
    }
}

/// The endpoint. Its fields are closed in their order: each is used by those before it.
#[derive(Debug)]
pub struct Device {
    endpoint: Object<EpObject>,
    memory: Object<MrObject>,
    queue: Object<CqObject>,
    addresses: Object<AvObject>,
    _domain: Object<DomainObject>,
    fabric: Object<FabricObject>,
    /// What becomes readable with a completion, if the provider has it.
    file: Option<OwnedFd>,
    /// The addresses that are known, and how often each was inserted: the library knows each once.
    known: BTreeMap<Vec<u8>, (Address, usize)>,
    /// The library's own memory for the operation of each slot.
    contexts: Box<[Context]>,
    inject_len: usize,
    calls: Arc<Calls>,
    guard: Option<Guard>,
    /// The longest message.
    pub message_len_max: usize,
}

// SAFETY: the objects belong to no thread, and are used by one at a time as each use takes the device mutably.
unsafe impl Send for Device {}

impl Device {
    /// Opens an endpoint of the name `node` with `slots` operations at a time, and registers the memory of messages.
    ///
    /// # Safety
    /// The memory must stay where it is until the device is dropped.
    pub unsafe fn open(
        provider: &str,
        node: Option<&str>,
        slots: usize,
        peers: usize,
        memory: *mut [u8],
    ) -> io::Result<Device> {
        let _handlers = Handlers::keep();
        let library = Library::get()?;
        let found = Found::find(library, provider, node)?;
        let info = found.info.as_ptr();
        // SAFETY: here and below tables of open objects are called with what they take, which stays until they return.
        let fabric = Object::made(library, "fabric", |made| unsafe {
            (library.fabric)((*info).fabric_attr, made, null_mut())
        })?;
        // SAFETY: see above.
        let domain = Object::<DomainObject>::made(library, "domain", |made| unsafe {
            ((*(*fabric.get()).ops).domain)(fabric.get(), info, made, null_mut())
        })?;
        let addresses = open_addresses(library, &domain, peers)?;
        // Each slot has one operation at a time.
        let (queue, file) = open_queue(library, &domain, slots)?;
        // SAFETY: see above; the caller's promise for the memory.
        let memory = Object::<MrObject>::made(library, "memory", |made| unsafe {
            let register = (*(*domain.get()).mr).reg;
            let (access, own) = (FI_SEND | FI_RECV, null_mut());
            let (start, len) = (memory.cast::<c_void>(), memory.len());
            register(domain.fid(), start, len, access, 0, 0, 0, made, own)
        })?;
        // SAFETY: see above.
        let endpoint = Object::<EpObject>::made(library, "endpoint", |made| unsafe {
            ((*(*domain.get()).ops).endpoint)(domain.get(), info, made, null_mut())
        })?;
        for (other, flags) in [(addresses.fid(), 0), (queue.fid(), FI_SEND | FI_RECV)] {
            // SAFETY: see above.
            let code = unsafe { ((*(*endpoint.fid()).ops).bind)(endpoint.fid(), other, flags) };
            if code != 0 {
                return Err(library.error("bind", code as isize));
            }
        }
        match endpoint.control(FI_ENABLE, null_mut()) {
            0 => {}
            code => return Err(library.error("enable", code as isize)),
        }
        let (inject_len, message_len_max) = found.limits();
        let contexts = vec![Context([null_mut(); 8]); slots].into();
        let _domain = domain;
        let calls = Arc::default();
        let is_known = provider == "shm" && library.version() == guard::LIBRARY;
        let guard = is_known.then(|| Guard::new(&calls)).transpose()?;
        let mut device = Device {
            endpoint,
            memory,
            queue,
            addresses,
            _domain,
            fabric,
            file,
            known: BTreeMap::new(),
            contexts,
            inject_len,
            calls,
            guard,
            message_len_max,
        };
        let name = device.name()?;
        device.guard_memory(&name);
        Ok(device)
    }

    /// Has the guard know the memory of an address.
    fn guard_memory(&self, name: &[u8]) {
        if let (Some(_), Some(name)) = (&self.guard, memory_name(name)) {
            self.calls.add(name);
        }
    }

    /// The endpoint's address, for its peers.
    pub fn name(&mut self) -> io::Result<Vec<u8>> {
        let (mut name, mut len) = (vec![0; NAME_LEN_MAX], NAME_LEN_MAX);
        // SAFETY: the table of an open object; it writes at most `len` bytes.
        let code = unsafe {
            let getname = (*(*self.endpoint.get()).cm).getname;
            getname(self.endpoint.fid(), name.as_mut_ptr().cast(), &mut len)
        };
        if code != 0 {
            return Err(Library::get()?.error("name", code as isize));
        }
        name.truncate(len);
        Ok(name)
    }

    /// Makes a peer's address known. None if it is no address, or there is no room.
    pub fn insert(&mut self, name: &[u8]) -> Option<Address> {
        if let Some((address, count)) = self.known.get_mut(name) {
            *count += 1;
            return Some(*address);
        }
        // The provider reads as much as its addresses have, or a text to its end.
        let mut padded = vec![0; NAME_LEN_MAX];
        padded.get_mut(..name.len().min(NAME_LEN_MAX - 1))?.copy_from_slice(name);
        self.guard_memory(&padded);
        let mut address = FI_ADDR_UNSPEC;
        // SAFETY: the table of an open object; one name, and room for one result.
        let inserted = self.calls.run(|| unsafe {
            let insert = (*(*self.addresses.get()).ops).insert;
            let (name, own) = (padded.as_ptr().cast(), null_mut());
            insert(self.addresses.get(), name, 1, &mut address, 0, own)
        });
        let address = (inserted == 1).then_some(Address(address))?;
        self.known.insert(name.to_vec(), (address, 1));
        Some(address)
    }

    /// Forgets an address, once for each time that it was inserted. Nothing may be under way to it then.
    pub fn remove(&mut self, address: Address) {
        let Some((_, count)) = self.known.values_mut().find(|(known, _)| *known == address) else {
            return;
        };
        *count -= 1;
        if *count > 0 {
            return;
        }
        let mut gone = self.known.extract_if(.., |_, (known, _)| *known == address);
        let name = gone.next().map(|(name, _)| name);
        drop(gone);
        let Address(mut address) = address;
        // SAFETY: the table of an open object, and an address that was inserted. A failure leaves it known.
        self.calls.run(|| unsafe {
            ((*(*self.addresses.get()).ops).remove)(self.addresses.get(), &mut address, 1, 0)
        });
        if let Some(name) = name.as_deref().and_then(memory_name) {
            self.calls.remove(name);
        }
    }

    fn context(&mut self, slot: usize) -> *mut c_void {
        (&raw mut self.contexts[slot]).cast()
    }

    /// The descriptor of the registered memory.
    fn descriptor(&self) -> *mut c_void {
        // SAFETY: an open object.
        unsafe { (*self.memory.get()).mem_desc }
    }

    /// Posts a RECV. False if there is no room.
    ///
    /// # Safety
    /// The buffer is a slot's part of the registered memory, and the caller touches it only after the slot's operation.
    pub unsafe fn receive(&mut self, slot: usize, buffer: *mut [u8]) -> bool {
        let (context, descriptor) = (self.context(slot), self.descriptor());
        // SAFETY: the table of an open object; the caller's promise.
        let code = self.calls.run(|| unsafe {
            let receive = (*(*self.endpoint.get()).msg).recv;
            let (start, len) = (buffer.cast::<c_void>(), buffer.len());
            receive(self.endpoint.get(), start, len, descriptor, FI_ADDR_UNSPEC, context)
        });
        code == 0
    }

    /// Sends a message.
    ///
    /// # Safety
    /// As for [`receive`](Self::receive), if the message is sent later.
    pub unsafe fn send(&mut self, to: Address, slot: usize, bytes: *const [u8]) -> Sent {
        let (context, descriptor) = (self.context(slot), self.descriptor());
        let endpoint = self.endpoint.get();
        let (start, len) = (bytes.cast::<c_void>(), bytes.len());
        let is_injected = len <= self.inject_len;
        // SAFETY: the table of an open object; the caller's promise.
        let code = self.calls.run(|| unsafe {
            let table = (*endpoint).msg;
            match is_injected {
                true => ((*table).inject)(endpoint, start, len, to.0),
                false => ((*table).send)(endpoint, start, len, descriptor, to.0, context),
            }
        });
        match -code {
            0 if is_injected => Sent::Now,
            0 => Sent::Later,
            FI_EAGAIN => Sent::Again,
            _ => Sent::Never,
        }
    }

    /// Makes progress, and appends what is done.
    pub fn poll(&mut self, out: &mut Vec<Done>) {
        let empty = CqMsgEntry { op_context: null_mut(), flags: 0, len: 0 };
        let mut entries = [empty; BATCH];
        loop {
            // SAFETY: the table of an open object, and room for `BATCH` entries of the queue's format.
            let count = self.calls.run(|| unsafe {
                let read = (*(*self.queue.get()).ops).read;
                read(self.queue.get(), entries.as_mut_ptr().cast(), BATCH)
            });
            match usize::try_from(count) {
                Ok(count) => {
                    let done = entries[..count].iter();
                    let done = done.map(|one| (one.op_context, Some(one.len)));
                    out.extend(done.filter_map(|(context, len)| self.done(context, len)));
                    if count < BATCH {
                        return;
                    }
                }
                Err(_) if -count == FI_EAVAIL => match self.failed() {
                    Some(context) => out.extend(self.done(context, None)),
                    None => return,
                },
                Err(_) => return,
            }
        }
    }

    /// The operation that has failed.
    fn failed(&mut self) -> Option<*mut c_void> {
        // SAFETY: numbers and pointers, for which zero is a value.
        let mut entry: CqErrEntry = unsafe { zeroed() };
        // SAFETY: the table of an open object.
        let count =
            unsafe { ((*(*self.queue.get()).ops).readerr)(self.queue.get(), &mut entry, 0) };
        (count == 1).then_some(entry.op_context)
    }

    fn done(&self, context: *mut c_void, len: Option<usize>) -> Option<Done> {
        let offset = context.addr().checked_sub(self.contexts.as_ptr().addr())?;
        let slot = offset / size_of::<Context>();
        (slot < self.contexts.len()).then_some(Done { slot, len })
    }

    /// What becomes readable once there is something to do, if the provider has it and nothing is there now.
    pub fn file(&mut self) -> Option<BorrowedFd<'_>> {
        use std::os::fd::AsFd;
        let file = self.file.as_ref()?;
        let mut queue = self.queue.fid();
        // SAFETY: the table of an open object, and one object.
        let code =
            unsafe { ((*(*self.fabric.get()).ops).trywait)(self.fabric.get(), &mut queue, 1) };
        (code == 0).then_some(file.as_fd())
    }

    /// Whether waits need no naps.
    pub fn has_file(&self) -> bool {
        self.file.is_some()
    }
}

fn open_addresses(
    library: &Library,
    domain: &Object<DomainObject>,
    peers: usize,
) -> io::Result<Object<AvObject>> {
    let mut attributes = AvAttr {
        kind: FI_AV_TABLE,
        rx_ctx_bits: 0,
        count: peers,
        ep_per_node: 0,
        name: null(),
        map_addr: null_mut(),
        flags: 0,
    };
    // SAFETY: the table of an open object.
    Object::made(library, "addresses", |made| unsafe {
        let open = (*(*domain.get()).ops).av_open;
        open(domain.get(), &mut attributes, made, null_mut())
    })
}

/// A completion queue, with a file if the provider has one for it.
fn open_queue(
    library: &Library,
    domain: &Object<DomainObject>,
    slots: usize,
) -> io::Result<(Object<CqObject>, Option<OwnedFd>)> {
    let open = |wait_obj| {
        let mut attributes = CqAttr {
            size: slots,
            flags: 0,
            format: FI_CQ_FORMAT_MSG,
            wait_obj,
            signaling_vector: 0,
            wait_cond: 0,
            wait_set: null_mut(),
        };
        // SAFETY: the table of an open object.
        Object::<CqObject>::made(library, "completion queue", |made| unsafe {
            let open = (*(*domain.get()).ops).cq_open;
            open(domain.get(), &mut attributes, made, null_mut())
        })
    };
    if let Ok(queue) = open(FI_WAIT_FD) {
        let mut file: c_int = -1;
        if queue.control(FI_GETWAIT, ptr::from_mut(&mut file).cast()) == 0 && file >= 0 {
            // SAFETY: the queue's own file, which is open. The copy is ours.
            let file = unsafe { BorrowedFd::borrow_raw(file) }.try_clone_to_owned()?;
            return Ok((queue, Some(file)));
        }
    }
    Ok((open(FI_WAIT_NONE)?, None))
}

/// The name of shared memory in an address, which begins with what it is of.
pub fn memory_name(name: &[u8]) -> Option<&str> {
    let name = CStr::from_bytes_until_nul(name).ok()?.to_str().ok()?;
    let (_, name) = name.split_once("://")?;
    // Never another folder's.
    (!name.contains('/')).then_some(name)
}
