//! Firewalls of others that drop what they do not know, as those of Docker and ufw do.
//!
//! A packet has to be accepted by every table that sees it: rules of ours are no help, only such in the table that drops. So two
//! of them go in front of the chain through which packets are forwarded, and one in front of that by which pods reach the host:
//! to the gateway alone, where the API server is. They are found again by their comment.
//!
//! What is done by `iptables` (on nftables, as all distributions have it now) is covered; firewalld, which has its own way of
//! trusting interfaces, and tables that others wrote by hand, are left to their owners.

use crate::config::{Config, LINK_PREFIX};
use crate::netlink::nftables::{self, Expression, Family, FoundChain, Hook, Transaction, Verdict};
use crate::netlink::{Result, Socket};

const TABLE: &str = "filter";
const FORWARD: &str = "FORWARD";
const INPUT: &str = "INPUT";
const COMMENT: &str = "rkube: pods";

/// Lets pods through where they would be dropped. The chains that were changed.
pub fn admit(socket: &mut Socket, config: &Config) -> Result<Vec<FoundChain>> {
    let mut changed = Vec::new();
    for chain in nftables::base_chains(socket)?.into_iter().filter(|chain| chain.drops) {
        let Some((family, hook)) = known(&chain) else { continue };
        if !nftables::rules_known_as(socket, family, TABLE, &chain.name, COMMENT)?.is_empty() {
            continue;
        }
        let mut transaction = Transaction::of(family, TABLE);
        let accept = Expression::Verdict(Verdict::Accept);
        match hook {
            Hook::Forward => {
                transaction.insert_rule(FORWARD, &[Expression::From(LINK_PREFIX), accept], COMMENT);
                let accept = Expression::Verdict(Verdict::Accept);
                transaction.insert_rule(FORWARD, &[Expression::To(LINK_PREFIX), accept], COMMENT);
            }
            _ => {
                let Some(address) = config.gateway(family == Family::Ipv4) else { continue };
                let length = if address.is_ipv4() { 32 } else { 128 };
                let gateway = Expression::Destination(rkube_machinery::names::address::Subnet { address, length });
                transaction.insert_rule(INPUT, &[Expression::From(LINK_PREFIX), gateway, accept], COMMENT);
            }
        }
        transaction.commit(socket, "cannot let pods through the firewall of this host")?;
        changed.push(chain);
    }
    Ok(changed)
}

/// Removes what was inserted, wherever it is, also where nothing is dropped any more.
pub fn withdraw(socket: &mut Socket) -> Result<()> {
    for chain in nftables::base_chains(socket)? {
        let Some((family, _)) = known(&chain) else { continue };
        let mut transaction = Transaction::of(family, TABLE);
        for handle in nftables::rules_known_as(socket, family, TABLE, &chain.name, COMMENT)? {
            transaction.delete_rule(&chain.name, handle);
        }
        transaction.commit(socket, "cannot remove rules from the firewall of this host")?;
    }
    Ok(())
}

/// One of those that `iptables` has.
fn known(chain: &FoundChain) -> Option<(Family, Hook)> {
    let family = chain.family.filter(|family| *family != Family::Inet)?;
    let hook = match chain.name.as_str() {
        FORWARD => Hook::Forward,
        INPUT => Hook::Input,
        _ => return None,
    };
    (chain.table == TABLE && chain.hook == hook as u32).then_some((family, hook))
}
