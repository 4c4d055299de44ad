//! The place where a conversation is replayed: a network namespace with the captured addresses, or loopback.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::time::Duration;

use lnet_node::{Globals, InterfaceError, NiSettings, NiTuning, Node, NodeOptions, Route};
use lnet_types::{Net, Nid};
use nix::sched::{CloneFlags, unshare};
use socket2::{Domain, SockRef, Socket, Type};

use crate::common::nid;
use crate::script::{Dialled, Script};

/// The place for one episode.
pub(crate) struct Stage {
    port: u16,
    /// True if captured source ports can be used; our node must then use them, too.
    pub(crate) has_captured_ports: bool,
    pub(crate) asks: &'static [Asks],
    /// Remote nets, each with the NID of its gateway.
    routes: &'static [(&'static str, &'static str)],
    /// How long to wait for an expected message.
    pub(crate) patience: Duration,
}

/// What our node's program does when the captured kernel sent a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Asks {
    Ping,
    Discover,
    /// Nothing: the node sends the request by itself.
    Nothing,
}

/// Returns the parameters of a kernel node.
pub(crate) fn discovering() -> Globals {
    Globals {
        discovery: true,
        ..Globals::default()
    }
}

/// The settings of the node that a test chooses.
#[derive(Clone, Debug)]
pub(crate) struct Casting {
    /// Settings of the node's first interface.
    pub(crate) lnd: NiTuning,
    /// The number of the net of the node's first interface.
    pub(crate) net: u16,
    /// Further interfaces.
    pub(crate) more_nids: &'static [&'static str],
    pub(crate) globals: Globals,
    /// What to do in place of each request of the kernel; the last element stands for all further requests.
    pub(crate) asks: &'static [Asks],
    /// Remote nets, each with the NID of its gateway. The node checks the gateways when the script begins.
    pub(crate) routes: &'static [(&'static str, &'static str)],
    pub(crate) routing: bool,
    pub(crate) keepalive: Option<Duration>,
    /// How long to wait for an expected message.
    pub(crate) patience: Duration,
}

impl Default for Casting {
    fn default() -> Self {
        Self {
            lnd: NiTuning::default(),
            net: 0,
            more_nids: &[],
            globals: discovering(),
            asks: &[Asks::Ping],
            routes: &[],
            routing: false,
            keepalive: None,
            patience: crate::common::PATIENCE,
        }
    }
}

/// Runs `act` in its own network namespace, in which no byte of the script needs to change; without the privilege for
/// that, on loopback with the NIDs of `127.0.0.1` and `127.0.0.2`.
pub(crate) fn on_stage<R: Send>(
    script: &Script,
    casting: &Casting,
    act: impl FnOnce(&Stage, &Script, &Node) -> R + Send,
) -> R {
    in_thread(|| match private_network(script) {
        Ok(()) => {
            eprintln!("in a network namespace, with the captured addresses and ports");
            let stage = Stage {
                port: NodeOptions::LNET_PORT,
                has_captured_ports: true,
                asks: casting.asks,
                routes: casting.routes,
                patience: casting.patience,
            };
            let node = stage.node(script, casting);
            act(&stage, script, &node)
        }
        Err(why) => {
            eprintln!("no network namespace: {why}");
            act_on_loopback(script, casting, act)
        }
    })
}

/// Runs `act` on loopback, which needs no privilege.
pub(crate) fn on_loopback<R: Send>(
    script: &Script,
    casting: &Casting,
    act: impl FnOnce(&Stage, &Script, &Node) -> R + Send,
) -> R {
    act_on_loopback(script, casting, act)
}

fn act_on_loopback<R>(
    script: &Script,
    casting: &Casting,
    act: impl FnOnce(&Stage, &Script, &Node) -> R,
) -> R {
    eprintln!("on loopback, with the NIDs rewritten");
    let home = |captured: Ipv4Addr| Ipv4Addr::new(127, 0, 0, captured.octets()[3]);
    let script = script.clone().moved(home(script.node), home(script.kernel));
    let stage = Stage {
        port: testkit::port(),
        has_captured_ports: false,
        asks: casting.asks,
        routes: casting.routes,
        patience: casting.patience,
    };
    let node = stage.node(&script, casting);
    act(&stage, &script, &node)
}

/// A namespace belongs to one thread and to the threads that it starts: the test's own thread keeps its network.
fn in_thread<R: Send>(act: impl FnOnce() -> R + Send) -> R {
    std::thread::scope(|scope| match scope.spawn(act).join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}

fn private_network(script: &Script) -> Result<(), String> {
    unshare(CloneFlags::CLONE_NEWNET).map_err(|error| error.to_string())?;
    let address = |ip: Ipv4Addr| format!("address add {ip}/32 dev lo");
    let addresses = script.addresses().into_iter().map(address);
    for line in std::iter::once("link set lo up".to_owned()).chain(addresses) {
        let ran = Command::new("ip")
            .args(line.split(' '))
            .output()
            .map_err(|error| format!("ip: {error}"))?;
        if !ran.status.success() {
            return Err(format!(
                "ip {line}: {}",
                String::from_utf8_lossy(&ran.stderr)
            ));
        }
    }
    Ok(())
}

impl Stage {
    fn node(&self, script: &Script, casting: &Casting) -> Node {
        let options = NodeOptions {
            port: self.port,
            keepalive: casting.keepalive,
            globals: casting.globals,
            routing: casting.routing,
            ..NodeOptions::default()
        };
        let node = Node::start(options).expect("the node starts");
        let first = Nid::from_ip(Net::tcp(casting.net), script.node.into());
        let more = casting.more_nids.iter().map(|text| nid(text));
        let settings = NiSettings {
            lnd: casting.lnd,
            ..NiSettings::default()
        };
        let nis =
            std::iter::once((first, settings)).chain(more.map(|nid| (nid, NiSettings::default())));
        let added: Result<(), InterfaceError> = node.with_engine(|engine, now| {
            for (nid, settings) in nis {
                engine.add_interface(nid, settings, now)?;
            }
            Ok(())
        });
        added.expect("the node has its interfaces");
        node
    }

    /// Gives the node its routes; the node pings their gateways at once.
    pub(crate) fn add_routes(&self, node: &Node) {
        for (net, gateway) in self.routes {
            let route = Route {
                net: net.parse().expect("a network"),
                gateway: nid(gateway),
                hops: None,
                priority: 0,
            };
            let added = node.with_engine(|engine, now| engine.core_mut().add_route(route, now));
            added.expect("the node takes the route");
        }
    }

    /// Returns what to do in place of the request with this number.
    pub(crate) fn asks(&self, request: usize) -> Asks {
        let asks = self.asks.get(request).or(self.asks.last());
        asks.copied().unwrap_or(Asks::Nothing)
    }

    /// Listens on each address of the kernel node.
    pub(crate) fn listen(&self, script: &Script) -> BTreeMap<Ipv4Addr, TcpListener> {
        let listener = |address| {
            let listener = TcpListener::bind((address, self.port)).expect("the port is free");
            SockRef::from(&listener)
                .set_read_timeout(Some(self.patience))
                .expect("a socket option");
            (address, listener)
        };
        script.kernel_addresses().map(listener).collect()
    }

    /// Dials the node from the kernel node's address and captured port. If TCP has not released the port yet, dials
    /// from the next lower port, as kernels do. On loopback, dials from any port.
    pub(crate) fn dial(&self, ends: Dialled) -> io::Result<TcpStream> {
        if !self.has_captured_ports {
            return self.dial_from(ends, 0);
        }
        match self.dial_from(ends, ends.source_port) {
            Err(error) if error.kind() == ErrorKind::AddrNotAvailable => {
                self.dial_from(ends, ends.source_port - 1)
            }
            dialled => dialled,
        }
    }

    fn dial_from(&self, ends: Dialled, source_port: u16) -> io::Result<TcpStream> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        socket.set_reuse_address(true)?;
        socket.bind(&SocketAddr::from((ends.from, source_port)).into())?;
        socket.connect(&SocketAddr::from((ends.to, self.port)).into())?;
        self.prepare(socket.into())
    }

    /// Accepts a connection that the node dialled.
    pub(crate) fn accept(&self, listener: &TcpListener) -> io::Result<(TcpStream, u16)> {
        let (stream, from) = listener.accept()?;
        Ok((self.prepare(stream)?, from.port()))
    }

    fn prepare(&self, stream: TcpStream) -> io::Result<TcpStream> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(self.patience))?;
        Ok(stream)
    }
}
