//! Warnings of files of one volume that lie on or inside each other.

use std::fmt;

use rkube_machinery::Value;
use rkube_machinery::field::quote;

/// A file and where it comes from, where that is worth saying.
#[derive(Clone, Copy)]
struct File<'a> {
    path: &'a str,
    source: Option<Source<'a>>,
}

/// What files come from; some have a name.
#[derive(Clone, Copy)]
struct Source<'a> {
    kind: &'static str,
    name: Option<&'a str>,
}

impl fmt::Display for Source<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name {
            Some(name) => write!(formatter, "{} {}", self.kind, quote(name)),
            None => formatter.write_str(self.kind),
        }
    }
}

impl<'a> Source<'a> {
    fn named(kind: &'static str, name: &'a str) -> Self {
        Source { kind, name: Some(name) }
    }

    fn plain(kind: &'static str) -> Self {
        Source { kind, name: None }
    }
}

impl<'a> File<'a> {
    fn new(path: &'a str, source: Option<Source<'a>>) -> Self {
        File { path: path.trim_end_matches('/'), source }
    }

    fn shown(&self) -> String {
        match self.source {
            None => quote(self.path),
            Some(source) => format!("{} ({source})", quote(self.path)),
        }
    }

    fn overlaps(&self, other: &File<'_>) -> bool {
        let inside = |inner: &str, outer: &str| {
            inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        !self.path.is_empty()
            && !other.path.is_empty()
            && (inside(self.path, other.path) || inside(other.path, self.path))
    }
}

pub(super) fn warn(volumes: &[Value], out: &mut Vec<String>) {
    for volume in volumes {
        let (config_map, secret) = (volume.get("configMap"), volume.get("secret"));
        let sources = [
            (config_map, Source::named("ConfigMap", config_map.str("name"))),
            (secret, Source::named("Secret", secret.str("secretName"))),
            (volume.get("downwardAPI"), Source::plain("DownwardAPI")),
        ];
        for (source, shown) in sources {
            let files: Vec<File<'_>> =
                source.list("items").iter().map(|item| File::new(item.str("path"), None)).collect();
            warn_of(volume, shown, &files, out);
        }
        if volume.has("projected") {
            warn_of_projected(volume, out);
        }
    }
}

fn warn_of(volume: &Value, shown: Source<'_>, files: &[File<'_>], out: &mut Vec<String>) {
    for (index, file) in files.iter().enumerate() {
        for other in files[..index].iter().filter(|other| file.overlaps(other)) {
            out.push(format!(
                "volume {} ({shown}): overlapping paths: {} with {}",
                quote(volume.str("name")),
                file.shown(),
                other.shown()
            ));
        }
    }
}

fn warn_of_projected(volume: &Value, out: &mut Vec<String>) {
    let mut files: Vec<File<'_>> = Vec::new();
    for source in volume.get("projected").list("sources") {
        if source.as_map().iter().all(|(_, value)| value.is_null()) {
            out.push(format!("volume {} (Projected) has no sources provided", quote(volume.str("name"))));
            continue;
        }
        add_projected(source, &mut files);
    }
    warn_of(volume, Source::plain("Projected"), &files, out);
}

fn add_projected<'a>(source: &'a Value, files: &mut Vec<File<'a>>) {
    let lists = [("configMap", "ConfigMap"), ("secret", "Secret"), ("downwardAPI", "DownwardAPI")];
    for (field, kind) in lists {
        let given = source.get(field);
        if !given.has("items") {
            continue;
        }
        let shown = if field == "downwardAPI" { Source::plain(kind) } else { Source::named(kind, given.str("name")) };
        files.extend(given.list("items").iter().map(|item| File::new(item.str("path"), Some(shown))));
        return;
    }
    if source.has("serviceAccountToken") {
        let shown = Source::plain("ServiceAccountToken");
        files.push(File::new(source.get("serviceAccountToken").str("path"), Some(shown)));
        return;
    }
    if source.has("clusterTrustBundle") {
        let bundle = source.get("clusterTrustBundle");
        let name = if bundle.has("name") { bundle.str("name") } else { bundle.str("signerName") };
        files.push(File::new(bundle.str("path"), Some(Source::named("ClusterTrustBundle", name))));
        return;
    }
    let certificate = source.get("podCertificate");
    let parts = [
        ("certificateChainPath", "PodCertificate chain"),
        ("keyPath", "PodCertificate key"),
        ("credentialBundlePath", "PodCertificate credential bundle"),
    ];
    for (field, shown) in parts.into_iter().filter(|(field, _)| !certificate.str(field).is_empty()) {
        files.push(File::new(certificate.str(field), Some(Source::plain(shown))));
    }
}
