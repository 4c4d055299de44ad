//! Nodes, with Put and Get.

#![expect(
    unsafe_code,
    reason = "memory of Python objects, which their exports keep in place"
)]

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use lnet_node::{Address, EventQueue, Foreign, Globals, Initiator, NodeOptions, WaitError};
use lnet_types::Nid;
use lnet_wire::NiStatus;
use pyo3::Borrowed;
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde_json::json;
use sys::span::Span;

use crate::failure::{failed, invalid, of_node, of_operation, of_ping, of_wait};
use crate::wait::{interruptible, limit, object, time};

/// How long a wait for messages goes on between two looks for signals.
const LOOK: Duration = Duration::from_millis(50);

/// An LNet node in this process.
///
/// `config` is a YAML document as `lnetctl export` prints it, or a list of NIDs. All nodes of a network use the same
/// port; 988 is LNet's, and needs root.
#[pyclass(frozen, module = "finerail")]
pub(crate) struct Node {
    node: Mutex<Option<lnet_node::Node>>,
}

/// A buffer of bytes: `bytes`, `bytearray`, a memory view, a NumPy array of bytes.
struct ByteBuffer(PyBuffer<u8>);

impl<'a, 'py> FromPyObject<'a, 'py> for ByteBuffer {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let buffer = PyBuffer::get(&object);
        buffer.map(Self).map_err(|error| {
            if error.is_instance_of::<PyBufferError>(object.py()) {
                invalid("the buffer has no bytes but other items: pass a view, as array.view(numpy.uint8)")
            } else {
                error
            }
        })
    }
}

#[derive(FromPyObject)]
enum Configured {
    Document(String),
    Nids(Vec<String>),
}

fn nid(text: &str) -> PyResult<Nid> {
    text.parse()
        .map_err(|error| invalid(format_args!("{text:?}: {error}")))
}

fn start(config: Configured, options: NodeOptions) -> Result<lnet_node::Node, String> {
    match config {
        Configured::Document(nid) if nid.parse::<Nid>().is_ok() => Err(format!(
            "{nid} is no YAML document: pass NIDs in a list, [{nid:?}]"
        )),
        Configured::Document(yaml) => {
            let config = lnet_config::parse(&yaml);
            let config = config.map_err(|error| error.render("config"))?;
            let node = lnet_noded::start(&config, options).map_err(|error| error.to_string())?;
            Ok(node.into_node())
        }
        Configured::Nids(nids) => {
            let nids = nids
                .iter()
                .map(|text| text.parse().map_err(|_| text.clone()));
            let nids: Vec<Nid> = nids
                .collect::<Result<_, _>>()
                .map_err(|text| format!("{text:?} is no NID"))?;
            lnet_node::Node::start_on(options, &nids).map_err(|error| error.to_string())
        }
    }
}

#[pymethods]
impl Node {
    #[new]
    #[pyo3(signature = (config, *, port=988, io_threads=1))]
    fn new(py: Python<'_>, config: Configured, port: u16, io_threads: u16) -> PyResult<Self> {
        let globals = Globals {
            discovery: true,
            ..Globals::default()
        };
        let options = NodeOptions {
            globals,
            port,
            io_threads: io_threads.clamp(1, 64),
            ..NodeOptions::default()
        };
        let node = interruptible(py, move || start(config, options))?;
        Ok(Self {
            node: Mutex::new(Some(node.map_err(failed)?)),
        })
    }

    fn __enter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    #[pyo3(signature = (*_why))]
    fn __exit__(&self, py: Python<'_>, _why: &Bound<'_, pyo3::types::PyTuple>) -> PyResult<()> {
        self.close(py, 1.0)
    }

    /// Stops the node: waits at most `grace` seconds until nothing is under way. A second call does nothing.
    #[pyo3(signature = (grace=1.0))]
    fn close(&self, py: Python<'_>, grace: f64) -> PyResult<()> {
        let grace = limit(Some(grace))?;
        match self.kept().take() {
            Some(node) => interruptible(py, move || {
                node.shutdown(grace);
            }),
            None => Ok(()),
        }
    }

    /// The NIDs of the node, its primary NID first.
    #[getter]
    fn nids(&self) -> PyResult<Vec<String>> {
        let nids = self.running()?.nids();
        Ok(nids.iter().map(Nid::to_string).collect())
    }

    /// Asks a node for its interfaces: a dictionary with `primary_nid`, `nis` (each with `nid` and `up`), and
    /// `round_trip` in seconds.
    #[pyo3(signature = (target, *, source=None, timeout=5.0))]
    fn ping<'py>(
        &self,
        py: Python<'py>,
        target: &str,
        source: Option<&str>,
        timeout: f64,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (node, target, timeout) = (self.running()?, nid(target)?, limit(Some(timeout))?);
        let source = source.map(nid).transpose()?;
        let reply = interruptible(py, move || node.ping(target, source, timeout))?;
        let reply = reply.map_err(of_ping)?;
        let nis: Vec<_> = reply
            .nis
            .iter()
            .map(|ni| json!({"nid": ni.nid.to_string(), "up": ni.status != NiStatus::DOWN}))
            .collect();
        let value = json!({
            "primary_nid": reply.primary_nid.to_string(),
            "nis": nis,
            "round_trip": reply.round_trip.as_secs_f64(),
        });
        object(py, &value)
    }

    /// Discovers a node, and returns its NIDs, the primary one first.
    #[pyo3(signature = (target, *, timeout=5.0))]
    fn discover(&self, py: Python<'_>, target: &str, timeout: f64) -> PyResult<Vec<String>> {
        let (node, target, timeout) = (self.running()?, nid(target)?, limit(Some(timeout))?);
        let peer = interruptible(py, move || node.discover(target, timeout))?;
        let peer = peer.map_err(of_ping)?;
        let others = peer.nis.iter().map(|ni| ni.nid);
        let others = others.filter(|nid| *nid != peer.primary);
        let nids = std::iter::once(peer.primary).chain(others);
        Ok(nids.map(|nid| nid.to_string()).collect())
    }

    /// Sends one message of at most 1 MiB to an inbox, and waits until it is there. `hdr_data` is a number that travels
    /// with the message. Raises `NoAnswer` once nothing has happened for `timeout` seconds (`None`: no limit), and
    /// `Error` if the inbox is for shorter messages: what it is for has arrived.
    #[pyo3(signature = (target, portal, data, *, match_bits=0, hdr_data=0, timeout=30.0))]
    #[expect(
        clippy::too_many_arguments,
        reason = "named ones of a function of Python"
    )]
    fn put(
        &self,
        py: Python<'_>,
        target: &str,
        portal: u32,
        data: ByteBuffer,
        match_bits: u64,
        hdr_data: u64,
        timeout: f64,
    ) -> PyResult<()> {
        let to = Address::new(nid(target)?, portal, match_bits);
        let data = data.0.to_vec(py)?;
        self.operate(py, timeout, move |initiator| {
            initiator.put_with(to, data, hdr_data)
        })
    }

    /// Writes any number of bytes into memory that the target offers.
    #[pyo3(signature = (target, portal, data, *, match_bits=0, offset=0, timeout=30.0))]
    #[expect(
        clippy::too_many_arguments,
        reason = "named ones of a function of Python"
    )]
    fn write(
        &self,
        py: Python<'_>,
        target: &str,
        portal: u32,
        data: ByteBuffer,
        match_bits: u64,
        offset: u32,
        timeout: f64,
    ) -> PyResult<()> {
        let to = Address::new(nid(target)?, portal, match_bits);
        let data = data.0.to_vec(py)?;
        self.operate(py, timeout, move |initiator| {
            initiator.write(to, offset, data)
        })
    }

    /// Reads this many bytes of memory that the target offers.
    #[pyo3(signature = (target, portal, length, *, match_bits=0, offset=0, timeout=30.0))]
    #[expect(
        clippy::too_many_arguments,
        reason = "named ones of a function of Python"
    )]
    fn read<'py>(
        &self,
        py: Python<'py>,
        target: &str,
        portal: u32,
        length: usize,
        match_bits: u64,
        offset: u32,
        timeout: f64,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let from = Address::new(nid(target)?, portal, match_bits);
        let bytes = self.operate(py, timeout, move |initiator| {
            initiator.read(from, offset, length)
        })?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Reads memory that the target offers into a writable buffer, such as a NumPy array of bytes, without a copy.
    ///
    /// After Ctrl-C the buffer is in use until the read has ended, at the latest when the node is closed.
    #[pyo3(signature = (target, portal, buffer, *, match_bits=0, offset=0, timeout=30.0))]
    #[expect(
        clippy::too_many_arguments,
        reason = "named ones of a function of Python"
    )]
    fn read_into(
        &self,
        py: Python<'_>,
        target: &str,
        portal: u32,
        buffer: ByteBuffer,
        match_bits: u64,
        offset: u32,
        timeout: f64,
    ) -> PyResult<()> {
        let from = Address::new(nid(target)?, portal, match_bits);
        let (memory, export) = lent(buffer.0, true, PIECE)?;
        self.operate(py, timeout, move |initiator| {
            let read = initiator.read_into(from, offset, memory);
            // No thread moves its bytes any more.
            drop(export);
            read
        })
    }

    /// Opens an inbox: an iterator of the messages of a portal, with any match bits, of at most `size` bytes each. Of two
    /// inboxes of a portal, the first one takes the messages.
    #[pyo3(signature = (portal, *, size=1_048_576))]
    fn inbox(&self, portal: u32, size: usize) -> PyResult<Inbox> {
        let inbox = lnet_node::Inbox::new(&self.running()?, portal, size).map_err(of_node)?;
        Ok(Inbox {
            events: inbox.events().clone(),
            inbox: Mutex::new(Some(inbox)),
        })
    }

    /// Lets others read a buffer, and write to it if `writable`, without a copy, until the window is closed.
    #[pyo3(signature = (portal, buffer, *, match_bits=0, writable=false))]
    fn window(
        &self,
        portal: u32,
        buffer: ByteBuffer,
        match_bits: u64,
        writable: bool,
    ) -> PyResult<Window> {
        let (mut memory, export) = lent(buffer.0, writable, usize::MAX)?;
        let memory = memory.pop().ok_or_else(|| invalid("the buffer is empty"))?;
        let node = self.running()?;
        let window = lnet_node::Window::foreign(&node, portal, match_bits, memory, writable);
        Ok(Window {
            open: Mutex::new(Some((window.map_err(of_node)?, export))),
        })
    }

    /// The counters of the node.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        object(py, &self.running()?.stats())
    }
}

impl Node {
    fn kept(&self) -> MutexGuard<'_, Option<lnet_node::Node>> {
        self.node.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn running(&self) -> PyResult<lnet_node::Node> {
        let node = self.kept().clone();
        node.ok_or_else(|| failed("the node was closed"))
    }

    fn operate<R: Send + 'static>(
        &self,
        py: Python<'_>,
        timeout: f64,
        operation: impl FnOnce(&mut Initiator) -> Result<R, lnet_node::OperationError> + Send + 'static,
    ) -> PyResult<R> {
        let (node, timeout) = (self.running()?, limit(Some(timeout))?);
        let result = interruptible(py, move || {
            operation(&mut Initiator::new(&node).with_timeout(timeout))
        })?;
        result.map_err(of_operation)
    }
}

/// The most bytes of a piece that one message fills.
const PIECE: usize = 1 << 20;

/// Lends the memory of a buffer, in pieces. The second value keeps it in place.
fn lent(
    buffer: PyBuffer<u8>,
    is_written: bool,
    piece: usize,
) -> PyResult<(Vec<Foreign>, PyBuffer<u8>)> {
    if !buffer.is_c_contiguous() {
        return Err(invalid("the buffer is not contiguous"));
    }
    if is_written && buffer.readonly() {
        return Err(invalid("the buffer cannot be written to"));
    }
    let (start, length) = (buffer.buf_ptr().cast::<u8>(), buffer.len_bytes());
    let pieces = (0..length).step_by(piece.min(length.max(1))).map(|at| {
        // SAFETY: the export of the buffer keeps its memory at this address as long as the second value lives, and
        // callers drop that value only when no thread moves bytes of the memory. Python code may read and write there
        // meanwhile, as other processes may with shared memory.
        let memory = unsafe { Span::lent(start.add(at), piece.min(length - at)) };
        Foreign::from(memory)
    });
    Ok((pieces.collect(), buffer))
}

/// A message that an inbox received.
#[pyclass(frozen, get_all, module = "finerail")]
pub(crate) struct Message {
    /// The NID of the sender.
    source: String,
    /// The match bits.
    match_bits: u64,
    /// The number that travelled with the message.
    hdr_data: u64,
    /// The bytes.
    data: Py<PyBytes>,
    /// How many bytes were sent; more than `data` has if the inbox is for shorter messages.
    length: usize,
}

#[pymethods]
impl Message {
    fn __repr__(&self) -> String {
        let Self {
            source,
            match_bits,
            hdr_data,
            length,
            ..
        } = self;
        format!(
            "Message(source={source:?}, match_bits={match_bits}, hdr_data={hdr_data}, length={length})"
        )
    }
}

/// An iterator of the messages of a portal.
#[pyclass(frozen, module = "finerail")]
pub(crate) struct Inbox {
    /// The queue of the inbox, which ends a wait of another thread.
    events: EventQueue,
    inbox: Mutex<Option<lnet_node::Inbox>>,
}

#[pymethods]
impl Inbox {
    fn __enter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    #[pyo3(signature = (*_why))]
    fn __exit__(&self, py: Python<'_>, _why: &Bound<'_, pyo3::types::PyTuple>) {
        self.close(py);
    }

    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Message>> {
        match self.next(py, None) {
            Err(error) if error.is_instance_of::<pyo3::exceptions::PyEOFError>(py) => Ok(None),
            result => result,
        }
    }

    /// Waits for the next message; `None` if none came within `timeout` seconds. Raises `EOFError` when the inbox or its
    /// node was closed.
    #[pyo3(signature = (timeout=None))]
    fn next(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Option<Message>> {
        let mut left = time(timeout)?;
        loop {
            let slice = left.map_or(LOOK, |left| left.min(LOOK));
            let next = py.detach(|| {
                let mut inbox = self.kept();
                inbox.as_mut().map(|inbox| inbox.next(Some(slice)))
            });
            match next {
                None | Some(Err(WaitError::Closed)) => {
                    return Err(pyo3::exceptions::PyEOFError::new_err(
                        "the inbox was closed",
                    ));
                }
                Some(Ok(message)) => {
                    return Ok(Some(Message {
                        source: message.from.nid.to_string(),
                        match_bits: message.match_bits,
                        hdr_data: message.hdr_data,
                        data: PyBytes::new(py, &message.data).unbind(),
                        length: message.length,
                    }));
                }
                Some(Err(WaitError::TimedOut | WaitError::PathLost)) => {}
            }
            py.check_signals()?;
            left = left.map(|left| left.saturating_sub(slice));
            if left == Some(Duration::ZERO) {
                return Ok(None);
            }
        }
    }

    /// Closes the inbox. Messages to it are refused from then on.
    fn close(&self, py: Python<'_>) {
        self.events.close();
        py.detach(|| drop(self.kept().take()));
    }
}

impl Inbox {
    fn kept(&self) -> MutexGuard<'_, Option<lnet_node::Inbox>> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A buffer that others read, and write to if it is writable.
#[pyclass(frozen, module = "finerail")]
pub(crate) struct Window {
    open: Mutex<Option<(lnet_node::Window, PyBuffer<u8>)>>,
}

#[pymethods]
impl Window {
    fn __enter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    #[pyo3(signature = (*_why))]
    fn __exit__(&self, py: Python<'_>, _why: &Bound<'_, pyo3::types::PyTuple>) -> PyResult<()> {
        self.close(py)
    }

    /// Closes the window, and waits until nobody uses the buffer. A second call does nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        match self.kept().take() {
            Some(open) => interruptible(py, move || close(open))?.map_err(of_wait),
            None => Ok(()),
        }
    }
}

impl Window {
    fn kept(&self) -> MutexGuard<'_, Option<(lnet_node::Window, PyBuffer<u8>)>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Window {
    /// The buffer stays in place until nobody uses it.
    fn drop(&mut self) {
        let Some(open) = self.kept().take() else {
            return;
        };
        let closing = thread::Builder::new().name("finerail-window".to_owned());
        // Without a thread, the buffer stays for ever.
        let mut open = Some(std::mem::ManuallyDrop::new(open));
        let _begun = closing.spawn(move || {
            if let Some(open) = open.take() {
                let _ended = close(std::mem::ManuallyDrop::into_inner(open));
            }
        });
    }
}

fn close((window, export): (lnet_node::Window, PyBuffer<u8>)) -> Result<(), WaitError> {
    let closed = match window.close() {
        // A node that has stopped moves no bytes.
        Ok(_) | Err(WaitError::Closed) => Ok(()),
        Err(error) => Err(error),
    };
    drop(export);
    closed
}
