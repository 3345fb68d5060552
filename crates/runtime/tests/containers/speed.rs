//! How long things take, in the build of these tests: printed, never asserted.

use std::time::Duration;

use rkube_runtime::api::Runtime;

use crate::{now, world::World};

crate::tests![from_nothing_to_running];

async fn from_nothing_to_running() {
    const ROUNDS: u64 = 20;
    let world = World::new().await;
    let mut sums = [0; 6];
    for round in 0..ROUNDS {
        let start = now();
        let sandbox = world.runtime.run_sandbox(world.sandbox_config(&format!("pod{round}"))).await.unwrap();
        let made = now();
        let id = world.runtime.create_container(&sandbox, world.config(&["wait"])).await.unwrap();
        let created = now();
        world.runtime.start_container(&id).await.unwrap();
        let started = now();
        let command = vec!["/tool".to_owned(), "echo".to_owned()];
        world.runtime.exec_sync(&id, command, Duration::ZERO).await.unwrap();
        let entered = now();
        world.runtime.stop_container(&id, Duration::ZERO).await.unwrap();
        let stopped = now();
        world.runtime.remove_sandbox(&sandbox).await.unwrap();
        let times =
            [made - start, created - made, started - created, entered - started, stopped - entered, now() - stopped];
        sums.iter_mut().zip(times).for_each(|(sum, time)| *sum += time);
    }
    for (name, sum) in ["sandbox", "create", "start", "exec", "stop", "remove"].iter().zip(sums) {
        println!("{name}: {} µs", sum / ROUNDS / 1000);
    }
    world.finish().await;
}
