//! Parses changes in the form that a command line takes.

use lnet_core::Route;
use lnet_policy::{Action, Priority, Profile, Rule, RuleText, parse_index};
use lnet_types::{Net, Nid};

use super::{Change, ChangeError, Parameter, Target};

const NID: &str = "a NID such as 10.0.0.1@tcp";
const RULE: &str = "a rule such as '--src tcp --priority 0' (src, dst, rte, priority, idx)";
const ROUTE: &str =
    "a route such as tcp5=10.0.0.9@tcp, with ',hop=N' and ',priority=N' where needed";
const PARAMETER: &str = "health_sensitivity=N, retry_count=N, transaction_timeout=N, numa_range=N, \
                         rule.IDX=PRIORITY or route.NET.GATEWAY=PRIORITY";

impl Target {
    /// Returns a NID if the text is one with an `@`; any other text is the name of a system interface.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let nid = text.parse().ok().filter(|_| text.contains('@'));
        nid.map_or_else(|| Self::Interface(text.to_owned()), Self::Nid)
    }
}

impl Change {
    /// Parses `NID=HEALTH`.
    ///
    /// # Errors
    ///
    /// [`ChangeError::Unreadable`], like every parser here.
    pub fn health(text: &str) -> Result<Self, ChangeError> {
        let expected = "NID=HEALTH with a health of 0 to 1000";
        let unreadable = || ChangeError::unreadable(text, expected);
        let (nid, health) = text.split_once('=').ok_or_else(unreadable)?;
        let health = number::<u16>(health).filter(|&health| health <= 1000);
        Ok(Self::Health(
            self::nid(nid)?,
            health.ok_or_else(unreadable)?,
        ))
    }

    /// Parses a rule in the words of `lnetctl udsp add`; the dashes are optional.
    ///
    /// # Errors
    ///
    /// [`ChangeError::Unreadable`]; [`ChangeError::Rule`] if the text describes no valid rule.
    pub fn add_rule(text: &str, profile: Profile) -> Result<Self, ChangeError> {
        let unreadable = || ChangeError::unreadable(text, RULE);
        let words: Vec<&str> = text
            .split_whitespace()
            .flat_map(|word| word.splitn(2, '='))
            .collect();
        let mut rule = RuleText::default();
        let (mut priority, mut index) = (None, None);
        for pair in words.chunks(2) {
            let &[key, value] = pair else {
                return Err(unreadable());
            };
            match key.trim_start_matches('-') {
                "src" | "s" => rule.src = Some(value),
                "dst" | "d" => rule.dst = Some(value),
                "rte" | "r" => rule.rte = Some(value),
                "priority" | "p" => priority = Some(value),
                "idx" | "i" => index = Some(value),
                _ => return Err(unreadable()),
            }
        }
        let refused = |error: lnet_policy::PolicyError| ChangeError::Rule(error.to_string());
        let priority = priority
            .map(str::parse::<Priority>)
            .transpose()
            .map_err(refused)?;
        rule.action = priority.map(Action::Priority);
        let index = index.map(parse_index).transpose().map_err(refused)?;
        let rule = Rule::from_text(&rule, profile).map_err(refused)?;
        Ok(Self::AddRule(Box::new(rule), index))
    }

    /// Parses the index of a rule to delete.
    ///
    /// # Errors
    ///
    /// [`ChangeError::Unreadable`].
    pub fn delete_rule(text: &str) -> Result<Self, ChangeError> {
        let index = parse_index(text);
        let unreadable = |_| ChangeError::unreadable(text, "the index of a rule");
        index.map(Self::DeleteRule).map_err(unreadable)
    }

    /// Parses `NID` or `NID=INTERFACE`.
    ///
    /// # Errors
    ///
    /// [`ChangeError::Unreadable`].
    pub fn add_ni(text: &str) -> Result<Self, ChangeError> {
        let (nid, interface) = text.split_once('=').unzip();
        let nid = self::nid(nid.unwrap_or(text))?;
        Ok(Self::AddNi(nid, interface.map(str::to_owned)))
    }

    /// Parses `NET=NID`: the net is added with its first NI, whose NID must be on that net.
    ///
    /// # Errors
    ///
    /// [`ChangeError::Unreadable`].
    pub fn add_net(text: &str) -> Result<Self, ChangeError> {
        let expected = "NET=NID with a NID on that net, such as tcp1=10.1.0.1@tcp1";
        let unreadable = || ChangeError::unreadable(text, expected);
        let (net, nid) = text.split_once('=').ok_or_else(unreadable)?;
        let nid = self::nid(nid)?;
        if nid.net() != self::net(net)? {
            return Err(unreadable());
        }
        Ok(Self::AddNi(nid, None))
    }

    /// Parses the NID of a local NI to delete.
    ///
    /// # Errors
    ///
    /// [`ChangeError::Unreadable`].
    pub fn delete_ni(text: &str) -> Result<Self, ChangeError> {
        nid(text).map(Self::DeleteNi)
    }

    /// Parses the name of a local net to delete.
    ///
    /// # Errors
    ///
    /// [`ChangeError::Unreadable`].
    pub fn delete_net(text: &str) -> Result<Self, ChangeError> {
        net(text).map(Self::DeleteNet)
    }

    /// Parses `PEER=NID`.
    ///
    /// # Errors
    ///
    /// [`ChangeError::Unreadable`].
    pub fn add_peer_nid(text: &str) -> Result<Self, ChangeError> {
        let unreadable = || ChangeError::unreadable(text, "PEER=NID, both NIDs");
        let (peer, added) = text.split_once('=').ok_or_else(unreadable)?;
        Ok(Self::AddPeerNid(nid(peer)?, nid(added)?))
    }

    /// Parses a peer's NID to delete.
    ///
    /// # Errors
    ///
    /// [`ChangeError::Unreadable`].
    pub fn delete_peer_nid(text: &str) -> Result<Self, ChangeError> {
        nid(text).map(Self::DeletePeerNid)
    }

    /// Parses `NET=GATEWAY[,hop=N][,priority=N]`.
    ///
    /// # Errors
    ///
    /// [`ChangeError::Unreadable`].
    pub fn add_route(text: &str) -> Result<Self, ChangeError> {
        let unreadable = || ChangeError::unreadable(text, ROUTE);
        let mut parts = text.split(',');
        let (to, by) = parts
            .next()
            .and_then(|part| part.split_once('='))
            .ok_or_else(unreadable)?;
        let (net, gateway) = (self::net(to)?, nid(by)?);
        let mut route = Route {
            net,
            gateway,
            hops: None,
            priority: 0,
        };
        for part in parts {
            match part.split_once('=').ok_or_else(unreadable)? {
                ("hop", value) => {
                    let hops = number(value).filter(|&hops: &u8| hops > 0);
                    route.hops = Some(hops.ok_or_else(unreadable)?);
                }
                ("priority", value) => route.priority = number(value).ok_or_else(unreadable)?,
                _ => return Err(unreadable()),
            }
        }
        Ok(Self::AddRoute(route))
    }

    /// Parses `NET=GATEWAY`.
    ///
    /// # Errors
    ///
    /// [`ChangeError::Unreadable`].
    pub fn delete_route(text: &str) -> Result<Self, ChangeError> {
        let unreadable = || ChangeError::unreadable(text, "NET=GATEWAY");
        let (to, by) = text.split_once('=').ok_or_else(unreadable)?;
        Ok(Self::DeleteRoute(net(to)?, nid(by)?))
    }

    /// Parses `KEY=VALUE`.
    ///
    /// # Errors
    ///
    /// [`ChangeError::Unreadable`].
    pub fn set(text: &str) -> Result<Self, ChangeError> {
        let unreadable = || ChangeError::unreadable(text, PARAMETER);
        let (key, value) = text.split_once('=').ok_or_else(unreadable)?;
        let value: u32 = number(value).ok_or_else(unreadable)?;
        let parameter = match key {
            "health_sensitivity" => {
                let sensitivity = u16::try_from(value).ok().filter(|&value| value <= 1000);
                Parameter::HealthSensitivity(sensitivity.ok_or_else(unreadable)?)
            }
            "retry_count" => Parameter::RetryCount(value),
            "transaction_timeout" => Parameter::TransactionTimeout(value),
            "numa_range" => Parameter::NumaRange(value),
            key => priority(key, value).ok_or_else(unreadable)?,
        };
        Ok(Self::Set(parameter))
    }
}

fn priority(key: &str, value: u32) -> Option<Parameter> {
    if let Some(index) = key.strip_prefix("rule.") {
        return Some(Parameter::RulePriority(parse_index(index).ok()?, value));
    }
    let (to, by) = key.strip_prefix("route.")?.split_once('.')?;
    Some(Parameter::RoutePriority(
        to.parse().ok()?,
        by.parse().ok()?,
        value,
    ))
}

fn nid(text: &str) -> Result<Nid, ChangeError> {
    text.parse().map_err(|_| ChangeError::unreadable(text, NID))
}

fn net(text: &str) -> Result<Net, ChangeError> {
    text.parse()
        .map_err(|_| ChangeError::unreadable(text, "a net such as tcp1"))
}

/// Parses a decimal number. Unlike `from_str`, it accepts no sign.
fn number<T: std::str::FromStr>(text: &str) -> Option<T> {
    text.parse()
        .ok()
        .filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))
}
