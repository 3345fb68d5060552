//! The kinds of `storage.k8s.io`: how volumes are made, and by which drivers.

mod checks;
pub mod csi_driver;
pub mod csi_node;
pub mod csi_storage_capacity;
pub mod storage_class;
pub mod volume_attachment;
pub mod volume_attributes_class;
