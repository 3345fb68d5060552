//! How long it takes to check a custom resource, in this process: no server, no network, nothing but the rules.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use rkube_kinds::Kind;
use rkube_kinds::custom::Definition;
use rkube_machinery::{Value, json};
use tokio::time::Instant;

use crate::definitions::{self, Shape};

/// In one measurement: a clock's ticks are nothing beside it.
const TURNS: usize = 2_000;

/// The best of some rounds, in microseconds for an object.
pub fn measure(shape: Shape, rounds: usize) -> Result<f64> {
    let kind = kind(shape)?;
    let object = placed(json::parse(&definitions::object("widgets", "one", shape)).context("an object of ours")?);
    let mut best = f64::MAX;
    for _ in 0..rounds {
        let begun = Instant::now();
        for _ in 0..TURNS {
            let errors = kind.validate_create(std::hint::black_box(&object));
            ensure!(errors.is_empty(), "the object should be right: {errors:?}");
        }
        best = best.min(begun.elapsed().as_secs_f64() * 1e6 / TURNS as f64);
    }
    Ok(best)
}

fn kind(shape: Shape) -> Result<Arc<Kind>> {
    let definition = accepted(&definitions::definition("widgets", shape))?;
    Ok(Definition::read(&definition)?.stored)
}

/// A definition whose names were accepted, as a server does.
pub fn accepted(definition: &[u8]) -> Result<Value> {
    let mut definition = json::parse(definition).context("a definition of ours")?;
    let names = definition.get("spec").get("names").clone();
    definition.object_mut("status").set("acceptedNames", names);
    Ok(definition)
}

/// In a namespace.
pub fn placed(mut object: Value) -> Value {
    object.object_mut("metadata").set("namespace", "bench");
    object
}
