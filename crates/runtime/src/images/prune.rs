//! Removes what nobody uses. When a full disk asks for it, and which image goes first then, is the kubelet's to say.

use std::collections::HashSet;

use super::store::Store;
use super::{Result, snapshots};
use crate::api::Image;

impl Store {
    /// Removes all images that no container uses, nor the caller names, nor is pinned; says which.
    pub fn prune(&self, in_use: &HashSet<String>) -> Result<Vec<Image>> {
        let of_containers = snapshots::images_in_use(self)?;
        let is_unused =
            |image: &Image| !image.pinned && !in_use.contains(&image.id) && !of_containers.contains(&image.id);
        let removed: Vec<Image> = self.list()?.into_iter().filter(is_unused).collect();
        for image in &removed {
            self.remove(&image.id)?;
        }
        Ok(removed)
    }
}
