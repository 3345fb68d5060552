//! `--authorization-mode`: who decides what a user may do.

use anyhow::bail;
use rkube_access::authorize::Mode;

use crate::fronts::flags::Given;

pub fn modes(given: &Given) -> anyhow::Result<Vec<Mode>> {
    let mut modes = Vec::new();
    for name in given.list("authorization-mode") {
        let mode = match name.as_str() {
            "Node" => Mode::Node,
            "RBAC" => Mode::Rbac,
            "AlwaysAllow" => Mode::AlwaysAllow,
            "AlwaysDeny" | "ABAC" | "Webhook" => {
                bail!("--authorization-mode={name} is refused: rkube does not have this mode yet")
            }
            _ => bail!("authorization-mode {name:?} is not a valid mode"),
        };
        if modes.contains(&mode) {
            bail!("modes should not be repeated in --authorization-mode");
        }
        modes.push(mode);
    }
    if modes.is_empty() {
        bail!("at least one authorization-mode must be passed");
    }
    Ok(modes)
}
