//! Nodes with connections between them, driven by one thread.

use std::cell::RefCell;
use std::net::IpAddr;
use std::rc::Rc;

use lnet_core::{
    Core, CoreConfig, Entropy, GetRequest, Globals, InsertPosition, MdHandle, MdOptions, MdSpec,
    MeSpec, NiConfig, PutRequest, RouterBuffers, Tunables,
};
use lnet_node::stack::{EventSink, Memory as Lent, NodeEvent, Registered, Stack};
use lnet_policy::{Profile, Rule, RuleText};
use lnet_tcp::{AcceptMode, LndNi, NiTuning, Socklnd, SocklndConfig, SourcePorts, Staging};
use lnet_types::{Nid, ProcessId, Time};

use crate::memory::Memory;

const PORTAL: u32 = 30;
pub(crate) const NOW: Time = Time::from_secs(1000);

/// The events of a node's programs.
#[derive(Default)]
pub(crate) struct Events(Rc<RefCell<Vec<NodeEvent>>>);

impl EventSink for Events {
    fn push(&self, event: NodeEvent) -> bool {
        self.0.borrow_mut().push(event);
        true
    }
}

/// What stands around a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setting {
    /// One interface each, no rules, no discovery.
    Plain,
    /// Discovery, four interfaces of the target, ten rules in each node.
    Crowded,
}

/// A node.
pub(crate) struct Node {
    pub(crate) stack: Stack<Memory, Events>,
    addresses: Vec<IpAddr>,
    pub(crate) id: ProcessId,
    network: Memory,
    staging: Staging,
    events: Rc<RefCell<Vec<NodeEvent>>>,
}

impl Node {
    /// Makes a node with these interfaces. With several nets it is a router.
    pub(crate) fn new(number: u8, nids: &[&str], network: &Memory, setting: Setting) -> Self {
        let nids: Vec<Nid> = nids.iter().map(|nid| nid.parse().unwrap()).collect();
        let config = CoreConfig {
            entropy: Entropy::from_seed(number.into()),
            seed: number.into(),
            globals: Globals {
                discovery: setting == Setting::Crowded,
                check_routers_before_use: false,
                ..Globals::default()
            },
            buffers: RouterBuffers {
                tiny: 64,
                small: 64,
                large: 1,
            },
            routing: nids.iter().any(|nid| nid.net() != nids[0].net()),
            pid: ProcessId::LUSTRE_PID,
        };
        let mut core = Core::new(config, NOW);
        if setting == Setting::Crowded {
            rules().for_each(|rule| _ = core.add_rule(rule, None).unwrap());
        }
        let config = SocklndConfig {
            accept: AcceptMode::All,
            source_ports: SourcePorts::Any,
            ..SocklndConfig::default()
        };
        let mut lnd = Socklnd::new(config, network.clone(), number.into());
        for &nid in &nids {
            let tunables = Tunables::default();
            let ni = core.add_ni(NiConfig { nid, tunables }, NOW).unwrap();
            lnd.add_ni(LndNi {
                ni,
                nid,
                tuning: NiTuning::default(),
                incarnation: number.into(),
            })
            .unwrap();
        }
        let events = Rc::default();
        Self {
            stack: Stack::new(lnd, core),
            addresses: nids.iter().filter_map(|nid| nid.ip()).collect(),
            id: ProcessId::lustre(nids[0]),
            network: network.clone(),
            staging: Staging::default(),
            events,
        }
    }

    fn lent(&self, memory: Lent) -> Registered<Events> {
        Registered::new(memory, Events(Rc::clone(&self.events)).into())
    }

    pub(crate) fn bind(&mut self, memory: Lent) -> MdHandle {
        let md = md(&memory, MdOptions::empty());
        let lent = self.lent(memory);
        self.stack.bind(md, lent).unwrap()
    }

    pub(crate) fn attach(&mut self, memory: Lent, portal: u32, bits: u64, options: MdOptions) {
        let entry = MeSpec {
            portal,
            match_id: ProcessId::ANY,
            match_bits: bits,
            ignore_bits: 0,
            unlink_with_md: true,
            position: InsertPosition::After,
        };
        let md = md(&memory, options | MdOptions::MANAGE_REMOTE);
        let lent = self.lent(memory);
        self.stack.attach(entry, md, lent, NOW).unwrap();
    }

    /// Reads, decides and writes until there is nothing to do. Returns whether there was anything.
    pub(crate) fn run(&mut self) -> bool {
        let mut busy = self.stack.decide(NOW);
        for (slot, news) in self.network.news(&self.addresses) {
            self.stack.ready(slot, news, NOW);
            self.stack.decide(NOW);
            busy = true;
        }
        while let Some(mut job) = self.stack.next_job(NOW) {
            job.run(&mut self.staging);
            self.stack.finish(job, &mut self.staging, NOW);
            self.stack.decide(NOW);
            busy = true;
        }
        busy
    }

    /// Returns the number of events that no program has taken.
    pub(crate) fn events(&self) -> usize {
        self.events.borrow().len()
    }

    pub(crate) fn forget_events(&self) {
        self.events.borrow_mut().clear();
    }
}

/// Nine rules about other NIDs, and one about the net.
fn rules() -> impl Iterator<Item = Rule> {
    let others = (1..10).map(|last| format!("10.0.9.{last}@tcp"));
    let all = others.chain(["tcp".to_owned()]);
    all.map(|dst| {
        let text = RuleText {
            dst: Some(&dst),
            ..RuleText::default()
        };
        Rule::from_text(&text, Profile::default()).unwrap()
    })
}

fn md(memory: &Lent, options: MdOptions) -> MdSpec {
    MdSpec {
        length: memory.len() as u32,
        threshold: None,
        max_size: 0,
        options,
        unlink_when_exhausted: false,
        user: 1,
    }
}

/// An initiator and a target.
pub(crate) struct Pair {
    /// The node that begins operations.
    pub(crate) initiator: Node,
    /// The node that has the match entries.
    pub(crate) target: Node,
    /// Payload of 64 bytes.
    source: MdHandle,
    /// Memory of 4 KiB.
    sink: MdHandle,
}

impl Pair {
    /// Returns a pair that has exchanged enough messages that everything which grows has grown. In a box, so that a
    /// bench that takes and returns the pair does not count its copies.
    pub(crate) fn warm(setting: Setting) -> Box<Self> {
        let network = Memory::default();
        let all = [
            "10.0.0.2@tcp",
            "10.0.0.3@tcp",
            "10.0.0.4@tcp",
            "10.0.0.5@tcp",
        ];
        let nids = match setting {
            Setting::Plain => &all[..1],
            Setting::Crowded => &all,
        };
        let mut initiator = Node::new(1, &["10.0.0.1@tcp"], &network, setting);
        let mut target = Node::new(2, nids, &network, setting);
        let source = initiator.bind(Lent::Source(vec![7; 64].into()));
        let sink = initiator.bind(Lent::Sink(vec![0; 4096]));
        target.attach(Lent::Sink(vec![0; 64]), PORTAL, 1, MdOptions::OP_PUT);
        target.attach(
            Lent::Source(vec![9; 4096].into()),
            PORTAL,
            2,
            MdOptions::OP_GET,
        );
        let mut pair = Box::new(Self {
            initiator,
            target,
            source,
            sink,
        });
        for _ in 0..8 {
            for _ in 0..64 {
                pair.put(false);
            }
            pair.put(true);
            pair.get();
            pair.settle();
        }
        pair
    }

    /// Lets both nodes run until nothing is under way.
    pub(crate) fn settle(&mut self) {
        while self.initiator.run() | self.target.run() {}
        self.initiator.forget_events();
        self.target.forget_events();
    }

    /// Begins a PUT of 64 bytes.
    pub(crate) fn put(&mut self, ack: bool) {
        let request = PutRequest {
            md: self.source,
            ack,
            source: None,
            target: self.target.id,
            portal: PORTAL,
            match_bits: 1,
            offset: 0,
            hdr_data: 0,
        };
        self.initiator.stack.side.core.put(request, NOW).unwrap();
    }

    /// Begins a GET of 4 KiB.
    pub(crate) fn get(&mut self) {
        let request = GetRequest {
            md: self.sink,
            source: None,
            target: self.target.id,
            portal: PORTAL,
            match_bits: 2,
            offset: 0,
        };
        self.initiator.stack.side.core.get(request, NOW).unwrap();
    }
}
