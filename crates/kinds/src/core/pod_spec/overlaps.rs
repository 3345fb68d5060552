//! Warnings of files of one volume that lie on or inside each other.

use rkube_machinery::Value;
use rkube_machinery::field::quote;

/// A file and where it comes from, where that is worth saying.
#[derive(Clone, PartialEq)]
struct File {
    path: String,
    source: String,
}

impl File {
    fn new(path: &str, source: &str) -> Self {
        File { path: path.trim_end_matches('/').to_owned(), source: source.to_owned() }
    }

    fn shown(&self) -> String {
        match self.source.as_str() {
            "" => quote(&self.path),
            source => format!("{} ({source})", quote(&self.path)),
        }
    }

    fn overlaps(&self, other: &File) -> bool {
        let inside = |inner: &str, outer: &str| {
            inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        !self.path.is_empty()
            && !other.path.is_empty()
            && (inside(&self.path, &other.path) || inside(&other.path, &self.path))
    }
}

pub(super) fn warn(volumes: &[Value], out: &mut Vec<String>) {
    for volume in volumes {
        let named = |kind: &str, name: &str| format!("{kind} {}", quote(name));
        let config_map = volume.get("configMap");
        let secret = volume.get("secret");
        let sources = [
            (config_map, named("ConfigMap", config_map.str("name"))),
            (secret, named("Secret", secret.str("secretName"))),
            (volume.get("downwardAPI"), "DownwardAPI".to_owned()),
        ];
        for (source, shown) in sources {
            let files = source.list("items").iter().map(|item| File::new(item.str("path"), ""));
            warn_of(volume, &shown, files, out);
        }
        if volume.has("projected") {
            warn_of_projected(volume, out);
        }
    }
}

fn warn_of(volume: &Value, shown: &str, files: impl Iterator<Item = File>, out: &mut Vec<String>) {
    let mut seen: Vec<File> = Vec::new();
    for file in files {
        for other in seen.iter().filter(|other| file.overlaps(other)) {
            out.push(format!(
                "volume {} ({shown}): overlapping paths: {} with {}",
                quote(volume.str("name")),
                file.shown(),
                other.shown()
            ));
        }
        seen.push(file);
    }
}

fn warn_of_projected(volume: &Value, out: &mut Vec<String>) {
    let mut files: Vec<File> = Vec::new();
    for source in volume.get("projected").list("sources") {
        if source.as_map().iter().all(|(_, value)| value.is_null()) {
            out.push(format!("volume {} (Projected) has no sources provided", quote(volume.str("name"))));
            continue;
        }
        files.extend(projected_files(source));
    }
    warn_of(volume, "Projected", files.into_iter(), out);
}

fn projected_files(source: &Value) -> Vec<File> {
    let items = |field: &str, shown: &str| -> Vec<File> {
        source.get(field).list("items").iter().map(|item| File::new(item.str("path"), shown)).collect()
    };
    let named = |kind: &str, name: &str| format!("{kind} {}", quote(name));
    if source.get("configMap").has("items") {
        return items("configMap", &named("ConfigMap", source.get("configMap").str("name")));
    }
    if source.get("secret").has("items") {
        return items("secret", &named("Secret", source.get("secret").str("name")));
    }
    if source.get("downwardAPI").has("items") {
        return items("downwardAPI", "DownwardAPI");
    }
    if source.has("serviceAccountToken") {
        return vec![File::new(source.get("serviceAccountToken").str("path"), "ServiceAccountToken")];
    }
    if source.has("clusterTrustBundle") {
        let bundle = source.get("clusterTrustBundle");
        let name = if bundle.has("name") { bundle.str("name") } else { bundle.str("signerName") };
        return vec![File::new(bundle.str("path"), &named("ClusterTrustBundle", name))];
    }
    let certificate = source.get("podCertificate");
    let parts = [
        ("certificateChainPath", "PodCertificate chain"),
        ("keyPath", "PodCertificate key"),
        ("credentialBundlePath", "PodCertificate credential bundle"),
    ];
    let given = parts.into_iter().filter(|(field, _)| !certificate.str(field).is_empty());
    given.map(|(field, shown)| File::new(certificate.str(field), shown)).collect()
}
