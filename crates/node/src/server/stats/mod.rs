//! What the machine, pods and containers use: read when somebody asks, kept for a moment, told in several forms.
//!
//! [`machine`] reads `/proc`, [`sample`] puts it together with what the runtime says and keeps what rates are counted from.
//! [`summary`] is the form of `/stats/summary`, [`exposition`] that of the metrics.

mod exposition;
mod machine;
mod metrics;
mod sample;
mod summary;

pub use metrics::{cadvisor, kubelet, probes, resource};
pub use sample::{Figures, Rates, Sample};
pub use summary::summary;
