//! Where containers see the volumes of their pod.

use rkube_machinery::Value;
use rkube_machinery::field::{Errors, Path};

use super::checks::{self, Seen, local_descending_path, one_of, require};
use super::volumes::Volumes;

pub(super) fn validate_mounts(path: Path<'_>, container: &Value, volumes: &Volumes<'_>, errors: &mut Errors) {
    let devices = Others::new(container.list("volumeDevices"), "devicePath");
    let mut places = Seen::new();
    for (index, mount) in container.list("volumeMounts").iter().enumerate() {
        let item = path.index(index);
        let (name, place) = (mount.str("name"), mount.str("mountPath"));
        require(mount, item, "name", errors);
        if volumes.find(name).is_none() {
            errors.not_found(item.child("name"), name);
        }
        require(mount, item, "mountPath", errors);
        if !places.add(place) {
            errors.invalid(item.child("mountPath"), place, "must be unique");
        }
        if devices.names.has(name) {
            errors.invalid(item.child("name"), name, "must not already exist in volumeDevices");
        }
        if devices.places.has(place) {
            errors.invalid(item.child("mountPath"), place, "must not already exist as a path in volumeDevices");
        }
        validate_sub_path(path, item, mount, errors);
        if mount.has("mountPropagation") {
            validate_propagation(path.child("mountPropagation"), mount.str("mountPropagation"), container, errors);
        }
        if mount.has("recursiveReadOnly") {
            validate_recursive_read_only(path.child("recursiveReadOnly"), mount, errors);
        }
    }
}

fn validate_sub_path(path: Path<'_>, item: Path<'_>, mount: &Value, errors: &mut Errors) {
    let (sub_path, expression) = (mount.str("subPath"), mount.str("subPathExpr"));
    if !sub_path.is_empty() {
        local_descending_path(path.child("subPath"), sub_path, errors);
    }
    if expression.is_empty() {
        return;
    }
    if !sub_path.is_empty() {
        let words = "subPathExpr and subPath are mutually exclusive";
        errors.invalid(item.child("subPathExpr"), expression, words);
    }
    local_descending_path(path.child("subPathExpr"), expression, errors);
}

fn validate_propagation(path: Path<'_>, mode: &str, container: &Value, errors: &mut Errors) {
    one_of(path, mode, &["Bidirectional", "HostToContainer", "None"], errors);
    if mode == "Bidirectional" && !container.get("securityContext").bool("privileged") {
        errors.forbidden(path, "Bidirectional mount propagation is available only to privileged containers");
    }
}

fn validate_recursive_read_only(path: Path<'_>, mount: &Value, errors: &mut Errors) {
    let mode = mount.str("recursiveReadOnly");
    one_of(path, mode, &["Disabled", "Enabled", "IfPossible"], errors);
    if !matches!(mode, "Enabled" | "IfPossible") {
        return;
    }
    if !mount.bool("readOnly") {
        errors.forbidden(path, "may only be specified when readOnly is true");
    }
    if mount.has("mountPropagation") && mount.str("mountPropagation") != "None" {
        errors.forbidden(path, "may only be specified when mountPropagation is None or not specified");
    }
}

pub(super) fn validate_devices(path: Path<'_>, container: &Value, volumes: &Volumes<'_>, errors: &mut Errors) {
    let mounts = Others::new(container.list("volumeMounts"), "mountPath");
    let (mut places, mut names) = (Seen::new(), Seen::new());
    for (index, device) in container.list("volumeDevices").iter().enumerate() {
        let path = path.index(index);
        let (name, place) = (device.str("name"), device.str("devicePath"));
        require(device, path, "name", errors);
        if names.has(name) {
            errors.invalid(path.child("name"), name, "must be unique");
        }
        match volumes.find(name) {
            None => errors.not_found(path.child("name"), name),
            Some(volume) if !volume.has("persistentVolumeClaim") && !volume.has("ephemeral") => {
                let words = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                errors.invalid(path.child("name"), name, words);
            }
            Some(_) => {}
        }
        require(device, path, "devicePath", errors);
        if places.has(place) {
            errors.invalid(path.child("devicePath"), place, "must be unique");
        }
        if checks::has_backsteps(place) {
            errors.invalid(path.child("devicePath"), place, "can not contain backsteps ('..')");
        } else {
            places.add(place);
        }
        if mounts.names.has(name) {
            errors.invalid(path.child("name"), name, "must not already exist in volumeMounts");
        }
        if mounts.places.has(place) {
            errors.invalid(path.child("devicePath"), place, "must not already exist as a path in volumeMounts");
        }
        if !name.is_empty() {
            names.add(name);
        }
    }
}

/// What the items of the other list are called, and where they are; of items with the same name the last one counts.
struct Others<'a> {
    names: Seen<&'a str>,
    places: Seen<&'a str>,
}

impl<'a> Others<'a> {
    fn new(items: &'a [Value], field: &str) -> Self {
        let mut others = Others { names: Seen::new(), places: Seen::new() };
        for item in items.iter().rev() {
            if others.names.add(item.str("name")) {
                others.places.add(item.str(field));
            }
        }
        others
    }
}
