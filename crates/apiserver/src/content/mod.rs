//! Content: which form a client wants, reading what it sends, and writing what it gets.

mod body;
mod input;
mod negotiate;
mod output;
mod table;
mod unavailable_form;

pub use body::Body;
pub use input::{Format, Input, drain, read_body};
pub use negotiate::{Accept, Offer, Subject, Transform, accept, accept_status, discovery_accept};
pub use output::{
    Answer, IsStatus, PARTIAL, body_answer, compress, object_answer, raw_answer, raw_status_answer, status_answer,
    unlisted_answer, value_answer,
};
pub use table::{one_row, partial_metadata, table_for, table_head, table_row};
pub use unavailable_form::{UnavailableForm, unavailable_form};

pub const JSON: &str = "application/json";
pub const YAML: &str = "application/yaml";
pub const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
