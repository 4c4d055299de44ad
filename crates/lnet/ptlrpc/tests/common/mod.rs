//! Messages that tests make.

#![allow(dead_code, reason = "each test binary uses a part")]

pub(crate) mod captures;

use lnet_ptlrpc::{BODY_LEN, MAGIC};

/// Makes a message of these buffers.
pub(crate) fn message(flavor: u32, buffers: &[&[u8]]) -> Vec<u8> {
    let mut bytes = vec![0; 32];
    bytes[0..4].copy_from_slice(&(buffers.len() as u32).to_le_bytes());
    bytes[4..8].copy_from_slice(&flavor.to_le_bytes());
    bytes[8..12].copy_from_slice(&MAGIC.to_le_bytes());
    for buffer in buffers {
        bytes.extend((buffer.len() as u32).to_le_bytes());
    }
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    for buffer in buffers {
        bytes.extend(*buffer);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
    }
    bytes
}

/// Makes a body of this type and opcode.
pub(crate) fn body(kind: u32, opc: u32) -> Vec<u8> {
    let mut body = vec![0; BODY_LEN];
    body[8..12].copy_from_slice(&kind.to_le_bytes());
    body[12..16].copy_from_slice(&3u32.to_le_bytes());
    body[16..20].copy_from_slice(&opc.to_le_bytes());
    body[68..72].copy_from_slice(&30u32.to_le_bytes());
    body
}
