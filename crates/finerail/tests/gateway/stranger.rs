//! A hostile client by hand: the bytes of LNet on one TCP connection, and as many requests as the connection takes.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use lnet_rpc::proto::{REQUEST_MATCH_BITS, REQUEST_PORTAL, RequestHeader, encode_request};
use lnet_rpc::{BulkKind, ClientId};
use lnet_types::Nid;
use lnet_wire::{
    Body, Connreq, Ctype, Handle, Header, HeaderForm, Hello, HelloVersion, KsockHeader,
    LNET_PORTAL, NiStatus, PingFeatures, PingInfoRepr, PingNi, Put, Reply,
};

/// The opcode of a request for a session.
const CONNECT: u32 = 0xFFFF_FF01;

/// A connection to a gateway under a NID of the stranger's choice.
pub(crate) struct Stranger {
    stream: TcpStream,
    nid: Nid,
    gateway: Nid,
}

impl Stranger {
    pub(crate) fn connect(gateway: &str, port: u16, nid: &str) -> Self {
        let (gateway, nid): (Nid, Nid) = (gateway.parse().unwrap(), nid.parse().unwrap());
        let address: Ipv4Addr = gateway
            .to_string()
            .split('@')
            .next()
            .unwrap()
            .parse()
            .unwrap();
        let mut stream = TcpStream::connect((address, port)).unwrap();
        stream
            .set_read_timeout(Some(crate::common::PATIENCE))
            .unwrap();
        let mut bytes = vec![0; Connreq::MAX_LEN + Hello::MAX_LEN];
        let request = Connreq::to(gateway).encode(&mut bytes).unwrap();
        let hello = Hello::dial(nid, gateway, 77, Ctype::CONTROL);
        let hello = hello.encode(&mut bytes[request..]).unwrap();
        stream.write_all(&bytes[..request + hello]).unwrap();
        let mut answer = [0; Hello::MAX_LEN];
        stream
            .read_exact(&mut answer[..HelloVersion::V3.base_len()])
            .unwrap();
        Self {
            stream,
            nid,
            gateway,
        }
    }

    fn frame(&self, source: Nid, body: Body, payload: &[u8]) -> Vec<u8> {
        let header = Header {
            dest_nid: self.gateway,
            src_nid: source,
            dest_pid: 12345,
            src_pid: 12345,
            payload_length: u32::try_from(payload.len()).unwrap(),
            body,
        };
        let mut bytes = KsockHeader::LNET.to_bytes().to_vec();
        let start = bytes.len();
        bytes.resize(start + HeaderForm::Nid4.len(), 0);
        header
            .encode(HeaderForm::Nid4, &mut bytes[start..])
            .unwrap();
        bytes.extend_from_slice(payload);
        bytes
    }

    /// Returns the frame of a request for a session, for the client with this number.
    pub(crate) fn session(&self, source: Nid, number: u64) -> Vec<u8> {
        self.request(source, number, CONNECT)
    }

    /// Returns the frame of a request that the gateway answers at once: the request names no session.
    pub(crate) fn question(&self) -> Vec<u8> {
        self.request(self.nid, 1, 5)
    }

    fn request(&self, source: Nid, client: u64, opcode: u32) -> Vec<u8> {
        let mut id = [7; 16];
        id[..8].copy_from_slice(&client.to_le_bytes());
        let header = RequestHeader {
            client: ClientId(id),
            xid: 1,
            lowest: 1,
            incarnation: 1,
            session: 0,
            reply_bits: 5,
            bulk_bits: 6,
            bulk_len: 0,
            bulk: BulkKind::None,
            attempt: 1,
            opcode,
            deadline: 0,
        };
        let put = Put {
            ack_wmd: Handle::NONE,
            match_bits: REQUEST_MATCH_BITS,
            hdr_data: 0,
            ptl_index: REQUEST_PORTAL,
            offset: 0,
        };
        self.frame(source, Body::Put(put), &encode_request(&header, &[]))
    }

    pub(crate) fn nid(&self) -> Nid {
        self.nid
    }

    pub(crate) fn send(&mut self, frames: &[u8]) {
        self.stream.write_all(frames).unwrap();
    }

    /// Answers the gateway's discovery, as a node with one interface.
    pub(crate) fn answer_discovery(&mut self) {
        let frame = self.question();
        self.send(&frame);
        loop {
            let mut bytes = [0; KsockHeader::LEN + 72];
            self.stream.read_exact(&mut bytes).unwrap();
            let header = Header::decode(HeaderForm::Nid4, &bytes[KsockHeader::LEN..]).unwrap();
            let mut payload = vec![0; header.payload_length as usize];
            self.stream.read_exact(&mut payload).unwrap();
            let Body::Get(get) = header.body else {
                continue;
            };
            if get.ptl_index != LNET_PORTAL {
                continue;
            }
            let nis = [PingNi {
                nid: self.nid,
                status: NiStatus::UP,
            }];
            let info = PingInfoRepr {
                features: PingFeatures::BASE | PingFeatures::NI_STATUS,
                pid: 12345,
                sequence: 1,
                nis: &nis,
            };
            let mut data = vec![0; info.encoded_len()];
            info.encode(&mut data).unwrap();
            let reply = Body::Reply(Reply {
                dst_wmd: get.return_wmd,
            });
            let frame = self.frame(self.nid, reply, &data);
            return self.send(&frame);
        }
    }

    /// Sends `count` requests, or as many as the connection takes, and reads nothing. Returns the number that the
    /// gateway accepted.
    pub(crate) fn flood(&mut self, count: usize) -> usize {
        const AT_ONCE: usize = 400;
        self.stream
            .set_write_timeout(Some(Duration::from_secs(2)))
            .unwrap();
        let frames = self.question().repeat(AT_ONCE);
        let rounds = count / AT_ONCE;
        let sent = (0..rounds).take_while(|_| self.stream.write_all(&frames).is_ok());
        sent.count() * AT_ONCE
    }
}
