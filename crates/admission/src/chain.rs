//! The plugins in their order, asked one after the other.

use rkube_catalog::Object;
use rkube_machinery::{Status, Value};

use crate::{Attributes, Guardian, Plugin, Step};

pub struct Chain {
    plugins: Vec<Box<dyn Plugin>>,
}

impl Chain {
    pub fn new(plugins: Vec<Box<dyn Plugin>>) -> Chain {
        Chain { plugins }
    }

    /// The first phase: plugins may change the object. The first refusal counts. Where a webhook changed it, all are asked
    /// once more.
    pub async fn mutate(&self, attributes: &mut Attributes<'_>, object: &mut Value) -> Result<(), Status> {
        self.round(attributes, object).await?;
        if attributes.rounds.another {
            attributes.rounds.is_second = true;
            self.round(attributes, object).await?;
        }
        Ok(())
    }

    async fn round(&self, attributes: &mut Attributes<'_>, object: &mut Value) -> Result<(), Status> {
        for plugin in &self.plugins {
            if !plugin.handles(attributes) {
                continue;
            }
            match plugin.mutate(attributes, object) {
                Step::Now(done) => done?,
                Step::Later(waiting) => waiting.await?,
            }
        }
        Ok(())
    }

    /// The second phase: plugins see what will be stored. The first refusal counts.
    pub async fn validate(&self, attributes: &mut Attributes<'_>, object: &Value) -> Result<(), Status> {
        for plugin in &self.plugins {
            if !plugin.handles(attributes) {
                continue;
            }
            match plugin.validate(attributes, object) {
                Step::Now(done) => done?,
                Step::Later(waiting) => waiting.await?,
            }
        }
        Ok(())
    }

    /// The object that the new one rests upon. There is one at most, and one plugin that names it.
    pub fn guardian(&self, attributes: &Attributes<'_>) -> Option<Guardian> {
        self.handling(attributes).find_map(|plugin| plugin.guardian(attributes))
    }

    /// Whether the new object may rest upon that one as it is now.
    pub fn check_guardian(&self, attributes: &Attributes<'_>, guardian: Option<&Object>) -> Result<(), Status> {
        self.handling(attributes).try_for_each(|plugin| plugin.check_guardian(attributes, guardian))
    }

    fn handling(&self, attributes: &Attributes<'_>) -> impl Iterator<Item = &dyn Plugin> {
        self.plugins.iter().map(|plugin| &**plugin).filter(|plugin| plugin.handles(attributes))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rkube_access::User;
    use rkube_catalog::Snapshot;

    use super::*;
    use crate::attributes::tests::creation;
    use crate::{Immediate, ImmediatePlugin};

    /// Waits before it changes or refuses something.
    struct Late {
        refuses: bool,
    }

    impl Plugin for Late {
        fn handles(&self, _attributes: &Attributes<'_>) -> bool {
            true
        }

        fn mutate<'a>(&'a self, attributes: &'a mut Attributes<'_>, object: &'a mut Value) -> Step<'a> {
            Step::Later(Box::pin(async move {
                tokio::time::sleep(Duration::from_secs(1)).await;
                attributes.warnings.push("late".to_owned());
                object.set("asked", object.int("asked") + 1);
                if self.refuses { Err(Status::bad_request("no")) } else { Ok(()) }
            }))
        }
    }

    struct AtOnce {
        handles: bool,
    }

    impl ImmediatePlugin for AtOnce {
        fn handles(&self, _attributes: &Attributes<'_>) -> bool {
            self.handles
        }

        fn mutate(&self, _attributes: &mut Attributes<'_>, object: &mut Value) -> Result<(), Status> {
            object.set("asked", object.int("asked") + 10);
            Ok(())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn plugins_are_asked_in_order_and_waited_for() {
        let catalog = Snapshot::unfed(rkube_kinds::all());
        let (served, user) = (catalog.find("", "v1", "pods").unwrap(), User::default());
        let at_once = |handles| Box::new(Immediate(AtOnce { handles })) as Box<dyn Plugin>;
        let late = |refuses| Box::new(Late { refuses }) as Box<dyn Plugin>;
        let table = [
            (vec![at_once(true), at_once(false)], 10, true),
            (vec![at_once(true), late(false), at_once(true)], 21, true),
            (vec![late(false), late(true), at_once(true)], 2, false),
        ];
        for (plugins, asked, admitted) in table {
            let mut attributes = creation(served, &user);
            let mut object = Value::object();
            assert_eq!(Chain::new(plugins).mutate(&mut attributes, &mut object).await.is_ok(), admitted);
            assert_eq!(object.int("asked"), asked);
            assert_eq!(attributes.warnings.len(), asked as usize % 10);
        }
    }
}
