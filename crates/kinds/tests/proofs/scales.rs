//! A scale is made of a few parts of an object: those that it is said to be made of.

use rkube_kinds::{Kind, all};
use rkube_machinery::{Value, json};

use crate::property::for_every_kind;
use crate::{examples, generator};

#[test]
fn examples_are_scaled_by_their_parts() {
    let mut scaled = 0;
    for kind in all().iter().filter(|kind| kind.scale.is_some()) {
        for example in examples::of(kind) {
            agrees(kind, &example.decoded()).unwrap();
            scaled += 1;
        }
    }
    assert!(scaled > 3, "only {scaled} examples have a scale");
}

#[test]
fn the_scale_of_the_parts_is_that_of_the_whole() {
    for_every_kind(
        "scale",
        4,
        |random, kind| vec![generator::any(random, kind)],
        |kind, objects| agrees(kind, &objects[0]),
    );
}

fn agrees(kind: &Kind, object: &Value) -> Result<(), String> {
    let Some(paths) = &kind.scale else { return Ok(()) };
    let parts = json::parse_parts(json::to_string(object).as_bytes(), &paths.sources()).ok_or("not read")?;
    let texts = [&parts, object].map(|object| match paths.scale_of(object) {
        Ok(scale) => json::to_string(&scale),
        Err(error) => error.to_string(),
    });
    if texts[0] == texts[1] { Ok(()) } else { Err(format!("{} of the parts, {} of the whole", texts[0], texts[1])) }
}
