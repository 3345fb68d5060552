//! `rkube store save` and `rkube store restore`.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use rkube_store::embedded;

use crate::cli::Store;
use crate::control;
use crate::files;
use crate::lock::Lock;
use crate::stores;

pub fn run(command: Store) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let line = runtime.block_on(async {
        match command {
            Store::Save { file, data } => save(&absolute(&file)?, &data.path()?).await,
            Store::Restore { file, data_dir } => restore(&file, &absolute(&data_dir)?).await,
        }
    })?;
    writeln!(std::io::stdout(), "{line}")?;
    Ok(())
}

/// A running process writes the backup itself, without a pause; else it is read from the directory.
async fn save(file: &Path, data_directory: &Path) -> anyhow::Result<String> {
    let revision = match control::save(data_directory, file).await? {
        Some(revision) => revision,
        None => {
            anyhow::ensure!(
                data_directory.is_dir(),
                "there is no data directory {}: say which with --data-dir DIR",
                data_directory.display()
            );
            let _lock = Lock::take(data_directory)?;
            embedded::save_directory(stores::directory(data_directory), file)
                .await
                .with_context(|| format!("cannot save {} to {}", data_directory.display(), file.display()))?
        }
    };
    Ok(format!("saved revision {revision} to {}", file.display()))
}

async fn restore(file: &Path, data_directory: &Path) -> anyhow::Result<String> {
    files::make_private_directory(data_directory)?;
    let _lock = Lock::take(data_directory)?;
    let revision = embedded::restore(file, stores::directory(data_directory))
        .await
        .with_context(|| format!("cannot restore {} into {}", file.display(), data_directory.display()))?;
    let directory = data_directory.display();
    Ok(format!("restored; start it with: rkube up --data-dir {directory}  (it begins at revision {revision})"))
}

fn absolute(path: &Path) -> anyhow::Result<PathBuf> {
    std::path::absolute(path).with_context(|| format!("cannot use {}", path.display()))
}
