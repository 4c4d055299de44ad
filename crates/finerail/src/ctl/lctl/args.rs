//! The commands of `lctl` that concern LNet, with the names of `lctl`.

use clap::{Args, Subcommand};
use lnet_types::Net;

use crate::ctl::args::{FaultAddArgs, FaultDelArgs};

#[derive(Args)]
pub(crate) struct LctlArgs {
    /// The network whose connections or peers conn_list and peer_list print
    #[arg(long, value_name = "NET", global = true)]
    pub(crate) net: Option<Net>,
    #[command(subcommand)]
    pub(crate) command: Option<LctlCommand>,
}

#[derive(Subcommand)]
pub(crate) enum LctlCommand {
    /// Print the node's NIDs
    #[command(name = "list_nids")]
    ListNids,
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
    /// Configure LNet (up) or remove every network (down), or check the name of a network
    Network {
        /// up or configure, down or unconfigure, or a network such as tcp
        #[arg(value_name = "up|down|NET")]
        what: String,
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
