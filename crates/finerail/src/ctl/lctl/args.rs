//! The commands of `lctl` that concern LNet, with the names of `lctl`.

use clap::{Args, Subcommand};
use lnet_types::Net;

use crate::ctl::args::{FaultAddArgs, FaultDelArgs};

#[derive(Args)]
pub(crate) struct LctlArgs {
    /// The network that conn_list and peer_list are about
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
    /// Print the node's NID from which a peer is reached
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
        /// How long it may take, in seconds
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
    /// Lose messages, or fail them
    #[command(name = "net_drop_add")]
    NetDropAdd(Box<FaultAddArgs>),
    /// Remove rules that lose or fail messages
    #[command(name = "net_drop_del")]
    NetDropDel(FaultDelArgs),
    /// Zero the counters of rules that lose or fail messages
    #[command(name = "net_drop_reset")]
    NetDropReset,
    /// Print the rules that lose or fail messages
    #[command(name = "net_drop_list")]
    NetDropList,
    /// Hold messages back
    #[command(name = "net_delay_add")]
    NetDelayAdd(Box<FaultAddArgs>),
    /// Remove rules that hold messages back
    #[command(name = "net_delay_del")]
    NetDelayDel(FaultDelArgs),
    /// Zero the counters of rules that hold messages back
    #[command(name = "net_delay_reset")]
    NetDelayReset,
    /// Print the rules that hold messages back
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
        /// Say nothing of what was set
        #[arg(short = 'n')]
        quiet: bool,
        /// What is set to which value
        #[arg(required = true, value_name = "NAME=VALUE")]
        settings: Vec<String>,
    },
}

#[derive(Args)]
pub(crate) struct ParamArgs {
    /// Print values without names
    #[arg(short = 'n')]
    pub(crate) values: bool,
    /// Names as well (the default)
    #[arg(short = 'N', conflicts_with = "values")]
    pub(crate) names: bool,
    /// Below directories, too: there are none
    #[arg(short = 'R', hide = true)]
    pub(crate) recursive: bool,
    /// Names, in which * stands for any text
    #[arg(required = true, value_name = "PATTERN")]
    pub(crate) patterns: Vec<String>,
}
