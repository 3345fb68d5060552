//! The official Python client.

use crate::start;

#[test]
fn it_lists_and_watches() {
    let rkube = start();
    let Some(python) = rkube.python("list_and_watch.py") else { return };
    python.run(&["default"]).says("listed 3").says("watched 2").says("done");
}
