//! Amounts of resources as whole numbers: thousandths of cores, bytes, pieces.

use rkube_machinery::Text;
use rkube_machinery::quantity::Quantity;
use smallvec::SmallVec;

/// Amounts beyond this count as this much: products with scores fit, and nobody has so much.
const AMOUNT_MAX: i64 = 1 << 55;

/// A list of resources. What is not named is not there, which is not the same as zero.
///
/// An amount that is no whole number is rounded up before it is added to others; upstream rounds the sum.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    pub cpu_milli: Option<i64>,
    pub memory: Option<i64>,
    pub ephemeral: Option<i64>,
    pub pods: Option<i64>,
    /// Extended resources, huge pages and the like, by name.
    pub scalars: SmallVec<[(Text, i64); 1]>,
}

impl Resources {
    /// Takes up an amount; one that cannot be read, or that nobody schedules by, is left out.
    pub fn read(&mut self, name: &str, text: &str) {
        let Ok(quantity) = Quantity::parse(text) else { return };
        let bounded = |amount: i64| amount.clamp(0, AMOUNT_MAX);
        match name {
            "cpu" => self.cpu_milli = Some(bounded(quantity.milli_value())),
            "memory" => self.memory = Some(bounded(quantity.value())),
            "ephemeral-storage" => self.ephemeral = Some(bounded(quantity.value())),
            "pods" => self.pods = Some(bounded(quantity.value())),
            _ if is_scalar(name) => self.scalars.push((Text::new(name), bounded(quantity.value()))),
            _ => {}
        }
    }

    pub fn add(&mut self, other: &Resources) {
        self.combine(other, i64::saturating_add);
    }

    /// The greater amount of each.
    pub fn max(&mut self, other: &Resources) {
        self.combine(other, i64::max);
    }

    /// The other's amounts replace these.
    pub fn replace(&mut self, other: &Resources) {
        self.combine(other, |_, other| other);
    }

    pub fn is_empty(&self) -> bool {
        *self == Resources::default()
    }

    fn combine(&mut self, other: &Resources, how: fn(i64, i64) -> i64) {
        let both = |left: &mut Option<i64>, right: Option<i64>| match (*left, right) {
            (Some(one), Some(two)) => *left = Some(how(one, two).min(AMOUNT_MAX)),
            (None, Some(_)) => *left = right,
            (_, None) => {}
        };
        both(&mut self.cpu_milli, other.cpu_milli);
        both(&mut self.memory, other.memory);
        both(&mut self.ephemeral, other.ephemeral);
        both(&mut self.pods, other.pods);
        for (name, amount) in &other.scalars {
            match self.scalars.iter_mut().find(|(known, _)| known == name) {
                Some((_, known)) => *known = how(*known, *amount).min(AMOUNT_MAX),
                None => self.scalars.push((name.clone(), *amount)),
            }
        }
    }
}

/// Whether nodes are compared by it, beside the resources that every node has.
fn is_scalar(name: &str) -> bool {
    let is_extended = name.contains('/') && !name.starts_with("requests.");
    is_extended || name.starts_with("hugepages-") || name.starts_with("attachable-volumes-")
}
