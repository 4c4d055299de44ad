//! Code that the examples share: a connected server and client in one process, over tcp.

#![allow(dead_code, reason = "no example uses all of it")]

use std::time::Duration;

use bmi::tcp::Tcp;
use bmi::{
    Address, Bmi, Buffer, Class, ContextId, Error, Payload, Post, Question, Tag, Unexpected,
};

/// Upper limit of every wait; no example comes near it.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// One end of a conversation.
pub(crate) struct End {
    pub(crate) bmi: Bmi,
    pub(crate) context: ContextId,
    pub(crate) peer: Address,
}

/// Starts a server that listens, and returns its address.
pub(crate) fn server() -> Result<(Bmi, String), Error> {
    let server = Bmi::builder().method(Tcp::new()).listen("tcp://127.0.0.1");
    let server = server.start()?;
    let port = server.get(None, Question::TcpPort)?;
    Ok((server, format!("tcp://127.0.0.1:{port}")))
}

/// Starts a client that knows the server's address.
pub(crate) fn client(address: &str) -> Result<End, Error> {
    let bmi = Bmi::builder().method(Tcp::new()).start()?;
    Ok(End {
        context: bmi.open_context()?,
        peer: bmi.lookup(address)?,
        bmi,
    })
}

/// Starts a server and a client. The client has sent a greeting, from which the server knows the client's
/// address.
pub(crate) fn connected_pair() -> Result<(End, End), Error> {
    let (bmi, address) = server()?;
    let client = client(&address)?;
    client.unexpected(Tag(0), b"hello")?;
    let greeting = next_unexpected(&bmi)?;
    let server = End {
        context: bmi.open_context()?,
        peer: greeting.from,
        bmi,
    };
    Ok((server, client))
}

/// Waits for the next unexpected message of class 0.
pub(crate) fn next_unexpected(bmi: &Bmi) -> Result<Unexpected, Error> {
    let found = bmi.test_unexpected(Class(0), 1, LIMIT)?.pop();
    found.ok_or(Error::TimedOut)
}

impl End {
    /// Posts a send of one buffer or of a list.
    pub(crate) fn post_send(&self, tag: Tag, payload: impl Into<Payload>) -> Result<Post, Error> {
        Ok(self
            .bmi
            .post_send(self.context, self.peer, payload, tag, 0)?)
    }

    /// Posts a receive into one buffer or a list.
    pub(crate) fn post_receive(
        &self,
        tag: Tag,
        payload: impl Into<Payload>,
    ) -> Result<Post, Error> {
        let (context, peer) = (self.context, self.peer);
        Ok(self.bmi.post_receive(context, peer, payload, tag, 0)?)
    }

    /// Waits until the operation completes. Returns the number of bytes moved and the memory.
    pub(crate) fn wait_for(&self, post: Post) -> Result<(usize, Payload), Error> {
        match post {
            Post::Immediate(len, payload) => Ok((len, payload)),
            Post::Pending(op) => {
                let done = self.bmi.test(op, LIMIT)?.ok_or(Error::TimedOut)?;
                Ok((done.result?, done.payload))
            }
        }
    }

    /// Sends one message.
    pub(crate) fn send(&self, tag: Tag, bytes: &[u8]) -> Result<(), Error> {
        self.wait_for(self.post_send(tag, bytes.to_vec())?)?;
        Ok(())
    }

    /// Receives one message of at most `room` bytes.
    pub(crate) fn receive(&self, tag: Tag, room: usize) -> Result<Vec<u8>, Error> {
        let (len, payload) = self.wait_for(self.post_receive(tag, Buffer::zeroed(room)?)?)?;
        Ok(payload.into_buffer()[..len].to_vec())
    }

    /// Sends an unexpected message: the receiver has posted no receive for it.
    pub(crate) fn unexpected(&self, tag: Tag, bytes: &[u8]) -> Result<(), Error> {
        let (context, peer) = (self.context, self.peer);
        let post =
            self.bmi
                .post_send_unexpected(context, peer, bytes.to_vec(), tag, Class(0), 0)?;
        self.wait_for(post)?;
        Ok(())
    }
}
