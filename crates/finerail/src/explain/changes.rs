//! The what-if arguments of `finerail explain`.

use clap::ValueEnum;
use lnet_explain::{Change, ChangeError, Switch, Target};
use lnet_policy::Profile;

/// Changes to try. Each option may be given several times. The changes are made in the order of this list:
/// first additions, then deletions, settings, restorations, and failures last.
#[derive(clap::Args)]
#[command(next_help_heading = "What if")]
pub(crate) struct ChangeArgs {
    /// Add a local net with its first NI
    #[arg(long, value_name = "NET=NID")]
    add_net: Vec<String>,
    /// Add a local NI
    #[arg(long, value_name = "NID[=INTERFACE]")]
    add_ni: Vec<String>,
    /// Add a NID to a peer
    #[arg(long, value_name = "PEER=NID")]
    add_peer_nid: Vec<String>,
    /// Add a route
    #[arg(long, value_name = "NET=GATEWAY[,hop=N][,priority=N]")]
    add_route: Vec<String>,
    /// Add a selection rule, in the words of `lnetctl udsp add`
    #[arg(long, value_name = "RULE", allow_hyphen_values = true)]
    add_rule: Vec<String>,
    /// Delete a local net with its NIs
    #[arg(long, value_name = "NET")]
    del_net: Vec<String>,
    /// Delete a local NI
    #[arg(long, value_name = "NID")]
    del_ni: Vec<String>,
    /// Delete a NID of a peer
    #[arg(long, value_name = "NID")]
    del_peer_nid: Vec<String>,
    /// Delete a route
    #[arg(long, value_name = "NET=GATEWAY")]
    del_route: Vec<String>,
    /// Delete the selection rule with this index
    #[arg(long, value_name = "IDX")]
    del_rule: Vec<String>,
    /// Set health_sensitivity, retry_count, transaction_timeout, numa_range, rule.IDX (its priority)
    /// or route.NET.GATEWAY (its priority)
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Discovery of peers
    #[arg(long, value_name = "ON|OFF", value_enum, hide_possible_values = true)]
    discovery: Option<OnOff>,
    /// Whether the destination's peer is Multi-Rail
    #[arg(long, value_name = "ON|OFF", value_enum, hide_possible_values = true)]
    multi_rail: Option<OnOff>,
    /// Whether this node forwards messages
    #[arg(long, value_name = "ON|OFF", value_enum, hide_possible_values = true)]
    routing: Option<OnOff>,
    /// avoid_asym_router_failure
    #[arg(long, value_name = "ON|OFF", value_enum, hide_possible_values = true)]
    avoid_asym: Option<OnOff>,
    /// drop_asym_route
    #[arg(long, value_name = "ON|OFF", value_enum, hide_possible_values = true)]
    drop_asym: Option<OnOff>,
    /// Set the health of a local NI or a peer NI
    #[arg(long, value_name = "NID=HEALTH")]
    set_health: Vec<String>,
    /// Restore a local NI, a peer NI, a gateway or an interface of the system
    #[arg(long, value_name = "NID|INTERFACE")]
    restore: Vec<String>,
    /// Let a local NI, a peer NI, a gateway or an interface of the system fail
    #[arg(long, value_name = "NID|INTERFACE")]
    fail: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OnOff {
    On,
    Off,
}

impl ChangeArgs {
    /// Returns the changes in the order in which they are made.
    pub(crate) fn read(&self, profile: Profile) -> Result<Vec<Change>, ChangeError> {
        let mut changes = Vec::new();
        let mut read = |texts: &[String], parse: fn(&str) -> Result<Change, ChangeError>| {
            for text in texts {
                changes.push(parse(text)?);
            }
            Ok(())
        };
        read(&self.add_net, Change::add_net)?;
        read(&self.add_ni, Change::add_ni)?;
        read(&self.add_peer_nid, Change::add_peer_nid)?;
        read(&self.add_route, Change::add_route)?;
        read(
            &self.add_rule,
            match profile {
                Profile::Design => |text| Change::add_rule(text, Profile::Design),
                Profile::Lustre | Profile::Lustre217 => {
                    |text| Change::add_rule(text, Profile::Lustre)
                }
            },
        )?;
        read(&self.del_net, Change::delete_net)?;
        read(&self.del_ni, Change::delete_ni)?;
        read(&self.del_peer_nid, Change::delete_peer_nid)?;
        read(&self.del_route, Change::delete_route)?;
        read(&self.del_rule, Change::delete_rule)?;
        read(&self.set, Change::set)?;
        changes.extend(self.switches());
        let mut read = |texts: &[String], parse: fn(&str) -> Result<Change, ChangeError>| {
            for text in texts {
                changes.push(parse(text)?);
            }
            Ok(())
        };
        read(&self.set_health, Change::health)?;
        read(&self.restore, |text| {
            Ok(Change::Restore(Target::parse(text)))
        })?;
        read(&self.fail, |text| Ok(Change::Fail(Target::parse(text))))?;
        Ok(changes)
    }

    /// Returns whether the changes add an interface. A node without interfaces can then be explained.
    pub(crate) fn adds_interfaces(&self) -> bool {
        !self.add_net.is_empty() || !self.add_ni.is_empty()
    }

    fn switches(&self) -> impl Iterator<Item = Change> {
        let switches = [
            (Switch::Discovery, self.discovery),
            (Switch::MultiRail, self.multi_rail),
            (Switch::Routing, self.routing),
            (Switch::AvoidAsymmetric, self.avoid_asym),
            (Switch::DropAsymmetric, self.drop_asym),
        ];
        let given = switches
            .into_iter()
            .filter_map(|(switch, on)| Some((switch, on?)));
        given.map(|(switch, on)| Change::Switch(switch, on == OnOff::On))
    }
}
