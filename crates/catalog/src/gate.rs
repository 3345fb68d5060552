//! The gate through which new objects of a custom resource come, until its definition is on its way out.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::{RwLock, RwLockReadGuard};

/// Open until it is closed. Who closes it knows afterwards that nobody is inside.
#[derive(Default)]
pub struct Gate {
    inside: RwLock<()>,
    closed: AtomicBool,
}

/// Somebody makes an object.
pub struct Inside<'a> {
    _held: RwLockReadGuard<'a, ()>,
}

impl Gate {
    /// Lets somebody in who makes an object; nobody once it is closed.
    pub async fn enter(&self) -> Option<Inside<'_>> {
        let held = self.inside.read().await;
        (!self.is_closed()).then_some(Inside { _held: held })
    }

    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Lets nobody in any more, and waits until all who are inside have left.
    pub async fn close(&self) {
        self.closed.store(true, Ordering::Release);
        drop(self.inside.write().await);
    }
}
