//! The flags by which several control planes on one store agree on who works: those of kube-controller-manager and
//! kube-scheduler, for both parts.

use anyhow::Context as _;
use clap::{ArgAction, Args};
use rkube_cluster::parts::{Election, Timing};

use crate::flags::GoDuration;

#[derive(Debug, Args)]
#[command(next_help_heading = "Leader election")]
pub struct ElectionFlags {
    /// Run controllers and scheduler only while this process holds their Leases [default: true if the store is an etcd,
    /// which others may share]
    #[arg(long, value_name = "true|false", num_args = 0..=1, default_missing_value = "true", require_equals = true,
          action = ArgAction::Set)]
    pub leader_elect: Option<bool>,

    /// How long others wait after the last renewal that they saw until they take a Lease
    #[arg(long, value_name = "DURATION", default_value = "15s")]
    pub leader_elect_lease_duration: GoDuration,

    /// How long a leader leads after its last renewal
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    pub leader_elect_renew_deadline: GoDuration,

    /// How often a leader renews, and others look
    #[arg(long, value_name = "DURATION", default_value = "2s")]
    pub leader_elect_retry_period: GoDuration,
}

impl ElectionFlags {
    /// None: this process is the only one, or acts as if it was.
    pub fn election(
        &self,
        store_is_shared: bool,
        host_name: &str,
        identity: Option<String>,
    ) -> anyhow::Result<Option<Election>> {
        let election = Election::new(host_name, identity, self.timing()).map_err(anyhow::Error::msg);
        let election = election.context("the times that --leader-elect-… flags give do not go together")?;
        Ok(self.leader_elect.unwrap_or(store_is_shared).then_some(election))
    }

    fn timing(&self) -> Timing {
        Timing {
            lease_duration: self.leader_elect_lease_duration.0,
            renew_deadline: self.leader_elect_renew_deadline.0,
            retry_period: self.leader_elect_retry_period.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        flags: ElectionFlags,
    }

    fn flags(arguments: &[&str]) -> ElectionFlags {
        let line = Line::try_parse_from(["rkube"].iter().chain(arguments)).unwrap_or_else(|error| panic!("{error}"));
        line.flags
    }

    #[test]
    fn who_shares_a_store_elects() {
        assert_eq!(flags(&[]).timing(), Timing::default());
        let elects =
            |arguments: &[&str], shared| flags(arguments).election(shared, "host", None).is_ok_and(|it| it.is_some());
        for (arguments, shared, expected) in [
            (&[][..], true, true),
            (&[], false, false),
            (&["--leader-elect=false"], true, false),
            (&["--leader-elect"], false, true),
        ] {
            assert_eq!(elects(arguments, shared), expected, "{arguments:?} {shared}");
        }
        let refused = flags(&["--leader-elect-lease-duration=5s"]).election(true, "host", None);
        assert!(refused.is_err_and(|error| format!("{error:#}").contains("greater than the renew deadline")));
    }
}
