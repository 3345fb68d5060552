//! Prefers nodes on which CPU and memory would be taken to the same degree, or more so than before.

use super::{Cycle, Plugin, SCORE_MAX, Score};
use crate::snapshot::Node;

pub struct BalancedAllocation;

struct Balance {
    cpu_milli: i64,
    memory: i64,
}

impl Plugin for BalancedAllocation {
    fn name(&self) -> &'static str {
        "NodeResourcesBalancedAllocation"
    }

    fn score<'a>(&self, cycle: &Cycle<'a>) -> Option<Box<dyn Score + 'a>> {
        let requests = &cycle.pod.requests;
        let (cpu_milli, memory) = (requests.cpu_milli.unwrap_or(0), requests.memory.unwrap_or(0));
        // One that asks for nothing changes nothing anywhere.
        (cpu_milli != 0 || memory != 0).then(|| Box::new(Balance { cpu_milli, memory }) as Box<dyn Score>)
    }
}

impl Score for Balance {
    fn score(&self, node: &Node) -> i64 {
        let (cpu, memory) = (&node.cpu_milli, &node.memory);
        let evenness = |cpu_requested: i64, memory_requested: i64| {
            let deviation = if cpu.allocatable == 0 || memory.allocatable == 0 {
                0.0
            } else {
                let of_cpu = (cpu_requested as f64 / cpu.allocatable as f64).min(1.0);
                let of_memory = (memory_requested as f64 / memory.allocatable as f64).min(1.0);
                ((of_cpu - of_memory) / 2.0).abs()
            };
            ((1.0 - deviation) * SCORE_MAX as f64) as i64
        };
        let with = evenness(cpu.requested.wrapping_add(self.cpu_milli), memory.requested.wrapping_add(self.memory));
        let without = evenness(cpu.requested, memory.requested);
        SCORE_MAX / 2 + (SCORE_MAX / 2 + with - without) / 2
    }
}
