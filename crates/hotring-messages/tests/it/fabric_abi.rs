//! The layout of what is used of libfabric: against numbers, and those against the headers where they are installed.

use std::io::Write;
use std::mem::offset_of;
use std::process::{Command, Stdio};

use crate::fabric::abi::*;

/// An expression of C, what it is here, and what it must be.
type Row = (String, u64, u64);

macro_rules! fields {
    ($rows:ident, $rust:ident, $c:literal, $($field:ident $in_c:literal = $offset:literal),+) => {
        $($rows.push((
            format!("offsetof({}, {})", $c, $in_c),
            offset_of!($rust, $field) as u64,
            $offset,
        ));)+
    };
}

macro_rules! sizes {
    ($rows:ident, $($rust:ty, $c:literal = $size:literal);+) => {
        $($rows.push((format!("sizeof({})", $c), size_of::<$rust>() as u64, $size));)+
    };
}

macro_rules! constants {
    ($rows:ident, $($name:ident = $value:literal),+) => {
        $($rows.push((stringify!($name).to_string(), $name as u64, $value));)+
    };
}

fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    fields!(rows, Info, "struct fi_info", next "next" = 0, caps "caps" = 8, mode "mode" = 16,
        addr_format "addr_format" = 24, src_addrlen "src_addrlen" = 32, src_addr "src_addr" = 48,
        handle "handle" = 64, tx_attr "tx_attr" = 72, rx_attr "rx_attr" = 80, ep_attr "ep_attr" = 88,
        domain_attr "domain_attr" = 96, fabric_attr "fabric_attr" = 104);
    fields!(rows, TxAttr, "struct fi_tx_attr", inject_size "inject_size" = 40);
    fields!(rows, EpAttr, "struct fi_ep_attr", kind "type" = 0, max_msg_size "max_msg_size" = 16);
    fields!(rows, DomainAttr, "struct fi_domain_attr", threading "threading" = 16,
        resource_mgmt "resource_mgmt" = 28, mr_mode "mr_mode" = 36);
    fields!(rows, FabricAttr, "struct fi_fabric_attr", prov_name "prov_name" = 16);
    fields!(rows, Fid, "struct fid", ops "ops" = 16);
    fields!(rows, Ops, "struct fi_ops", close "close" = 8, bind "bind" = 16, control "control" = 24);
    fields!(rows, FabricObject, "struct fid_fabric", ops "ops" = 24);
    fields!(rows, FabricOps, "struct fi_ops_fabric", domain "domain" = 8, trywait "trywait" = 40);
    fields!(rows, DomainObject, "struct fid_domain", ops "ops" = 24, mr "mr" = 32);
    fields!(rows, DomainOps, "struct fi_ops_domain", av_open "av_open" = 8, cq_open "cq_open" = 16,
        endpoint "endpoint" = 24);
    fields!(rows, MrOps, "struct fi_ops_mr", reg "reg" = 8);
    fields!(rows, MrObject, "struct fid_mr", mem_desc "mem_desc" = 24);
    fields!(rows, AvObject, "struct fid_av", ops "ops" = 24);
    fields!(rows, AvOps, "struct fi_ops_av", insert "insert" = 8, remove "remove" = 32);
    fields!(rows, CqObject, "struct fid_cq", ops "ops" = 24);
    fields!(rows, CqOps, "struct fi_ops_cq", read "read" = 8, readerr "readerr" = 24);
    fields!(rows, EpObject, "struct fid_ep", cm "cm" = 32, msg "msg" = 40);
    fields!(rows, CmOps, "struct fi_ops_cm", getname "getname" = 16);
    fields!(rows, MsgOps, "struct fi_ops_msg", recv "recv" = 8, send "send" = 32, inject "inject" = 56);
    fields!(rows, AvAttr, "struct fi_av_attr", count "count" = 8, flags "flags" = 40);
    fields!(rows, CqAttr, "struct fi_cq_attr", format "format" = 16, wait_obj "wait_obj" = 20,
        wait_set "wait_set" = 32);
    fields!(rows, CqErrEntry, "struct fi_cq_err_entry", err "err" = 56, err_data_size "err_data_size" = 72);
    sizes!(rows, AvAttr, "struct fi_av_attr" = 48; CqAttr, "struct fi_cq_attr" = 40;
        CqMsgEntry, "struct fi_cq_msg_entry" = 24; Context, "struct fi_context2" = 64);
    constants!(
        rows,
        FI_MSG = 0x2,
        FI_RECV = 0x400,
        FI_SEND = 0x800,
        FI_SOURCE = 0x0200_0000_0000_0000,
        FI_CONTEXT = 0x0800_0000_0000_0000,
        FI_CONTEXT2 = 0x0010_0000_0000_0000,
        FI_EP_RDM = 3,
        FI_THREAD_DOMAIN = 3,
        FI_RM_ENABLED = 2,
        FI_AV_TABLE = 2,
        FI_MR_LOCAL = 4,
        FI_MR_VIRT_ADDR = 16,
        FI_MR_ALLOCATED = 32,
        FI_MR_PROV_KEY = 64,
        FI_CQ_FORMAT_MSG = 2,
        FI_WAIT_NONE = 0,
        FI_WAIT_FD = 3,
        FI_GETWAIT = 5,
        FI_ENABLE = 6,
        FI_ADDR_UNSPEC = 0xffff_ffff_ffff_ffff,
        FI_EAGAIN = 11,
        FI_ENODATA = 61,
        FI_EAVAIL = 259
    );
    rows
}

#[test]
fn the_library_s_structures_are_laid_out_as_its_binary_interface_says() {
    for (what, here, expected) in rows() {
        assert_eq!(here, expected, "{what}");
    }
}

#[test]
fn the_binary_interface_is_that_of_the_installed_headers() {
    let rows = rows();
    let mut source = String::from(
        "#include <stddef.h>\n#include <rdma/fabric.h>\n#include <rdma/fi_domain.h>\n\
         #include <rdma/fi_endpoint.h>\n#include <rdma/fi_eq.h>\n#include <rdma/fi_cm.h>\n\
         #include <rdma/fi_errno.h>\n",
    );
    for (what, _, expected) in &rows {
        source += &format!(
            "_Static_assert((unsigned long long)({what}) == {expected}ull, \"{what}\");\n"
        );
    }
    let compile = |source: &str| {
        let mut compiler = Command::new("cc");
        compiler
            .args(["-fsyntax-only", "-x", "c", "-"])
            .stdin(Stdio::piped())
            .stderr(Stdio::piped());
        let mut compiler = compiler.spawn().ok()?;
        compiler.stdin.take()?.write_all(source.as_bytes()).ok()?;
        compiler.wait_with_output().ok()
    };
    let has_headers = compile("#include <rdma/fabric.h>\n").is_some_and(|out| out.status.success());
    if !has_headers {
        return eprintln!("skipped: no compiler, or no headers of the package libfabric-dev");
    }
    let out = compile(&source).expect("it has just run");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
}
