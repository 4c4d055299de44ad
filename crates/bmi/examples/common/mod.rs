//! What the examples share: a server and a client in one process that have met, over tcp.

#![allow(dead_code, reason = "no example uses all of it")]

use std::time::Duration;

use bmi::tcp::Tcp;
use bmi::{
    Address, Bmi, Buffer, Class, ContextId, Error, Payload, Post, Question, Tag, Unexpected,
};

/// Longer than anything here takes.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// One side of a conversation.
pub(crate) struct End {
    pub(crate) bmi: Bmi,
    pub(crate) context: ContextId,
    pub(crate) peer: Address,
}

/// A server that listens, and its address.
pub(crate) fn server() -> Result<(Bmi, String), Error> {
    let server = Bmi::builder().method(Tcp::new()).listen("tcp://127.0.0.1");
    let server = server.start()?;
    let port = server.get(None, Question::TcpPort)?;
    Ok((server, format!("tcp://127.0.0.1:{port}")))
}

/// A client of an address.
pub(crate) fn client(address: &str) -> Result<End, Error> {
    let bmi = Bmi::builder().method(Tcp::new()).start()?;
    Ok(End {
        context: bmi.open_context()?,
        peer: bmi.lookup(address)?,
        bmi,
    })
}

/// A server and a client; the server has had a greeting and knows the client by it.
pub(crate) fn meet() -> Result<(End, End), Error> {
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

/// The next unexpected message of class 0.
pub(crate) fn next_unexpected(bmi: &Bmi) -> Result<Unexpected, Error> {
    let found = bmi.test_unexpected(Class(0), 1, LIMIT)?.pop();
    found.ok_or(Error::TimedOut)
}

impl End {
    /// Posts a send, of one buffer or of several.
    pub(crate) fn post_send(&self, tag: Tag, payload: impl Into<Payload>) -> Result<Post, Error> {
        Ok(self
            .bmi
            .post_send(self.context, self.peer, payload, tag, 0)?)
    }

    /// Posts a receive into one buffer or several.
    pub(crate) fn post_receive(
        &self,
        tag: Tag,
        payload: impl Into<Payload>,
    ) -> Result<Post, Error> {
        let (context, peer) = (self.context, self.peer);
        Ok(self.bmi.post_receive(context, peer, payload, tag, 0)?)
    }

    /// Waits for a post: how many bytes it has moved, and its memory.
    pub(crate) fn finish(&self, post: Post) -> Result<(usize, Payload), Error> {
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
        self.finish(self.post_send(tag, bytes.to_vec())?)?;
        Ok(())
    }

    /// Receives one message of at most `room` bytes.
    pub(crate) fn receive(&self, tag: Tag, room: usize) -> Result<Vec<u8>, Error> {
        let (len, payload) = self.finish(self.post_receive(tag, Buffer::zeroed(room)?)?)?;
        Ok(payload.into_buffer()[..len].to_vec())
    }

    /// Sends a message that no receive was posted for.
    pub(crate) fn unexpected(&self, tag: Tag, bytes: &[u8]) -> Result<(), Error> {
        let (context, peer) = (self.context, self.peer);
        let post =
            self.bmi
                .post_send_unexpected(context, peer, bytes.to_vec(), tag, Class(0), 0)?;
        self.finish(post)?;
        Ok(())
    }
}
