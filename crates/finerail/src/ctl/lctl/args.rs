//! The commands of `lctl` that concern LNet, with the names of `lctl`.

use clap::{Args, Subcommand};
use lnet_types::Net;

use crate::ctl::args::{FaultAddArgs, FaultDelArgs, FaultRuleCommand};

#[derive(Args)]
pub(crate) struct LctlArgs {
    /// The network that conn_list, peer_list, interface_list, add_route and del_route are about
    #[arg(long, value_name = "NET", global = true)]
    pub(crate) net: Option<Net>,
    #[command(subcommand)]
    pub(crate) command: Option<LctlCommand>,
}

#[derive(Subcommand)]
pub(crate) enum LctlCommand {
    /// Print the node's NIDs
    #[command(name = "list_nids")]
    ListNids {
        /// Print the NID of loopback, too
        #[arg(value_name = "all", value_parser = ["all"])]
        which: Option<String>,
    },
    /// Print the NID of the node through which it reaches a peer
    #[command(name = "which_nid")]
    WhichNid {
        /// NIDs of the peer; the first that can be reached decides
        #[arg(required = true, value_name = "NID")]
        nids: Vec<String>,
    },
    /// Print the NIDs of a peer
    Ping {
        /// A NID of the peer
        nid: String,
        /// Timeout in seconds
        #[arg(value_name = "SECONDS", default_value_t = 1,
            value_parser = clap::value_parser!(u32).range(1..=3600))]
        timeout: u32,
    },
    /// Configure LNet (up) or remove every network (down), or choose the network of the commands that follow
    #[command(visible_alias = "net")]
    Network {
        /// up or configure, down or unconfigure, or a network such as tcp
        #[arg(value_name = "up|down|NET", required_unless_present = "list")]
        what: Option<String>,
        /// Print the node's networks
        #[arg(short, long, conflicts_with = "what")]
        list: bool,
    },
    /// Print the interfaces of a network
    #[command(name = "interface_list")]
    InterfaceList,
    /// Add a route to the network
    #[command(name = "add_route")]
    AddRoute {
        /// The gateway's NID
        gateway: String,
        /// Hops to the network, 1 to 255; -1: undefined
        #[arg(allow_negative_numbers = true)]
        hops: Option<String>,
        /// Priority; routes with lower values are used first
        priority: Option<String>,
    },
    /// Remove a route to the network
    #[command(name = "del_route")]
    DelRoute {
        /// The gateway's NID
        gateway: String,
    },
    /// Print the devices of Lustre: there are none here
    #[command(name = "device_list", visible_alias = "dl")]
    DeviceList,
    /// Not supported: the node's log takes the place of the kernel's debug buffer
    #[command(name = "debug_kernel", visible_alias = "dk")]
    DebugKernel {
        /// The file that the kernel's buffer would be written to
        #[arg(value_name = "FILE")]
        words: Vec<String>,
    },
    /// Print the connections of a network
    #[command(name = "conn_list")]
    ConnList,
    /// Print the peers of a network that can be connected to
    #[command(name = "peer_list")]
    PeerList,
    /// Print the routes
    #[command(name = "show_route", visible_alias = "route_list")]
    ShowRoute,
    /// Write a line into the node's log
    Mark {
        /// The line
        #[arg(value_name = "TEXT")]
        text: Vec<String>,
    },
    /// Drop messages, or fail them: add, del, reset, list
    #[command(name = "net_drop", subcommand)]
    NetDrop(FaultRuleCommand),
    /// Delay messages: add, del, reset, list
    #[command(name = "net_delay", subcommand)]
    NetDelay(FaultRuleCommand),
    /// Drop messages, or fail them
    #[command(name = "net_drop_add")]
    NetDropAdd(Box<FaultAddArgs>),
    /// Remove rules that drop or fail messages
    #[command(name = "net_drop_del")]
    NetDropDel(FaultDelArgs),
    /// Zero the counters of rules that drop or fail messages
    #[command(name = "net_drop_reset")]
    NetDropReset,
    /// Print the rules that drop or fail messages
    #[command(name = "net_drop_list")]
    NetDropList,
    /// Delay messages
    #[command(name = "net_delay_add")]
    NetDelayAdd(Box<FaultAddArgs>),
    /// Remove rules that delay messages
    #[command(name = "net_delay_del")]
    NetDelayDel(FaultDelArgs),
    /// Zero the counters of rules that delay messages
    #[command(name = "net_delay_reset")]
    NetDelayReset,
    /// Print the rules that delay messages
    #[command(name = "net_delay_list")]
    NetDelayList,
    /// Print the names of parameters
    #[command(name = "list_param")]
    ListParam(ParamArgs),
    /// Print parameters
    #[command(name = "get_param")]
    GetParam(ParamArgs),
    /// Set parameters
    #[command(name = "set_param")]
    SetParam {
        /// Do not print the new values
        #[arg(short = 'n')]
        quiet: bool,
        /// Parameters and their new values
        #[arg(required = true, value_name = "NAME=VALUE")]
        settings: Vec<String>,
    },
}

#[derive(Args)]
pub(crate) struct ParamArgs {
    /// Print values without names
    #[arg(short = 'n')]
    pub(crate) values: bool,
    /// Print names and values (the default)
    #[arg(short = 'N', conflicts_with = "values")]
    pub(crate) names: bool,
    /// Accepted without effect: there are no directories
    #[arg(short = 'R', hide = true)]
    pub(crate) recursive: bool,
    /// Names, in which * stands for any text
    #[arg(required = true, value_name = "PATTERN")]
    pub(crate) patterns: Vec<String>,
}
