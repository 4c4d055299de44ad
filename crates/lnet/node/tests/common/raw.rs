//! Peers that a test plays itself: the bytes of their connections with a node.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;

use lnet_types::Nid;
use lnet_wire::{Connreq, Ctype, FrameType, Header, HeaderForm, Hello, KsockHeader};
use socket2::{Domain, Socket, Type};

use super::PATIENCE;

/// The length of a frame header and the LNet header behind it, in bytes.
const FRAME: usize = KsockHeader::LEN + 72;

fn read_hello(stream: &mut TcpStream) -> Hello {
    let mut bytes = Vec::new();
    loop {
        let needed = Hello::needed(&bytes).unwrap();
        if needed == bytes.len() {
            return Hello::decode(&bytes).unwrap().hello;
        }
        let had = bytes.len();
        bytes.resize(needed, 0);
        stream.read_exact(&mut bytes[had..]).unwrap();
    }
}

fn write_hello(stream: &mut TcpStream, hello: &Hello) {
    let mut bytes = [0; Hello::MAX_LEN];
    let length = hello.encode(&mut bytes).unwrap();
    stream.write_all(&bytes[..length]).unwrap();
}

/// Accepts every connection and passes the first message of each to the receiver.
pub(crate) fn serve(listener: TcpListener, own: Nid) -> mpsc::Receiver<(TcpStream, Header)> {
    let (messages, received) = mpsc::channel();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let messages = messages.clone();
            thread::spawn(move || first_message(stream, own, &messages));
        }
    });
    received
}

fn first_message(mut stream: TcpStream, own: Nid, messages: &mpsc::Sender<(TcpStream, Header)>) {
    stream.read_exact(&mut [0; 16]).unwrap();
    let hello = read_hello(&mut stream);
    let ctype = hello.ctype.inverse().unwrap();
    write_hello(&mut stream, &hello.reply(own, 5, ctype));
    let mut frame = [0; FRAME];
    while stream.read_exact(&mut frame[..KsockHeader::LEN]).is_ok() {
        let ksock = KsockHeader::decode(lnet_wire::ByteOrder::Little, &frame).unwrap();
        if ksock.frame_type != FrameType::Lnet {
            continue;
        }
        stream.read_exact(&mut frame[KsockHeader::LEN..]).unwrap();
        let header = Header::decode(HeaderForm::Nid4, &frame[KsockHeader::LEN..]).unwrap();
        // The test may have ended.
        let _over = messages.send((stream, header));
        return;
    }
}

/// Opens a connection from the peer `own` to a node.
pub(crate) fn dial(own: Nid, node: Nid, port: u16) -> TcpStream {
    let address = |nid: Nid| nid.ip().unwrap();
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket
        .bind(&SocketAddr::new(address(own), 0).into())
        .unwrap();
    socket
        .connect(&SocketAddr::new(address(node), port).into())
        .unwrap();
    let mut stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut request = [0; Connreq::MAX_LEN];
    let length = Connreq::to(node).encode(&mut request).unwrap();
    stream.write_all(&request[..length]).unwrap();
    write_hello(&mut stream, &Hello::dial(own, node, 6, Ctype::CONTROL));
    read_hello(&mut stream);
    stream
}

/// Returns the bytes of a message, with `data` as its payload or the beginning of its payload.
pub(crate) fn frame(header: &Header, data: &[u8]) -> Vec<u8> {
    let mut frame = KsockHeader::LNET.to_bytes().to_vec();
    frame.resize(FRAME, 0);
    header
        .encode(HeaderForm::Nid4, &mut frame[KsockHeader::LEN..])
        .unwrap();
    frame.extend_from_slice(data);
    frame
}
