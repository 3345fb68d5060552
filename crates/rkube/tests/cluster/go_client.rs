//! client-go with protobuf, as Kubernetes' own components speak.

use rkube_testkit::Rkube;

use crate::start;

#[test]
fn it_creates_lists_and_watches_pods_in_protobuf() {
    // Nobody else is to write to the pods.
    let rkube = Rkube::start_with(env!("CARGO_BIN_EXE_rkube"), &["--store=memory", "--no-scheduler"]);
    let Some(program) = rkube.go_program("go-client") else { return };
    program
        .run(&["default"])
        .says("created two")
        .says("listed 2")
        .says("conflict")
        .says("informed")
        .says("deleted two")
        .says("done");
}

#[test]
fn the_dynamic_client_works_on_a_custom_resource() {
    let rkube = start();
    let (Some(program), Some(kubectl)) = (rkube.go_program("dynamic-client"), rkube.kubectl()) else { return };
    crate::custom_resources::define(&kubectl);
    program.run(&["default"]).says("found websites").says("synced").says("add shop").says("delete shop").says("done");
}
