//! `rkube image …`: the images of this machine's node. It works on the same files as a server that runs, beside it.

mod meter;
mod table;

use std::collections::HashSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use rkube_runtime::api::{Credentials, Image};
use rkube_runtime::images::{Error, Registries, Store};

use self::meter::Meter;
use crate::cli::{DataDirectory, ImageCommand};

pub fn run(command: ImageCommand) -> anyhow::Result<()> {
    match command {
        ImageCommand::Load { files, data } => load(&files, &data),
        ImageCommand::Pull { images, credentials, registry_config, data } => {
            let registries = Registries { directory: registry_config, ..Registries::default() };
            pull(&images, credentials.as_deref(), &registries, &data)
        }
        ImageCommand::List { quiet, data } => list(quiet, &data),
        ImageCommand::Remove { images, data } => remove(&images, &data),
        ImageCommand::Prune { data } => prune(&data),
    }
}

fn load(files: &[PathBuf], data: &DataDirectory) -> anyhow::Result<()> {
    let store = open(data)?;
    for file in files {
        let standard_input = file == Path::new("-");
        let path = if standard_input { Path::new("/dev/stdin") } else { file };
        let meter = Meter::new(&file.display().to_string());
        let loaded = store.load_archive(path, &|progress| meter.show(&progress));
        meter.end();
        let loaded = loaded.map_err(explained).with_context(|| format!("cannot load {}", file.display()))?;
        for image in loaded {
            say(&format!("loaded {}", name(&image)))?;
        }
    }
    Ok(())
}

fn pull(
    images: &[String],
    credentials: Option<&str>,
    registries: &Registries,
    data: &DataDirectory,
) -> anyhow::Result<()> {
    let store = open(data)?;
    let credentials = credentials.map(|text| {
        let (username, password) = text.split_once(':').unwrap_or((text, ""));
        Credentials { username: username.to_owned(), password: password.to_owned(), ..Credentials::default() }
    });
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    for image in images {
        let meter = Arc::new(Meter::new(image));
        let shown = meter.clone();
        let progress = Arc::new(move |progress| shown.show(&progress));
        let pulled = runtime.block_on(store.pull(image, credentials.clone(), registries, progress));
        meter.end();
        say(&format!("pulled {}", name(&pulled.map_err(explained)?)))?;
    }
    Ok(())
}

fn list(quiet: bool, data: &DataDirectory) -> anyhow::Result<()> {
    let images = open(data)?.list()?;
    let text = if quiet { images.iter().map(|image| format!("{}\n", image.id)).collect() } else { table::of(&images) };
    write!(std::io::stdout(), "{text}")?;
    Ok(())
}

fn remove(images: &[String], data: &DataDirectory) -> anyhow::Result<()> {
    let store = open(data)?;
    for image in images {
        store.untag(image).map_err(explained).with_context(|| format!("cannot remove {image}"))?;
        say(&format!("removed {image}"))?;
    }
    Ok(())
}

fn prune(data: &DataDirectory) -> anyhow::Result<()> {
    let removed = open(data)?.prune(&HashSet::new()).map_err(explained)?;
    for image in &removed {
        say(&format!("removed {}", name(image)))?;
    }
    let bytes = removed.iter().map(|image| image.size_bytes).sum();
    say(&format!("{} images of {}", removed.len(), table::size(bytes)))
}

fn open(data: &DataDirectory) -> anyhow::Result<Store> {
    let directory = data.path()?.join("images");
    Store::open(&directory).map_err(explained).with_context(|| format!("cannot use {}", directory.display()))
}

/// Files of images belong to all kinds of users: who may not give files away cannot have them.
fn explained(error: Error) -> anyhow::Error {
    let refused = matches!(&error, Error::Io(_, source) if source.kind() == std::io::ErrorKind::PermissionDenied);
    let error = anyhow::Error::from(error);
    if refused && !rustix::process::geteuid().is_root() {
        return error.context("only root can unpack images: try sudo");
    }
    error
}

fn name(image: &Image) -> String {
    let id = table::short(&image.id);
    match image.tags.first().or(image.digests.first()) {
        Some(tag) => format!("{tag} ({id})"),
        None => format!("{id}, which has no name: pods find it as {}", image.id),
    }
}

fn say(line: &str) -> anyhow::Result<()> {
    writeln!(std::io::stdout(), "{line}")?;
    Ok(())
}
