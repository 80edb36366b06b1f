//! What is used of libfabric's binary interface, version 1.17 and later. A structure that the library allocates ends
//! with the last field that is used; `tests/it/fabric_abi.rs` compares each with the installed headers.
//!
//! Most functions of the library's headers are inline: they call what an object's table of operations leads to. So do
//! the callers of these tables.

use std::ffi::{c_char, c_int, c_void};

/// The version of the interface that is asked for.
pub const VERSION: u32 = (1 << 16) | 17;

pub const FI_MSG: u64 = 1 << 1;
pub const FI_RECV: u64 = 1 << 10;
pub const FI_SEND: u64 = 1 << 11;
pub const FI_SOURCE: u64 = 1 << 57;
pub const FI_CONTEXT: u64 = 1 << 59;
pub const FI_CONTEXT2: u64 = 1 << 52;
pub const FI_EP_RDM: c_int = 3;
pub const FI_THREAD_DOMAIN: c_int = 3;
pub const FI_RM_ENABLED: c_int = 2;
pub const FI_AV_TABLE: c_int = 2;
pub const FI_MR_LOCAL: c_int = 1 << 2;
pub const FI_MR_VIRT_ADDR: c_int = 1 << 4;
pub const FI_MR_ALLOCATED: c_int = 1 << 5;
pub const FI_MR_PROV_KEY: c_int = 1 << 6;
pub const FI_CQ_FORMAT_MSG: c_int = 2;
pub const FI_WAIT_NONE: c_int = 0;
pub const FI_WAIT_FD: c_int = 3;
pub const FI_GETWAIT: c_int = 5;
pub const FI_ENABLE: c_int = 6;
pub const FI_ADDR_UNSPEC: u64 = u64::MAX;
pub const FI_EAGAIN: isize = 11;
pub const FI_ENODATA: isize = 61;
pub const FI_EAVAIL: isize = 259;

#[repr(C)]
pub struct Info {
    pub next: *mut Info,
    pub caps: u64,
    pub mode: u64,
    pub addr_format: u32,
    pub src_addrlen: usize,
    pub dest_addrlen: usize,
    pub src_addr: *mut c_void,
    pub dest_addr: *mut c_void,
    pub handle: *mut c_void,
    pub tx_attr: *mut TxAttr,
    pub rx_attr: *mut c_void,
    pub ep_attr: *mut EpAttr,
    pub domain_attr: *mut DomainAttr,
    pub fabric_attr: *mut FabricAttr,
}

#[repr(C)]
pub struct TxAttr {
    pub caps: u64,
    pub mode: u64,
    pub op_flags: u64,
    pub msg_order: u64,
    pub comp_order: u64,
    pub inject_size: usize,
}

#[repr(C)]
pub struct EpAttr {
    pub kind: c_int,
    pub protocol: u32,
    pub protocol_version: u32,
    pub max_msg_size: usize,
}

#[repr(C)]
pub struct DomainAttr {
    pub domain: *mut c_void,
    pub name: *mut c_char,
    pub threading: c_int,
    pub control_progress: c_int,
    pub data_progress: c_int,
    pub resource_mgmt: c_int,
    pub av_type: c_int,
    pub mr_mode: c_int,
}

#[repr(C)]
pub struct FabricAttr {
    pub fabric: *mut c_void,
    pub name: *mut c_char,
    pub prov_name: *mut c_char,
}

/// What each object begins with.
#[repr(C)]
pub struct Fid {
    pub class: usize,
    pub context: *mut c_void,
    pub ops: *mut Ops,
}

#[repr(C)]
pub struct Ops {
    pub size: usize,
    pub close: unsafe extern "C" fn(*mut Fid) -> c_int,
    pub bind: unsafe extern "C" fn(*mut Fid, *mut Fid, u64) -> c_int,
    pub control: unsafe extern "C" fn(*mut Fid, c_int, *mut c_void) -> c_int,
}

#[repr(C)]
pub struct FabricObject {
    pub fid: Fid,
    pub ops: *mut FabricOps,
}

#[repr(C)]
pub struct FabricOps {
    pub size: usize,
    pub domain: unsafe extern "C" fn(
        *mut FabricObject,
        *mut Info,
        *mut *mut DomainObject,
        *mut c_void,
    ) -> c_int,
    pub passive_ep: *mut c_void,
    pub eq_open: *mut c_void,
    pub wait_open: *mut c_void,
    pub trywait: unsafe extern "C" fn(*mut FabricObject, *mut *mut Fid, c_int) -> c_int,
}

#[repr(C)]
pub struct DomainObject {
    pub fid: Fid,
    pub ops: *mut DomainOps,
    pub mr: *mut MrOps,
}

#[repr(C)]
pub struct DomainOps {
    pub size: usize,
    pub av_open: unsafe extern "C" fn(
        *mut DomainObject,
        *mut AvAttr,
        *mut *mut AvObject,
        *mut c_void,
    ) -> c_int,
    pub cq_open: unsafe extern "C" fn(
        *mut DomainObject,
        *mut CqAttr,
        *mut *mut CqObject,
        *mut c_void,
    ) -> c_int,
    pub endpoint: unsafe extern "C" fn(
        *mut DomainObject,
        *mut Info,
        *mut *mut EpObject,
        *mut c_void,
    ) -> c_int,
}

#[repr(C)]
pub struct MrOps {
    pub size: usize,
    /// Object, buffer, length, access, offset, requested key, flags, result, context.
    pub reg: unsafe extern "C" fn(
        *mut Fid,
        *const c_void,
        usize,
        u64,
        u64,
        u64,
        u64,
        *mut *mut MrObject,
        *mut c_void,
    ) -> c_int,
}

#[repr(C)]
pub struct MrObject {
    pub fid: Fid,
    pub mem_desc: *mut c_void,
}

#[repr(C)]
pub struct AvAttr {
    pub kind: c_int,
    pub rx_ctx_bits: c_int,
    pub count: usize,
    pub ep_per_node: usize,
    pub name: *const c_char,
    pub map_addr: *mut c_void,
    pub flags: u64,
}

#[repr(C)]
pub struct AvObject {
    pub fid: Fid,
    pub ops: *mut AvOps,
}

#[repr(C)]
pub struct AvOps {
    pub size: usize,
    pub insert: unsafe extern "C" fn(
        *mut AvObject,
        *const c_void,
        usize,
        *mut u64,
        u64,
        *mut c_void,
    ) -> c_int,
    pub insertsvc: *mut c_void,
    pub insertsym: *mut c_void,
    pub remove: unsafe extern "C" fn(*mut AvObject, *mut u64, usize, u64) -> c_int,
}

#[repr(C)]
pub struct CqAttr {
    pub size: usize,
    pub flags: u64,
    pub format: c_int,
    pub wait_obj: c_int,
    pub signaling_vector: c_int,
    pub wait_cond: c_int,
    pub wait_set: *mut c_void,
}

#[repr(C)]
pub struct CqObject {
    pub fid: Fid,
    pub ops: *mut CqOps,
}

#[repr(C)]
pub struct CqOps {
    pub size: usize,
    pub read: unsafe extern "C" fn(*mut CqObject, *mut c_void, usize) -> isize,
    pub readfrom: *mut c_void,
    pub readerr: unsafe extern "C" fn(*mut CqObject, *mut CqErrEntry, u64) -> isize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct CqMsgEntry {
    pub op_context: *mut c_void,
    pub flags: u64,
    pub len: usize,
}

#[repr(C)]
pub struct CqErrEntry {
    pub op_context: *mut c_void,
    pub flags: u64,
    pub len: usize,
    pub buf: *mut c_void,
    pub data: u64,
    pub tag: u64,
    pub olen: usize,
    pub err: c_int,
    pub prov_errno: c_int,
    pub err_data: *mut c_void,
    pub err_data_size: usize,
    /// Room for what later versions append.
    pub later: [u64; 8],
}

#[repr(C)]
pub struct EpObject {
    pub fid: Fid,
    pub ops: *mut c_void,
    pub cm: *mut CmOps,
    pub msg: *mut MsgOps,
}

#[repr(C)]
pub struct CmOps {
    pub size: usize,
    pub setname: *mut c_void,
    pub getname: unsafe extern "C" fn(*mut Fid, *mut c_void, *mut usize) -> c_int,
}

#[repr(C)]
pub struct MsgOps {
    pub size: usize,
    /// Endpoint, buffer, length, descriptor, source, context.
    pub recv: unsafe extern "C" fn(
        *mut EpObject,
        *mut c_void,
        usize,
        *mut c_void,
        u64,
        *mut c_void,
    ) -> isize,
    pub recvv: *mut c_void,
    pub recvmsg: *mut c_void,
    /// Endpoint, buffer, length, descriptor, destination, context.
    pub send: unsafe extern "C" fn(
        *mut EpObject,
        *const c_void,
        usize,
        *mut c_void,
        u64,
        *mut c_void,
    ) -> isize,
    pub sendv: *mut c_void,
    pub sendmsg: *mut c_void,
    pub inject: unsafe extern "C" fn(*mut EpObject, *const c_void, usize, u64) -> isize,
}

/// The library's own memory for an operation, as long as `fi_context2`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Context(pub [*mut c_void; 8]);
