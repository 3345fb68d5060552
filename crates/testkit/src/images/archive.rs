//! Packs layers and a configuration into an image, as the tools of the trade do.

use std::io::Write;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use super::{Layer, digest};

/// An image to be packed. What is not said is empty.
#[derive(Clone)]
pub struct ImageBuilder {
    /// The lowest first, as tar archives.
    layers: Vec<Vec<u8>>,
    config: Value,
    names: Vec<String>,
    architecture: String,
    compressed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// As `docker save` did it for ten years.
    Docker,
    Oci,
}

/// As it lies in a registry or a layout: documents and layers by their digests.
pub struct Packed {
    pub manifest: Vec<u8>,
    pub config: Vec<u8>,
    pub layers: Vec<Vec<u8>>,
}

impl Default for ImageBuilder {
    fn default() -> ImageBuilder {
        let architecture = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        };
        ImageBuilder {
            layers: Vec::new(),
            config: json!({}),
            names: Vec::new(),
            architecture: architecture.to_owned(),
            compressed: false,
        }
    }
}

impl ImageBuilder {
    pub fn new() -> ImageBuilder {
        ImageBuilder::default()
    }

    pub fn layer(self, layer: &Layer) -> ImageBuilder {
        self.layer_bytes(layer.bytes())
    }

    pub fn layer_bytes(mut self, layer: Vec<u8>) -> ImageBuilder {
        self.layers.push(layer);
        self
    }

    /// As `Entrypoint`, `Env` and so on.
    pub fn config(mut self, key: &str, value: Value) -> ImageBuilder {
        self.config[key] = value;
        self
    }

    pub fn name(mut self, name: &str) -> ImageBuilder {
        self.names.push(name.to_owned());
        self
    }

    pub fn architecture(mut self, architecture: &str) -> ImageBuilder {
        self.architecture = architecture.to_owned();
        self
    }

    /// With gzip, layer by layer.
    pub fn compressed(mut self) -> ImageBuilder {
        self.compressed = true;
        self
    }

    /// The id that the image will have.
    pub fn id(&self) -> String {
        digest(&self.config_document())
    }

    pub fn pack(&self) -> Packed {
        let config = self.config_document();
        let layers: Vec<Vec<u8>> =
            self.layers.iter().map(|layer| if self.compressed { gzip(layer) } else { layer.clone() }).collect();
        let suffix = if self.compressed { "+gzip" } else { "" };
        let descriptor = |kind: &str, content: &[u8]| json!({"mediaType": format!("application/vnd.oci.image.{kind}"), "digest": digest(content), "size": content.len()});
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": descriptor("config.v1+json", &config),
            "layers": layers.iter().map(|layer| descriptor(&format!("layer.v1.tar{suffix}"), layer)).collect::<Vec<_>>(),
        });
        Packed { manifest: text(&manifest), config, layers }
    }

    /// The whole archive.
    pub fn archive(&self, packing: Packing) -> Vec<u8> {
        match packing {
            Packing::Docker => self.docker(),
            Packing::Oci => oci(&[self]),
        }
    }

    pub fn write(&self, packing: Packing, path: &Path) {
        std::fs::write(path, self.archive(packing)).expect("a test may write where it says");
    }

    fn docker(&self) -> Vec<u8> {
        let Packed { config, layers, .. } = self.pack();
        let config_name = format!("{}.json", hex(&digest(&config)));
        let layer_name = |layer: &[u8]| format!("{}/layer.tar", hex(&digest(layer)));
        let names: Vec<String> = layers.iter().map(|layer| layer_name(layer)).collect();
        let manifest = json!([{"Config": config_name, "RepoTags": self.names, "Layers": names}]);
        // As docker has it: what says what the rest is comes last.
        let mut archive = Layer::new();
        for (name, layer) in names.iter().zip(&layers) {
            archive = archive.file(name, 0o644, layer);
        }
        archive.file(&config_name, 0o644, &config).file("manifest.json", 0o644, &text(&manifest)).bytes()
    }

    fn config_document(&self) -> Vec<u8> {
        let diff_ids: Vec<String> = self.layers.iter().map(|layer| digest(layer)).collect();
        text(&json!({
            "architecture": self.architecture,
            "os": "linux",
            "config": self.config,
            "rootfs": {"type": "layers", "diff_ids": diff_ids},
        }))
    }
}

/// One archive with several images; those of one name are one image for several machines, in an index of their own.
pub fn oci(images: &[&ImageBuilder]) -> Vec<u8> {
    let blob = |content: &[u8]| format!("blobs/sha256/{}", hex(&digest(content)));
    let mut archive = Layer::new().file("oci-layout", 0o644, br#"{"imageLayoutVersion":"1.0.0"}"#);
    let mut groups: Vec<(Vec<String>, Vec<Value>)> = Vec::new();
    for image in images {
        let Packed { manifest, config, layers } = image.pack();
        for content in layers.iter().chain([&config, &manifest]) {
            archive = archive.file(&blob(content), 0o644, content);
        }
        let descriptor = json!({
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "digest": digest(&manifest),
            "size": manifest.len(),
            "platform": {"os": "linux", "architecture": image.architecture},
        });
        match groups.iter_mut().find(|(names, _)| *names == image.names && !names.is_empty()) {
            Some((_, group)) => group.push(descriptor),
            None => groups.push((image.names.clone(), vec![descriptor])),
        }
    }
    let mut manifests = Vec::new();
    for (names, mut group) in groups {
        let mut top = match group.len() {
            1 => group.remove(0),
            _ => {
                let media_type = "application/vnd.oci.image.index.v1+json";
                let index = text(&json!({"schemaVersion": 2, "mediaType": media_type, "manifests": group}));
                archive = archive.file(&blob(&index), 0o644, &index);
                json!({"mediaType": media_type, "digest": digest(&index), "size": index.len()})
            }
        };
        if names.is_empty() {
            manifests.push(top);
            continue;
        }
        for name in names {
            top["annotations"] = json!({"io.containerd.image.name": name});
            manifests.push(top.clone());
        }
    }
    archive.file("index.json", 0o644, &text(&json!({"schemaVersion": 2, "manifests": manifests}))).bytes()
}

pub fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(content).expect("memory takes what is written");
    encoder.finish().expect("memory takes what is written")
}

fn hex(digest: &str) -> &str {
    digest.strip_prefix("sha256:").unwrap_or(digest)
}

fn text(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}
