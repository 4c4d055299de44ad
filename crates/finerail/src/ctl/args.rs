//! The command tree of `lnetctl`, with its flags.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use lnet_config::PARAMETERS;
use lnet_types::Nid;

use super::lctl::args::LctlArgs;

#[derive(Subcommand)]
pub(crate) enum Group {
    /// Start or stop LNet: a node runs as long as its process
    #[command(subcommand, name = "lnet")]
    Lnet(LnetCommand),
    /// Networks and their interfaces
    #[command(subcommand)]
    Net(NetCommand),
    /// Routes to remote networks
    #[command(subcommand)]
    Route(RouteCommand),
    /// Router buffers
    #[command(subcommand)]
    Routing(RoutingCommand),
    /// Change a node-wide parameter
    Set(SetArgs),
    /// Apply a configuration
    Import(ImportArgs),
    /// Print the configuration
    Export(ExportArgs),
    /// Counters
    #[command(subcommand)]
    Stats(StatsCommand),
    /// Print the node's events, one line each with its reason, until interrupted
    Watch(WatchNodeArgs),
    /// The record of the node's inputs (finerail node --record)
    #[command(subcommand)]
    Record(RecordCommand),
    /// Interfaces in recovery, peers, NID lists
    #[command(subcommand)]
    Debug(DebugCommand),
    /// Node-wide parameters
    #[command(subcommand)]
    Global(GlobalCommand),
    /// Peers and their interfaces
    #[command(subcommand)]
    Peer(PeerCommand),
    /// Ask peers for their interfaces
    Ping(PingArgs),
    /// Ask peers for their interfaces, and store the answers as peers of the node
    Discover(DiscoverArgs),
    /// User-defined selection policies
    #[command(subcommand)]
    Udsp(UdspCommand),
    /// Injected faults
    #[command(subcommand)]
    Fault(FaultCommand),
    /// Print the CPU partitions of NIDs: a node of this program has one partition
    CptOfNid(CptOfNidArgs),
    /// Print the port of the RDMA service: a node of this program has none
    ServiceId,
    /// Print the settings, routes and rules that Linux needs for several interfaces, without applying them
    #[command(name = "setup-mrrouting")]
    SetupMrrouting,
    /// Print a file for sysctl.d with the settings that several interfaces need
    #[command(name = "setup-sysctl")]
    SetupSysctl,
    /// The commands of `lctl`, for a program that is called as `lctl`
    #[command(hide = true)]
    Lctl(LctlArgs),
}

#[derive(Subcommand)]
pub(crate) enum LnetCommand {
    /// Configure a node that runs; with --large it prefers IPv6 addresses
    Configure(ConfigureArgs),
    /// Remove every network, route, peer and rule
    Unconfigure,
}

#[derive(Args)]
pub(crate) struct ConfigureArgs {
    /// Give a node without networks the networks and routes of its file, as module parameters do in kernels
    #[arg(long, short)]
    pub(crate) all: bool,
    /// Use the IPv6 address of interfaces that are added by name, if they have one
    #[arg(long, short)]
    pub(crate) large: bool,
}

#[derive(Subcommand)]
pub(crate) enum NetCommand {
    /// Add a network or an interface of one
    Add(NetAddArgs),
    /// Remove a network or an interface of one
    Del(NetDelArgs),
    /// Show networks
    Show(NetShowArgs),
    /// Set a parameter of interfaces
    Set(NetSetArgs),
}

#[derive(Args)]
pub(crate) struct NetAddArgs {
    /// The network, such as tcp1
    #[arg(long, short)]
    pub(crate) net: Option<String>,
    /// Interfaces, such as eth0,eth1
    #[arg(long = "if", short, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) interfaces: Vec<String>,
    /// The NID of the interface, instead of its name
    #[arg(long, short = 'N')]
    pub(crate) nid: Option<String>,
    /// Seconds after which a silent peer counts as dead
    #[arg(
        long,
        short = 't',
        value_name = "SECONDS",
        allow_negative_numbers = true
    )]
    pub(crate) peer_timeout: Option<String>,
    /// Limit of messages in flight to one peer
    #[arg(long, short = 'c', value_name = "COUNT", allow_negative_numbers = true)]
    pub(crate) peer_credits: Option<String>,
    /// Limit of router buffers for one peer
    #[arg(long, short = 'b', value_name = "COUNT", allow_negative_numbers = true)]
    pub(crate) peer_buffer_credits: Option<String>,
    /// Limit of messages in flight on the interface
    #[arg(long, short = 'r', value_name = "COUNT", allow_negative_numbers = true)]
    pub(crate) credits: Option<String>,
    /// CPU partitions, such as `[0,1]`
    #[arg(long, short = 's', value_name = "LIST")]
    pub(crate) cpt: Option<String>,
    /// Connections of each type to one peer, up to 127; 0: the LND decides
    #[arg(long, short = 'm', value_name = "COUNT", allow_negative_numbers = true)]
    pub(crate) conns_per_peer: Option<String>,
    /// IP type of service, 0 to 255; -1: that of the system
    #[arg(long, short = 'S', value_name = "VALUE", allow_hyphen_values = true)]
    pub(crate) tos: Option<String>,
    /// Networks by address, such as `tcp(eth0) 10.1.*.*; tcp1(eth1) 10.2.*.*`
    #[arg(long = "ip2net", short = 'p', value_name = "RULES",
        conflicts_with_all = ["net", "nid", "interfaces"])]
    pub(crate) ip2net: Option<String>,
    /// For kfi networks, which this program does not support
    #[arg(long, short = 'a', value_name = "KEY", hide = true)]
    pub(crate) auth_key: Option<String>,
    /// For kfi networks, which this program does not support
    #[arg(long, short = 'T', value_name = "CLASS", hide = true)]
    pub(crate) traffic_class: Option<String>,
    /// Do not advise on Linux routes
    #[arg(long, short = 'k')]
    pub(crate) skip_mr_route_setup: bool,
}

#[derive(Args)]
pub(crate) struct NetDelArgs {
    /// The network
    #[arg(long, short)]
    pub(crate) net: Option<String>,
    /// Only these of its interfaces
    #[arg(long = "if", short, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) interfaces: Vec<String>,
    /// The interface with this NID
    #[arg(long, short = 'N')]
    pub(crate) nid: Option<String>,
}

/// The amount of detail to show, and the interval of repetition.
#[derive(Args)]
pub(crate) struct ShowArgs {
    /// The level of detail, 0 to 4; without a number 1
    #[arg(long, short, value_name = "LEVEL", num_args = 0..=1, default_missing_value = "1")]
    pub(crate) verbose: Option<u8>,
    #[command(flatten)]
    pub(crate) watch: WatchArgs,
}

#[derive(Args)]
pub(crate) struct WatchArgs {
    /// Repeat every SECONDS, until interrupted
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "2",
        value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub(crate) watch: Option<u32>,
}

#[derive(Args)]
pub(crate) struct NetShowArgs {
    /// Only this network
    #[arg(long, short)]
    pub(crate) net: Option<String>,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
}

#[derive(Args)]
#[command(after_help = "\
Values:
  --health: 0 to 1000
  --conns-per-peer: 0 to 127; -1 changes nothing
  --lnd-timeout: seconds; 0 for the timeout of the node")]
pub(crate) struct NetSetArgs {
    /// Set it for the interface with this NID
    #[arg(long, short)]
    pub(crate) nid: Option<String>,
    /// Set it for all interfaces of this network
    #[arg(long)]
    pub(crate) net: Option<String>,
    /// Set it for all interfaces
    #[arg(long, short)]
    pub(crate) all: bool,
    /// Health, 0 to 1000
    #[arg(long, value_name = "VALUE", allow_hyphen_values = true)]
    pub(crate) health: Option<String>,
    /// Connections of each type to one peer, up to 127; 0: the LND decides
    #[arg(long, short = 'm', value_name = "COUNT", allow_hyphen_values = true)]
    pub(crate) conns_per_peer: Option<String>,
    /// Seconds until a transmission fails, for a whole network or for all; 0: the timeout of the node
    #[arg(long, value_name = "SECONDS", allow_hyphen_values = true)]
    pub(crate) lnd_timeout: Option<String>,
}

#[derive(Subcommand)]
pub(crate) enum RouteCommand {
    /// Add a route
    Add(RouteAddArgs),
    /// Remove a route
    Del(RouteDelArgs),
    /// Show routes
    Show(RouteShowArgs),
}

#[derive(Args)]
pub(crate) struct RouteAddArgs {
    /// The remote network
    #[arg(long, short)]
    pub(crate) net: Option<String>,
    /// The gateways' NIDs, such as 10.1.0.[1-4]@tcp
    #[arg(long, short)]
    pub(crate) gateway: Option<String>,
    /// Hops to the remote network, 1 to 255; -1: undefined
    #[arg(
        long,
        short = 'c',
        visible_alias = "hop-count",
        allow_hyphen_values = true
    )]
    pub(crate) hop: Option<String>,
    /// Priority; routes with lower values are used first
    #[arg(long, short, allow_hyphen_values = true)]
    pub(crate) priority: Option<String>,
    /// Deprecated: only the value 1 is accepted
    #[arg(
        long = "health_sensitivity",
        alias = "health-sensitivity",
        value_name = "VALUE",
        allow_hyphen_values = true,
        hide = true
    )]
    pub(crate) health_sensitivity: Option<String>,
}

#[derive(Args)]
pub(crate) struct RouteDelArgs {
    /// The remote network
    #[arg(long, short)]
    pub(crate) net: Option<String>,
    /// The gateways' NIDs
    #[arg(long, short)]
    pub(crate) gateway: Option<String>,
}

#[derive(Args)]
pub(crate) struct RouteShowArgs {
    /// Only routes to this network
    #[arg(long, short)]
    pub(crate) net: Option<String>,
    /// Only routes by this gateway
    #[arg(long, short)]
    pub(crate) gateway: Option<String>,
    /// Only routes with this hop count, 1 to 255
    #[arg(long, short = 'c', visible_alias = "hop-count", value_name = "HOPS")]
    pub(crate) hop: Option<u8>,
    /// Only routes with this priority
    #[arg(long, short)]
    pub(crate) priority: Option<u32>,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
}

#[derive(Subcommand)]
pub(crate) enum RoutingCommand {
    /// Show router buffers
    Show(WatchArgs),
}

/// Returns the parameters with the values that they take.
fn parameters() -> String {
    let width = PARAMETERS
        .iter()
        .map(|one| one.name.len())
        .max()
        .unwrap_or(0);
    let lines = PARAMETERS.iter().map(|one| {
        let values = one.range_text();
        format!(
            "  {:width$}  {values} [default: {}]\n",
            one.name, one.default
        )
    });
    let lines: String = lines.collect();
    format!(
        "Parameters and their values:\n{lines}Also: routing (0 or 1), tiny_buffers, small_buffers, large_buffers, profile"
    )
}

#[derive(Args)]
#[command(after_help = parameters())]
pub(crate) struct SetArgs {
    /// The parameter, such as retry_count
    pub(crate) name: String,
    /// Its value
    #[arg(allow_hyphen_values = true)]
    pub(crate) value: String,
    /// With routing: wait until the change is complete, and say how long that takes
    #[arg(long)]
    pub(crate) wait: bool,
}

#[derive(Args)]
pub(crate) struct ImportArgs {
    /// Add the entries of the document (the default); entries that exist are reported and not changed
    #[arg(long, short, conflicts_with_all = ["del", "show", "exec"])]
    pub(crate) add: bool,
    /// Reject a document with entries that exist (-17), as kernels do
    #[arg(long, conflicts_with_all = ["del", "show", "exec"])]
    pub(crate) strict: bool,
    /// Remove the entries of the document
    #[arg(long, short, conflicts_with_all = ["show", "exec"])]
    pub(crate) del: bool,
    /// Show the entries of the document
    #[arg(long, short, conflicts_with = "exec")]
    pub(crate) show: bool,
    /// Carry out the pings and discoveries of the document
    #[arg(long, short)]
    pub(crate) exec: bool,
    /// Keep the changes made before an error, as kernels do; without it an import is all or nothing
    #[arg(long)]
    pub(crate) partial: bool,
    /// Report the errors that an import would have, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Accepted without effect: a node has only one control interface
    #[arg(long = "old-api", short, hide = true)]
    pub(crate) old_api: bool,
    /// The document; standard input if not given
    pub(crate) file: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct ExportArgs {
    /// Only the settings that an import needs
    #[arg(long, short)]
    pub(crate) backup: bool,
    /// The file to write; standard output if not given
    pub(crate) file: Option<PathBuf>,
}

#[derive(Subcommand)]
pub(crate) enum StatsCommand {
    /// Show the node's counters
    Show(StatsShowArgs),
    /// Zero the node's counters; with the profile design, also those of its interfaces and of its peers
    Reset,
}

#[derive(Args)]
pub(crate) struct StatsShowArgs {
    /// Show only the counts of the next SECONDS, or those since FILE was written with stats show, net show -v 1 or peer
    /// show -v 1. With SECONDS, also show the interfaces and peers that carried messages, with latencies
    #[arg(long, value_name = "SECONDS|FILE", conflicts_with = "watch")]
    pub(crate) since: Option<String>,
    #[command(flatten)]
    pub(crate) watch: WatchArgs,
}

/// The events to print. Without one of the first four options: all events except successful attempts to send.
#[derive(Args)]
pub(crate) struct WatchNodeArgs {
    /// Messages that are dropped, or that fail while they wait to be sent or resent
    #[arg(long)]
    pub(crate) dropped: bool,
    /// Health, links, connections of configured peers
    #[arg(long)]
    pub(crate) health: bool,
    /// Routes that go up or down
    #[arg(long)]
    pub(crate) routes: bool,
    /// Every attempt to send, including those that succeed
    #[arg(long)]
    pub(crate) sends: bool,
    #[command(flatten)]
    pub(crate) rpcs: WatchRpcsArgs,
    /// One JSON object a line
    #[arg(long)]
    pub(crate) json: bool,
    /// End after N events
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
}

/// The RPCs to print; each of the others needs `--rpc`.
#[derive(Args)]
pub(crate) struct WatchRpcsArgs {
    /// Instead of events, Lustre's RPCs as they end, on a node with `finerail node --rpc`
    #[arg(long, conflicts_with_all = ["dropped", "health", "routes", "sends"])]
    pub(crate) rpc: bool,
    /// Only RPCs of this client
    #[arg(long, value_name = "NID", requires = "rpc")]
    pub(crate) client: Option<Nid>,
    /// Only RPCs to targets whose name has this text
    #[arg(long, value_name = "TEXT", requires = "rpc")]
    pub(crate) target: Option<String>,
    /// Only RPCs whose operation has this text in its name, such as `ost_write`
    #[arg(long, value_name = "TEXT", requires = "rpc")]
    pub(crate) operation: Option<String>,
    /// Only RPCs of jobs with this text
    #[arg(long, value_name = "TEXT", requires = "rpc")]
    pub(crate) job: Option<String>,
    /// Only RPCs with an error, or without a reply
    #[arg(long, requires = "rpc")]
    pub(crate) failed: bool,
    /// Only RPCs that took at least so many milliseconds, or have no reply
    #[arg(long, value_name = "MILLISECONDS", requires = "rpc")]
    pub(crate) slower: Option<u32>,
}

/// Commands on the record of a node. There is none to start a record: it must begin with the start of the node,
/// because a replay needs everything that the node knew.
#[derive(Subcommand)]
pub(crate) enum RecordCommand {
    /// Show the events and bytes of the record, and the number of missing events
    Status,
    /// End the record; the node continues to run
    Stop,
}

#[derive(Subcommand)]
pub(crate) enum DebugCommand {
    /// Show the interfaces in recovery
    Recovery(RecoveryArgs),
    /// Show everything of one peer
    Peer(DebugPeerArgs),
    /// Show the NIDs of a list, or whether it contains a NID
    Nidlist(NidlistArgs),
}

#[derive(Args)]
#[command(group(ArgGroup::new("which").required(true).args(["local", "peer"])))]
pub(crate) struct RecoveryArgs {
    /// Local interfaces
    #[arg(long, short)]
    pub(crate) local: bool,
    /// Interfaces of peers
    #[arg(long, short)]
    pub(crate) peer: bool,
}

#[derive(Args)]
pub(crate) struct DebugPeerArgs {
    /// A NID of the peer
    #[arg(long, short = 'k')]
    pub(crate) nid: String,
}

#[derive(Args)]
pub(crate) struct NidlistArgs {
    /// The list, such as 10.1.0.[1-4]@tcp
    pub(crate) list: String,
    /// A NID that may be in it
    pub(crate) nid: Option<String>,
}

#[derive(Subcommand)]
pub(crate) enum GlobalCommand {
    /// Show node-wide parameters
    Show(GlobalShowArgs),
}

#[derive(Args)]
pub(crate) struct GlobalShowArgs {
    /// Accepted without effect: every parameter is shown
    #[arg(long, short, value_name = "LEVEL", num_args = 0..=1, hide = true)]
    pub(crate) verbose: Option<Option<u8>>,
    #[command(flatten)]
    pub(crate) watch: WatchArgs,
}

#[derive(Subcommand)]
pub(crate) enum PeerCommand {
    /// Add a peer, or NIDs to one
    Add(PeerAddArgs),
    /// Remove a peer, or NIDs of one
    Del(PeerDelArgs),
    /// Show peers
    Show(PeerShowArgs),
    /// List the primary NIDs of peers
    List(WatchArgs),
    /// Set a parameter of peers
    Set(PeerSetArgs),
}

#[derive(Args)]
pub(crate) struct PeerAddArgs {
    /// The peer's primary NID
    #[arg(
        long = "prim_nid",
        short = 'k',
        visible_alias = "prim-nid",
        value_name = "NID"
    )]
    pub(crate) prim_nid: Option<String>,
    /// Its NIDs
    #[arg(long, short, value_name = "NIDS")]
    pub(crate) nid: Option<String>,
    /// Do not use the peer's NIDs side by side
    #[arg(long = "non_mr", short = 'm', visible_alias = "non-mr")]
    pub(crate) non_mr: bool,
    /// Keep the primary NID, even if discovery finds another one
    #[arg(long = "lock_prim", short = 'l', visible_alias = "lock-prim")]
    pub(crate) lock_prim: bool,
}

#[derive(Args)]
pub(crate) struct PeerDelArgs {
    /// The peer's primary NID
    #[arg(
        long = "prim_nid",
        short = 'k',
        visible_alias = "prim-nid",
        value_name = "NID"
    )]
    pub(crate) prim_nid: Option<String>,
    /// Only these of its NIDs
    #[arg(long, short, value_name = "NIDS")]
    pub(crate) nid: Option<String>,
    /// Remove the peer even if its primary NID is locked
    #[arg(long, short)]
    pub(crate) force: bool,
}

#[derive(Args)]
pub(crate) struct PeerShowArgs {
    /// Only the peer with this NID
    #[arg(long, short)]
    pub(crate) nid: Option<String>,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
}

#[derive(Args)]
pub(crate) struct PeerSetArgs {
    /// Set it for the interface with this NID
    #[arg(long, short)]
    pub(crate) nid: Option<String>,
    /// Set it for all interfaces of all peers
    #[arg(long, short)]
    pub(crate) all: bool,
    /// Health, 0 to 1000
    #[arg(long, value_name = "VALUE", allow_hyphen_values = true)]
    pub(crate) health: Option<String>,
    /// The bits of the peer's state, as `peer show -v 4` prints them
    #[arg(long, value_name = "VALUE", allow_hyphen_values = true)]
    pub(crate) state: Option<String>,
}

#[derive(Args)]
pub(crate) struct PingArgs {
    /// Ping from this interface of the node
    #[arg(long, short, value_name = "NID")]
    pub(crate) source: Option<String>,
    /// Timeout for each peer, in seconds
    #[arg(long, short, value_name = "SECONDS", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub(crate) timeout: u32,
    /// The peers: NIDs or HOST@NET, separated by commas or spaces
    #[arg(required = true, value_name = "NID", value_delimiter = ',')]
    pub(crate) nids: Vec<String>,
}

#[derive(Args)]
pub(crate) struct DiscoverArgs {
    /// Discover peers that are already known, too
    #[arg(long, short)]
    pub(crate) force: bool,
    /// The peers: NIDs or HOST@NET, separated by commas or spaces
    #[arg(required = true, value_name = "NID", value_delimiter = ',')]
    pub(crate) nids: Vec<String>,
}

#[derive(Subcommand)]
pub(crate) enum UdspCommand {
    /// Add a rule
    Add(UdspAddArgs),
    /// Remove a rule, or all
    Del(UdspDelArgs),
    /// Show rules
    Show(UdspShowArgs),
}

#[derive(Args)]
pub(crate) struct UdspAddArgs {
    /// The local side
    #[arg(long, short, value_name = "NET|NIDS")]
    pub(crate) src: Option<String>,
    /// The remote side
    #[arg(long, short, value_name = "NET|NIDS")]
    pub(crate) dst: Option<String>,
    /// The gateway
    #[arg(long, short, value_name = "NIDS")]
    pub(crate) rte: Option<String>,
    /// The priority, 0 best
    #[arg(long, short, allow_hyphen_values = true)]
    pub(crate) priority: Option<String>,
    /// Insert at this index
    #[arg(long, short, allow_hyphen_values = true)]
    pub(crate) idx: Option<String>,
}

#[derive(Args)]
pub(crate) struct UdspDelArgs {
    /// The rule's index
    #[arg(long, short, allow_hyphen_values = true)]
    pub(crate) idx: Option<String>,
    /// All rules
    #[arg(long, short)]
    pub(crate) all: bool,
}

#[derive(Args)]
pub(crate) struct UdspShowArgs {
    /// Only the rule with this index
    #[arg(long, short)]
    pub(crate) idx: Option<u32>,
    #[command(flatten)]
    pub(crate) watch: WatchArgs,
}

#[derive(Subcommand)]
pub(crate) enum FaultCommand {
    /// Messages that are dropped
    #[command(subcommand)]
    Drop(FaultRuleCommand),
    /// Messages that are delayed
    #[command(subcommand)]
    Delay(FaultRuleCommand),
    /// List the rules of a type
    Show(FaultTypeArgs),
    /// Zero the counters of the rules of a type
    Reset(FaultTypeArgs),
}

#[derive(Args)]
pub(crate) struct FaultTypeArgs {
    /// The type of the rules
    #[arg(
        long = "rule_type",
        short = 't',
        visible_alias = "rule-type",
        value_name = "TYPE"
    )]
    pub(crate) rule_type: FaultType,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FaultType {
    /// Messages that are dropped
    Drop,
    /// Messages that are delayed
    Delay,
}

#[derive(Subcommand)]
pub(crate) enum FaultRuleCommand {
    /// Add a rule
    Add(Box<FaultAddArgs>),
    /// Remove rules
    Del(FaultDelArgs),
    /// Zero the rules' counters
    Reset,
    /// List the rules
    #[command(alias = "list")]
    Show,
}

#[derive(Args)]
#[command(group(ArgGroup::new("pace").required(true).args(["rate", "interval"])))]
pub(crate) struct FaultAddArgs {
    /// The source: a NID, *@NET or *
    #[arg(long, short)]
    pub(crate) source: String,
    /// The destination: a NID, *@NET or *
    #[arg(long, short)]
    pub(crate) dest: String,
    /// Apply the rule to one of RATE messages
    #[arg(long, short)]
    pub(crate) rate: Option<u32>,
    /// Apply the rule once in INTERVAL seconds
    #[arg(long, short)]
    pub(crate) interval: Option<u32>,
    /// The delay of a message, in seconds (delay rules)
    #[arg(long, short)]
    pub(crate) latency: Option<u32>,
    /// Fail the send with this class of error, such as local_timeout or random; repeatable
    #[arg(
        long = "health_error",
        short = 'e',
        visible_alias = "health-error",
        value_name = "CLASS"
    )]
    pub(crate) errors: Vec<String>,
    /// Only PUT, ACK, GET or REPLY; repeatable
    #[arg(long = "message", short, value_name = "TYPE")]
    pub(crate) messages: Vec<String>,
    /// Only this portal
    #[arg(long, short)]
    pub(crate) portal: Option<u32>,
    /// Only over the interface with this NID
    #[arg(
        long = "local_nid",
        short = 'o',
        visible_alias = "local-nid",
        value_name = "NID"
    )]
    pub(crate) local_nid: Option<String>,
    /// Apply the rule to each message with a probability of one half
    #[arg(long, short = 'n')]
    pub(crate) random: bool,
    /// Apply the rule to every message, in both directions
    #[arg(long = "drop_all", short = 'x', visible_alias = "drop-all")]
    pub(crate) drop_all: bool,
}

#[derive(Args)]
pub(crate) struct FaultDelArgs {
    /// All rules
    #[arg(long, short, conflicts_with_all = ["source", "dest"])]
    pub(crate) all: bool,
    /// The rules with this source
    #[arg(long, short, required_unless_present = "all", requires = "dest")]
    pub(crate) source: Option<String>,
    /// The rules with this destination
    #[arg(long, short)]
    pub(crate) dest: Option<String>,
}

#[derive(Args)]
pub(crate) struct CptOfNidArgs {
    /// NIDs
    #[arg(required = true, value_name = "NID")]
    pub(crate) nids: Vec<String>,
}
