//! Warnings for users who convert existing options.

use super::{ModuleOptions, lnd};
use crate::ip2nets::Ip2Nets;

impl ModuleOptions {
    /// Warnings about valid options that are deprecated or have an unexpected meaning.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        warnings.extend(self.deprecated());
        if !self.networks.is_empty() && !self.ip2nets.is_empty() {
            warnings.push(
                "networks, ip2nets: they exclude each other, and the module does not start with both; the YAML contains \
                 both, so remove the wrong one"
                    .to_owned(),
            );
        }
        let rules = self.ip2nets(&mut Vec::new());
        for (at, rule, earlier) in Ip2Nets::may_be_passed_over(&rules) {
            warnings.push(format!(
                "ip2nets: rule {} ({}) is ignored in the YAML on machines that the rule for {} covers too, where the \
                 module takes both: for both interfaces write one rule with {}",
                at + 1,
                rule.spec(),
                earlier.spec(),
                both(rule, earlier),
            ));
        }
        warnings.extend(lnd::timeouts(self).map(|option| {
            format!(
                "{option}: nodes of Finerail take the timeout from the YAML, kernel nodes from their module only"
            )
        }));
        warnings.extend(self.shared_priorities());
        warnings
    }

    /// Returns whether every machine gets the same interfaces from these options and from their YAML. It does not where
    /// two rules of `ip2nets` cover a machine for one network: the module takes both, an import the first one.
    #[must_use]
    pub fn is_same_everywhere(&self) -> bool {
        let rules = self.ip2nets(&mut Vec::new());
        Ip2Nets::may_be_passed_over(&rules).is_empty()
    }

    /// Options that kernels are about to remove.
    // [CONF-53]
    fn deprecated(&self) -> Option<String> {
        let given = [
            ("networks", !self.networks.is_empty()),
            ("ip2nets", !self.ip2nets.is_empty()),
            ("routes", !self.routes.is_empty()),
        ];
        let given: Vec<&str> = given
            .iter()
            .filter(|(_, there)| *there)
            .map(|(name, _)| *name)
            .collect();
        (!given.is_empty()).then(|| {
            format!(
                "{}: deprecated options of the module, which kernels after 2.19 do not accept; import this YAML \
                 (`lnetctl import`, /etc/lnet.conf) and remove them from modprobe.d",
                given.join(", ")
            )
        })
    }

    /// Entries of `routes` whose gateways have different priorities; kernels use the last
    /// one.
    fn shared_priorities(&self) -> impl Iterator<Item = String> {
        self.routes.iter().filter_map(|entry| {
            let mut priorities = entry.gateways.iter().map(|gateway| gateway.priority.unwrap_or(0));
            let first = priorities.next()?;
            priorities.any(|priority| priority != first).then(|| {
                format!(
                    "routes: kernels give all gateways of '{entry}' the last priority in the entry; the YAML gives \
                     each its own"
                )
            })
        })
    }
}

/// The network with the interfaces of both rules.
fn both(rule: &Ip2Nets, earlier: &Ip2Nets) -> String {
    let mut all = earlier.clone();
    let more = rule
        .interfaces
        .iter()
        .filter(|name| !earlier.interfaces.contains(name));
    all.interfaces.extend(more.cloned());
    all.spec()
}
