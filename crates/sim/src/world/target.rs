//! Targets: receivers that the node pushes to over the network, and handlers that run inside it.
//! They succeed, fail, take too long, and say nothing.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use hence_core::effect::Delivery;
use hence_core::input::Report;
use hence_core::time::Millis;
use hence_delivery::Target;
use hence_delivery::local::HandlerFn;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::World;
use super::clock::sleep_ms;
use super::dice::Dice;
use super::faults::Fault;
use crate::history::{How, Received, Stamp, What};

/// The one handler that the node registers.
pub(super) const HANDLER: &str = "mill";

/// A delivery on its way to its receiver, and the way back.
pub(super) struct Parcel {
    delivery: Delivery,
    place: Place,
    back: oneshot::Sender<Report>,
}

/// Where a receiver is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Beyond the network.
    Outside,
    /// In the node's own process: it dies with it.
    Inside,
}

/// The sending end, as the node sees it: the real dispatch calls this.
#[derive(Clone)]
pub(super) struct PushLine {
    parcels: mpsc::UnboundedSender<Parcel>,
}

impl PushLine {
    /// The line to receivers beyond the network.
    pub(super) fn push(world: &World) -> Self {
        PushLine { parcels: world.parcels.clone() }
    }

    /// A handler in the node's own process.
    pub(super) fn handler(world: &World) -> HandlerFn {
        let parcels = world.parcels.clone();
        Arc::new(move |delivery, _deadline| {
            let parcels = parcels.clone();
            async move {
                let (back, report) = oneshot::channel();
                drop(parcels.send(Parcel { delivery, place: Place::Inside, back }));
                report.await.unwrap_or_else(|_| failed("the handler is gone", 0))
            }
            .boxed()
        })
    }
}

impl Target for PushLine {
    fn deliver(&self, delivery: Delivery, deadline: Instant) -> BoxFuture<'_, Report> {
        async move {
            let (back, report) = oneshot::channel();
            drop(self.parcels.send(Parcel { delivery, place: Place::Outside, back }));
            // Nothing comes back from a receiver that is gone: that is a timeout, not an end.
            let answer = async {
                match report.await {
                    Ok(report) => report,
                    Err(_) => std::future::pending().await,
                }
            };
            tokio::time::timeout_at(deadline, answer).await.unwrap_or(Report::TimedOut)
        }
        .boxed()
    }
}

/// Receives, as long as the world lasts.
pub(super) async fn run(world: Arc<World>, mut parcels: mpsc::UnboundedReceiver<Parcel>) {
    let mut dice = world.dice("target");
    while let Some(parcel) = parcels.recv().await {
        let mut dice = Dice::new(dice.word(), "parcel");
        let world = Arc::clone(&world);
        tokio::spawn(async move {
            match parcel.place {
                Place::Outside => receive_outside(&world, &mut dice, parcel).await,
                Place::Inside => receive_inside(&world, &mut dice, parcel).await,
            }
        });
    }
}

async fn receive_outside(world: &World, dice: &mut Dice, parcel: Parcel) {
    let Parcel { delivery, back, .. } = parcel;
    let token = Stamp(delivery.lease.token);
    if !world.travel(None).await || back.is_closed() {
        return;
    }
    world.receive("target", &delivery);
    let Plan { work_ms, how } = Plan::draw(world, dice, &delivery);
    sleep_ms(work_ms).await;
    let Some(how) = how else {
        world.story.fault(Fault::TargetSilent, Some(token));
        return;
    };
    world.story.tell("target", What::Ended { token, how });
    if world.travel(Some(token)).await {
        // A node that closed the connection does not listen.
        let _ = back.send(report(how));
    }
}

async fn receive_inside(world: &World, dice: &mut Dice, parcel: Parcel) {
    let Parcel { delivery, mut back, .. } = parcel;
    let token = Stamp(delivery.lease.token);
    if back.is_closed() {
        return;
    }
    world.receive("handler", &delivery);
    let Plan { work_ms, how } = Plan::draw(world, dice, &delivery);
    // Its process dies, or the node gives it up: it stops where it is.
    let stopped = tokio::select! {
        biased;
        () = back.closed() => true,
        () = sleep_ms(work_ms) => false,
    };
    match how.filter(|_| !stopped) {
        None => {
            world.story.tell("handler", What::Ended { token, how: How::Crashed });
            if !stopped {
                world.story.fault(Fault::TargetSilent, Some(token));
                back.closed().await;
            }
        }
        Some(how) => {
            world.story.tell("handler", What::Ended { token, how });
            let _ = back.send(report(how));
        }
    }
}

/// What a receiver does with a delivery; it says nothing when it is to say nothing.
struct Plan {
    work_ms: u64,
    how: Option<How>,
}

impl Plan {
    fn draw(world: &World, dice: &mut Dice, delivery: &Delivery) -> Self {
        let quick = dice.between(0, 40);
        let timeout = delivery.job.timeout.get();
        if world.is_healed() {
            return Plan { work_ms: 1, how: Some(How::Done) };
        }
        if world.strikes(Fault::TargetSilent, 0.06, dice) {
            return Plan { work_ms: quick, how: None };
        }
        if world.strikes(Fault::TargetSlow, 0.08, dice) {
            world.story.fault(Fault::TargetSlow, None);
            return Plan { work_ms: timeout + dice.between(1, 3_000), how: Some(How::Done) };
        }
        if world.strikes(Fault::TargetFails, 0.3, dice) {
            world.story.fault(Fault::TargetFails, None);
            return Plan { work_ms: quick, how: Some(draw_failure(dice)) };
        }
        Plan { work_ms: quick.min(timeout / 2), how: Some(How::Done) }
    }
}

/// A way to say no.
pub(super) fn draw_failure(dice: &mut Dice) -> How {
    match dice.between(0, 9) {
        0 => How::Hopeless,
        1..=3 => How::Failed { retry_after_ms: dice.between(1, 20_000) },
        _ => How::Failed { retry_after_ms: 0 },
    }
}

fn report(how: How) -> Report {
    match how {
        How::Failed { retry_after_ms } => failed("not now", retry_after_ms),
        How::Hopeless => {
            Report::Failed { reason: "never".into(), retry_after: None, permanent: true }
        }
        How::Done | How::Released | How::Crashed | How::CrashedDone => {
            Report::Succeeded { result: None }
        }
    }
}

fn failed(reason: &str, retry_after_ms: u64) -> Report {
    let retry_after = (retry_after_ms > 0).then(|| Millis::new(retry_after_ms));
    Report::Failed { reason: reason.into(), retry_after, permanent: false }
}

impl World {
    /// A delivery arrived, says whoever it arrived at.
    pub(super) fn receive(&self, by: &str, delivery: &Delivery) {
        let Delivery { job, lease, .. } = delivery;
        let occurrence = job.occurrence.as_ref();
        self.story.tell(
            by,
            What::Received(Received {
                job: super::name_text(&job.name),
                number: job.number.0,
                attempt: lease.attempt,
                token: Stamp(lease.token),
                payload: String::from_utf8_lossy(&job.payload.bytes).into_owned(),
                until: lease.until.as_millis(),
                occurrence: occurrence.map(|of| (of.schedule.to_string(), of.at.as_millis())),
            }),
        );
    }
}
