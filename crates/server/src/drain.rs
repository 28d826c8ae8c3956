//! The word that the server is going away, heard by everything that waits.

use tokio::sync::watch;

/// Says it.
pub(crate) struct DrainSwitch(watch::Sender<bool>);

/// Hears it.
#[derive(Clone)]
pub(crate) struct Drain(watch::Receiver<bool>);

/// A switch and an ear.
pub(crate) fn drain() -> (DrainSwitch, Drain) {
    let (sender, receiver) = watch::channel(false);
    (DrainSwitch(sender), Drain(receiver))
}

impl DrainSwitch {
    /// From here on nothing new is begun.
    pub(crate) fn begin(&self) {
        self.0.send_replace(true);
    }
}

impl Drain {
    /// Whether it was said.
    pub(crate) fn has_begun(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until it is said, or until nobody can say it any more.
    pub(crate) async fn begun(&self) {
        let mut receiver = self.0.clone();
        // An error means that the switch is gone, and with it the server.
        let _ = receiver.wait_for(|begun| *begun).await;
    }
}
