//! A simulated peer: it answers pings and acknowledges pushes, like a Multi-Rail node with one NID.

use anyhow::Result;
use lnet_types::{Nid, ProcessId};
use lnet_wire::{Ack, Body, Handle, Header, NiStatus, PingFeatures, PingInfoRepr, PingNi, Reply};

/// Returns the answer of the peer with this NID to a message, with its payload.
pub(super) fn answer(own: Nid, message: &Header) -> Result<Option<(Header, Vec<u8>)>> {
    let (body, payload) = match message.body {
        Body::Get(get) => {
            let mut info = info(own)?;
            info.truncate(get.sink_length as usize);
            let dst_wmd = get.return_wmd;
            (Body::Reply(Reply { dst_wmd }), info)
        }
        Body::Put(put) if put.ack_wmd != Handle::NONE => {
            let ack = Ack {
                dst_wmd: put.ack_wmd,
                match_bits: put.match_bits,
                mlength: message.payload_length,
            };
            (Body::Ack(ack), Vec::new())
        }
        _ => return Ok(None),
    };
    let header = Header {
        dest_nid: message.src_nid,
        src_nid: own,
        dest_pid: message.src_pid,
        src_pid: ProcessId::LUSTRE_PID,
        payload_length: u32::try_from(payload.len())?,
        body,
    };
    Ok(Some((header, payload)))
}

fn info(own: Nid) -> Result<Vec<u8>> {
    let features = PingFeatures::NI_STATUS
        | PingFeatures::RTE_DISABLED
        | PingFeatures::MULTI_RAIL
        | PingFeatures::DISCOVERY;
    let info = PingInfoRepr {
        features,
        pid: ProcessId::LUSTRE_PID,
        sequence: 1,
        nis: &[PingNi {
            nid: own,
            status: NiStatus::UP,
        }],
    };
    let mut bytes = vec![0; info.encoded_len()];
    let length = info.encode(&mut bytes)?;
    bytes.truncate(length);
    Ok(bytes)
}
