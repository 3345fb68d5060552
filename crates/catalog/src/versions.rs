//! The versions of a custom resource, and how objects get from one to another.
//!
//! What is read from the store is pruned and defaulted by the schema of the version that it was stored in, then
//! converted, then pruned by the schema of the version that is asked for. Nothing is defaulted after a conversion, as
//! with upstream, but for what is about to be stored: that is kept as it would be read back.

use std::pin::Pin;
use std::sync::Arc;

use rkube_kinds::Kind;
use rkube_kinds::custom::Definition;
use rkube_machinery::schema::Schema;
use rkube_machinery::schema::structural::{Invalid, sort};
use rkube_machinery::{Status, Value, json};

use crate::object::Object;

/// At most so many objects are converted at once.
pub const CONVERTED_OBJECTS_MAX: usize = 200;
/// At most so many bytes of objects are converted at once, as long as there is more than one.
pub const CONVERTED_BYTES_MAX: usize = 1 << 20;

/// What a [`Converter`] gives back later.
pub type Converted<'a> = Pin<Box<dyn Future<Output = Result<Vec<Value>, Status>> + Send + 'a>>;

/// Turns objects of one version of a custom resource into another. It may take its time, and it may fail.
pub trait Converter: Send + Sync {
    /// The objects in the version of `to`, all of them in the same order. None of them is of that version, and none
    /// has a resource version.
    fn convert<'a>(&'a self, objects: Vec<Value>, to: &'a Kind) -> Converted<'a>;
}

pub(crate) struct Versions {
    stored: Arc<Kind>,
    all: Vec<Arc<Kind>>,
    /// Without one, versions differ in nothing but their name.
    converter: Option<Arc<dyn Converter>>,
}

impl Versions {
    pub(crate) fn of(definition: &Definition, converter: Option<Arc<dyn Converter>>) -> Versions {
        Versions { stored: definition.stored.clone(), all: definition.all().cloned().collect(), converter }
    }

    /// Whether a stored object serves as it is in the version of `to`.
    pub(crate) fn is_same(&self, object: &Object, to: &Arc<Kind>, api_version: &str) -> bool {
        Arc::ptr_eq(to, &self.stored) && object.has_api_version(api_version)
    }

    /// Stored objects in the version of `to`, in batches. Those that are in it already are shared.
    pub(crate) async fn objects(&self, stored: &[Arc<Object>], to: &Arc<Kind>) -> Result<Vec<Arc<Object>>, Status> {
        let api_version = to.api_version();
        let mut found: Vec<Arc<Object>> = Vec::with_capacity(stored.len());
        let mut rest = stored;
        while !rest.is_empty() {
            let (batch, behind) = rest.split_at(batch_len(rest));
            rest = behind;
            let different: Vec<usize> =
                (0..batch.len()).filter(|index| !self.is_same(&batch[*index], to, &api_version)).collect();
            let mut values = Vec::with_capacity(different.len());
            for index in &different {
                values.push(self.as_stored(&batch[*index])?);
            }
            let converted = self.convert(values, to).await?;
            let from = found.len();
            found.extend(batch.iter().cloned());
            for (index, value) in different.iter().zip(&converted) {
                found[from + index] = Arc::new(Object::new(value, to));
            }
            tokio::task::yield_now().await;
        }
        Ok(found)
    }

    /// A stored object as a tree, in the version that it was stored in.
    pub(crate) fn as_stored(&self, object: &Object) -> Result<Value, Status> {
        let mut value = object.value(0);
        let kind = self.find(value.str("apiVersion"))?;
        if !Arc::ptr_eq(kind, &self.stored) {
            kind.schema.modernize(&mut value);
        }
        Ok(value)
    }

    /// Objects of any version in the version of `to`, in the same order.
    pub(crate) async fn convert(&self, mut objects: Vec<Value>, to: &Kind) -> Result<Vec<Value>, Status> {
        let mut different = Vec::new();
        for (index, object) in objects.iter_mut().enumerate() {
            let from = self.find(object.str("apiVersion"))?;
            if from.version != to.version {
                different.push((index, std::mem::take(object)));
            }
        }
        if different.is_empty() {
            return Ok(objects);
        }
        let (places, values): (Vec<usize>, Vec<Value>) = different.into_iter().unzip();
        let converted = match &self.converter {
            Some(converter) => converter.convert(values, to).await?,
            None => values.into_iter().map(|value| renamed(value, to)).collect(),
        };
        if converted.len() != places.len() {
            return Err(failed(format!("{} objects were converted, expected {}", converted.len(), places.len())));
        }
        for (place, value) in places.into_iter().zip(converted) {
            objects[place] = shaped(value, to)?;
        }
        Ok(objects)
    }

    /// An object of any version as it is stored.
    pub(crate) async fn to_storage(&self, value: Value) -> Result<Value, Status> {
        if self.stored.has_api_version(value.str("apiVersion")) {
            return Ok(value);
        }
        // Who owns which fields may be there as text already, which no schema reads.
        let plain = json::parse(json::to_string(&value).as_bytes()).unwrap_or(value);
        let mut converted = self.convert(vec![plain], &self.stored).await?;
        let mut value = converted.pop().unwrap_or_default();
        if let Schema::Structural(schema) = &self.stored.schema {
            schema.set_defaults(&mut value);
            sort(&mut value);
        }
        Ok(value)
    }

    pub(crate) fn find(&self, api_version: &str) -> Result<&Arc<Kind>, Status> {
        let found = self.all.iter().find(|kind| kind.has_api_version(api_version));
        found.ok_or_else(|| failed(format!("request to convert CR from an invalid group/version: {api_version}")))
    }
}

fn renamed(mut value: Value, to: &Kind) -> Value {
    value.set("apiVersion", to.api_version());
    value
}

/// What a conversion made, with the fields of its schema alone.
fn shaped(mut value: Value, to: &Kind) -> Result<Value, Status> {
    sort(&mut value);
    if let Schema::Structural(schema) = &to.schema {
        schema.coerce(&mut value, Invalid::Refuse).map_err(|error| failed(error.to_string()))?;
    }
    Ok(value)
}

/// How many of the objects are converted at once: at least one.
fn batch_len(objects: &[Arc<Object>]) -> usize {
    let mut bytes = 0;
    let fits = |object: &&Arc<Object>| {
        bytes += object.size();
        bytes <= CONVERTED_BYTES_MAX
    };
    objects.iter().take(CONVERTED_OBJECTS_MAX).take_while(fits).count().max(1)
}

/// As upstream answers where storage cannot be read: without a reason.
fn failed(message: String) -> Status {
    Status { code: 500, message, ..Status::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_bounded() {
        let kind = rkube_kinds::find("", "v1", "configmaps").unwrap();
        let object = |size: usize| {
            let mut value = Value::object();
            value.object_mut("data").set("a", "x".repeat(size));
            Arc::new(Object::new(&value, kind))
        };
        assert_eq!(batch_len(&vec![object(1); 1_000]), CONVERTED_OBJECTS_MAX);
        assert_eq!(batch_len(&vec![object(400 << 10); 5]), 2);
        assert_eq!(batch_len(&[object(3 << 20), object(1)]), 1);
    }
}
