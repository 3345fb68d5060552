//! The flags of simulated nodes, and a word to those who have no nodes at all.

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use rkube_cluster::parts::{LocalPath, NODES_MAX, NodeTemplate};
use rkube_cluster::{Host, Part, SimulatedNodes};

#[derive(Debug, Args)]
pub struct SimulatedNodeFlags {
    /// How many simulated nodes there are: they take pods and say that they run, and run nothing
    #[arg(long, value_name = "COUNT", default_value_t = 0, value_parser = parse_count)]
    pub sim_nodes: usize,

    /// What they are made of: a file with a Node in YAML, whose labels, taints, capacity and annotations are theirs.
    /// `{index}` stands for a node's number
    #[arg(long, value_name = "FILE", requires = "sim_nodes")]
    pub sim_node_template: Option<PathBuf>,
}

fn parse_count(text: &str) -> Result<usize, String> {
    let count: usize = text.parse().map_err(|_| "it is no number".to_owned())?;
    if count <= NODES_MAX { Ok(count) } else { Err(format!("there may be {NODES_MAX} at most")) }
}

impl SimulatedNodeFlags {
    /// Where volumes of theirs would be, if there are any.
    pub fn local_path(&self) -> Option<LocalPath> {
        (self.sim_nodes > 0).then(LocalPath::simulated)
    }

    /// None without any nodes. `ranges_are_given`: somebody gives nodes the ranges of their pods.
    pub fn part(&self, ranges_are_given: bool) -> anyhow::Result<Option<Part>> {
        if self.sim_nodes == 0 {
            return Ok(None);
        }
        let template = match &self.sim_node_template {
            None => NodeTemplate::default(),
            Some(file) => {
                let said = || format!("cannot use --sim-node-template {}", file.display());
                NodeTemplate::parse(&std::fs::read(file).with_context(said)?).with_context(said)?
            }
        };
        Ok(Some(SimulatedNodes { count: self.sim_nodes, template, ranges_are_given }.into()))
    }
}

/// Pods need nodes: who has none is told, once.
pub fn warn_if_none(host: &Host) {
    let nodes = host.server().catalog().resource("", "v1", "nodes");
    if nodes.is_some_and(|nodes| nodes.snapshot().0.is_empty()) {
        tracing::info!("there are no nodes: pods will stay Pending. `--sim-nodes 3` adds nodes that simulate them");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_is_read_or_what_is_wrong_is_said() {
        let flags = |template: Option<PathBuf>| SimulatedNodeFlags { sim_nodes: 1, sim_node_template: template };
        assert!(flags(None).part(true).is_ok_and(|part| part.is_some()));
        let none = SimulatedNodeFlags { sim_nodes: 0, sim_node_template: None };
        assert!(none.part(true).is_ok_and(|part| part.is_none()));
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("node.yaml");
        let error = format!("{:#}", flags(Some(file.clone())).part(true).err().unwrap());
        assert!(error.contains("--sim-node-template") && error.contains("No such file"), "{error}");
        std::fs::write(&file, "kind: Pod").unwrap();
        let error = format!("{:#}", flags(Some(file)).part(true).err().unwrap());
        assert!(error.contains("should be a Node"), "{error}");
        assert_eq!(parse_count("10001"), Err("there may be 10000 at most".to_owned()));
    }
}
