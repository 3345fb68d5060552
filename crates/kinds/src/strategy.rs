//! What is constant in how a kind's objects are written and deleted. It stands in the kind's row.

use rkube_machinery::managed::Reset;

use crate::kind::Part;

/// `..Strategy::DEFAULTS` fills in what most kinds have.
#[derive(Clone, Copy, Debug)]
pub struct Strategy {
    /// What a name must look like.
    pub name_rule: NameRule,
    /// Whether finalizers without a domain must be standard ones.
    pub checks_finalizers: bool,
    /// What of the metadata checks an update repeats after the ones that all kinds share.
    pub repeats_meta: Repeats,
    /// Whether a PUT of an absent object makes it.
    pub create_on_update: bool,
    /// Whether a PUT without resourceVersion overwrites.
    pub unconditional_update: bool,
    /// Whether `metadata.generation` counts changes of anything but metadata and status.
    pub has_generation: bool,
    /// Fields that a write does not own: server-side apply leaves them out.
    pub reset_fields: ResetFields,
    /// Whether a deletion that is done answers with the object instead of a Status.
    pub returns_deleted_object: bool,
    /// Whether a deletion that does not say what becomes of dependents leaves them, as the oldest kinds do.
    pub orphans_dependents: bool,
    /// What clients hear who delete an object without saying what becomes of its dependents; empty: nothing.
    pub deletion_warning: &'static str,
    /// Whether a deletion marks the object in a step of its own, as namespaces are; only the words for preconditions
    /// that do not hold show it.
    pub marks_before_deletion: bool,
    /// Annotations that stand for fields: whole objects show them, their metadata alone does not.
    pub field_annotations: &'static [&'static str],
}

impl Strategy {
    pub const DEFAULTS: Strategy = Strategy {
        name_rule: NameRule::Subdomain,
        checks_finalizers: true,
        repeats_meta: Repeats::all(Repeat::Update),
        create_on_update: false,
        unconditional_update: true,
        has_generation: false,
        reset_fields: ResetFields::NONE,
        returns_deleted_object: false,
        orphans_dependents: false,
        deletion_warning: "",
        marks_before_deletion: false,
        field_annotations: &[],
    };
}

/// What names of a kind must look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// A DNS subdomain (RFC 1123).
    Subdomain,
    /// As `Subdomain`; what a generated name begins with only has to fit in a path.
    LongName,
    /// A DNS label (RFC 1123).
    Label,
    /// A DNS label that begins with a letter (RFC 1035).
    Label1035,
    /// An IP address in its canonical form.
    IpAddress,
    /// Anything that can stand as one segment of a path.
    PathSegment,
    /// A key of a ConfigMap.
    ConfigMapKey,
    /// What the kind's own rules say; where they found nothing wrong, as `PathSegment`.
    Own,
    /// As `PathSegment`; metadata is looked at only where the kind's own rules found nothing wrong.
    Common,
}

/// Which checks of metadata an update runs a second time. Only the causes of an error show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    Nothing,
    /// What a new object must have, before the kind's own rules.
    New,
    /// What a change may not do.
    Update,
    /// That before the kind's own rules, and what a new object must have after them.
    Whole,
    /// What a new object must have and what a change may not do, both before the kind's own rules.
    WholeFirst,
    /// The same two in the other order.
    UpdateFirst,
    /// What a new object must have before the kind's own rules, and what a change may not do after them.
    WholeAround,
}

/// By what is written.
#[derive(Clone, Copy, Debug)]
pub struct Repeats {
    pub main: Repeat,
    pub status: Repeat,
    /// Any other subresource.
    pub other: Repeat,
}

impl Repeats {
    pub const fn all(repeat: Repeat) -> Repeats {
        Repeats { main: repeat, status: repeat, other: repeat }
    }

    pub fn of(&self, part: Part) -> Repeat {
        match part {
            Part::Main => self.main,
            Part::Status => self.status,
            Part::Other(_) => self.other,
        }
    }
}

/// Fields that writers of an object, of its status and of its other subresources do not own, as paths.
#[derive(Clone, Copy, Debug)]
pub struct ResetFields {
    pub main: Reset<'static>,
    pub status: Reset<'static>,
    /// Any other subresource.
    pub other: Reset<'static>,
}

impl ResetFields {
    pub const NONE: ResetFields = ResetFields { main: Reset::Nothing, status: Reset::Nothing, other: Reset::Nothing };

    /// The object's writers own no status, the status' writers own no spec.
    pub const STATUS: ResetFields =
        ResetFields { main: Reset::Fields(&[&["status"]]), status: Reset::Fields(&[&["spec"]]), other: Reset::Nothing };

    /// The status' writers own no metadata either.
    pub const STATUS_ALONE: ResetFields =
        ResetFields { status: Reset::Fields(&[&["metadata"], &["spec"]]), ..ResetFields::STATUS };

    pub fn of(&self, part: Part) -> Reset<'static> {
        match part {
            Part::Main => self.main,
            Part::Status => self.status,
            Part::Other(_) => self.other,
        }
    }
}
