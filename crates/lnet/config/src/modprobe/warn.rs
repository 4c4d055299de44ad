//! Warnings for users who convert existing options.

use super::{ModuleOptions, lnd};

impl ModuleOptions {
    /// Warnings about valid options that are deprecated or have an unexpected meaning.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings: Vec<String> = self.deprecated().into_iter().collect();
        warnings.extend(lnd::timeouts(self).map(|option| {
            format!(
                "{option}: nodes of Finerail take the timeout from the YAML, kernel nodes from their module only"
            )
        }));
        warnings.extend(self.shared_priorities());
        warnings
    }

    /// Returns whether a document that lacks none of these options means the same. It does not if the options contradict
    /// each other, or if a node takes one of them from its module only, or in another sense.
    #[must_use]
    pub fn is_same_as_yaml(&self) -> bool {
        let is_one = self.networks.is_empty() || self.ip2nets.is_empty();
        is_one && lnd::timeouts(self).next().is_none() && self.shared_priorities().next().is_none()
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
