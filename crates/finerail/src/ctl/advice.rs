//! `setup-mrrouting` and `setup-sysctl`: the settings that Linux needs so that every interface of the node answers and
//! sends only for its own address. The commands are printed and never executed.

use std::net::IpAddr;

use lnet_dlc::protocol::Section;

use super::talk::{Failed, Talk};
use crate::rails::{self, Rail};

/// Prints the commands that an administrator may run.
pub(super) fn mrrouting(talk: &mut Talk) -> Result<(), Failed> {
    let rails = rails(talk)?;
    super::local::print(&rails::commands(&rails, &rails::running))
}

/// Prints the settings as a file for sysctl.d.
pub(super) fn sysctl(talk: &mut Talk) -> Result<(), Failed> {
    let rails = rails(talk)?;
    super::local::print(&rails::file(&rails))
}

fn rails(talk: &mut Talk) -> Result<Vec<Rail>, Failed> {
    let nets = talk.shown(Section::Net)?.nets;
    let used: Vec<IpAddr> = nets
        .iter()
        .flat_map(|net| &net.nis)
        .filter_map(|ni| ni.config.nid?.ip())
        .collect();
    Ok(rails::of_addresses(&used)?)
}
