//! An object at a revision, and a change of one.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use rkube_store::Revision;

use crate::label_marks::LabelMarks;
use crate::object::Object;

#[derive(Clone, Debug)]
pub struct Entry {
    pub object: Arc<Object>,
    pub revision: Revision,
    /// The object's own.
    marks: LabelMarks,
}

impl Entry {
    pub fn new(object: Arc<Object>, revision: Revision) -> Entry {
        Entry { marks: object.marks, object, revision }
    }

    /// Whether the object may be one of those that a selector with these marks selects: told without a look at the object.
    pub fn may_be(&self, wanted: LabelMarks) -> bool {
        self.marks.may_be(wanted)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventType {
    Added,
    Modified,
    Deleted,
}

impl EventType {
    /// As watch events name it.
    pub fn name(self) -> &'static str {
        match self {
            EventType::Added => "ADDED",
            EventType::Modified => "MODIFIED",
            EventType::Deleted => "DELETED",
        }
    }
}

/// A change, shared by all who watch.
pub struct CachedEvent {
    pub event_type: EventType,
    pub key: Arc<str>,
    pub object: Arc<Object>,
    pub previous: Option<Entry>,
    pub revision: Revision,
    /// The object in protobuf's envelope, made once for all watchers that want it.
    pub protobuf: OnceLock<Bytes>,
}
