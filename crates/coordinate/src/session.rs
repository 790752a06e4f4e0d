//! The lease's thread: a session with the ensemble, a place in the queue while a permit is wanted, and a new session
//! after any trouble.
//!
//! After an error nothing about the session is believed any more: the permit is gone, the session is let go (a server
//! that still hears us closes it, else it expires, and its znode with it), and a new one is made after a pause that
//! grows up to half a minute. So no request is ever repeated that may have been carried out. Everything asked of a server has
//! a bound in time; the queue is looked at about once a second while a permit is wanted, and not at all otherwise.

use crate::permits::{PREFIX, QUEUE, SNAPSHOTS, Standing, standing, valid_until};
use crate::shared::{Phase, Shared};
use crate::{Config, Identity};
use async_channel::Receiver;
use async_executor::LocalExecutor;
use async_io::Timer;
use futures_lite::future;
use std::rc::Rc;
use std::time::{Duration, Instant};
use zookeeper_client::{Acls, Client, CreateMode, Error, SessionState};

const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// Longest time between two looks at the queue, or at an idle session.
const LOOK_MAX: Duration = Duration::from_secs(1);
/// How long the farewell to an ensemble may take.
const FAREWELL_MAX: Duration = Duration::from_secs(1);

/// Tasks of the client, run by this thread.
struct Tasks(Rc<LocalExecutor<'static>>);

impl spawns_core::Spawn for Tasks {
    fn spawn(&self, task: spawns_core::Task) {
        self.0.spawn(Box::into_pin(task.future)).detach();
    }
}

/// Runs until a stop is asked for.
pub(crate) fn run(
    config: &Config,
    shared: &Shared,
    changes: &Receiver<()>,
    mut tell: impl FnMut(&str),
) {
    let executor = Rc::new(LocalExecutor::new());
    let tasks = Tasks(Rc::clone(&executor));
    let _scope = spawns_core::enter(&tasks);
    let session = Sessions { config, shared, changes };
    async_io::block_on(executor.run(session.until_stopped(&mut tell)));
}

struct Sessions<'a> {
    config: &'a Config,
    shared: &'a Shared,
    changes: &'a Receiver<()>,
}

impl Sessions<'_> {
    async fn until_stopped(&self, tell: &mut dyn FnMut(&str)) {
        let mut pause = PAUSE_MIN;
        while !self.shared.is_stopped() {
            let Err(error) = self.session(&mut pause, tell).await else { return };
            if self.shared.lose(error.to_string()) {
                tell(&format!(
                    "permits for checkpoints: expected a ZooKeeper server that answers at {}, found: {error}; \
                     checkpoints that can wait do wait, needed ones do not; trying again",
                    self.config.servers
                ));
            }
            let end = Instant::now() + pause;
            while !self.shared.is_stopped() && Instant::now() < end {
                self.news_until(end).await;
            }
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// One session; ends well only by a stop.
    async fn session(&self, pause: &mut Duration, tell: &mut dyn FnMut(&str)) -> Result<(), Error> {
        let asked = self.config.session_timeout;
        let mut connector = Client::connector().with_session_timeout(asked).with_fail_eagerly();
        if let Some(Identity { scheme, credentials }) = &self.config.identity {
            connector = connector.with_auth(scheme, credentials.as_bytes());
        }
        let client = within(asked, connector.connect(&self.config.servers)).await?;
        let queue = format!("{}/{QUEUE}", self.config.path);
        let folder = CreateMode::Persistent.with_acls(self.acls());
        within(asked, client.mkdir(&queue, &folder)).await?;
        *pause = PAUSE_MIN;
        if self.shared.reach() {
            tell("permits for checkpoints: a ZooKeeper server answers again");
        }
        let mut place = Place { client, queue, path: &self.config.path, number: None };
        let look = LOOK_MAX.min(place.client.session_timeout() / 8);
        while !self.shared.is_stopped() {
            self.turn(&mut place).await?;
            self.news_until(Instant::now() + look).await;
        }
        place.farewell().await;
        Ok(())
    }

    /// Who may do anything with our znodes.
    fn acls(&self) -> Acls<'static> {
        if self.config.identity.is_some() { Acls::creator_all() } else { Acls::anyone_all() }
    }

    async fn turn(&self, place: &mut Place<'_>) -> Result<(), Error> {
        if place.client.state() != SessionState::SyncConnected {
            return Err(Error::ConnectionLoss);
        }
        if !self.shared.is_wanted() {
            self.shared.stand(Phase::Idle, 0);
            return place.leave().await;
        }
        let number = place.enter(&self.config.holder, self.acls()).await?;
        let sent = Instant::now();
        match place.look(number, self.config.permits).await? {
            Standing::Holds => {
                self.shared.hold(valid_until(sent, place.client.session_timeout()));
            }
            Standing::Waits(ahead) => self.shared.stand(Phase::Waiting, ahead),
            Standing::Gone => {
                place.number = None;
                self.shared.stand(Phase::Waiting, 0);
            }
        }
        Ok(())
    }

    /// Waits until something is wanted otherwise, but no longer than until `end`.
    async fn news_until(&self, end: Instant) {
        let news = async {
            let _ = self.changes.recv().await;
        };
        let time = async {
            Timer::at(end).await;
        };
        future::or(news, time).await;
    }
}

/// A place in the queue, or none.
struct Place<'a> {
    client: Client,
    /// The queue's path.
    queue: String,
    path: &'a str,
    number: Option<i64>,
}

impl Place<'_> {
    fn limit(&self) -> Duration {
        self.client.session_timeout() / 3
    }

    /// The number of our place; takes one if there is none.
    async fn enter(&mut self, holder: &str, acls: Acls<'_>) -> Result<i64, Error> {
        if let Some(number) = self.number {
            return Ok(number);
        }
        let options = CreateMode::EphemeralSequential.with_acls(acls);
        let name = format!("{}/{PREFIX}", self.queue);
        let created = self.client.create(&name, holder.as_bytes(), &options);
        let (_, sequence) = within(self.limit(), created).await?;
        Ok(*self.number.insert(sequence.into_i64()))
    }

    /// How we stand.
    async fn look(&self, number: i64, permits: u32) -> Result<Standing, Error> {
        let names = within(self.limit(), self.client.list_children(&self.queue)).await?;
        let snapshots = format!("{}/{SNAPSHOTS}", self.path);
        let snapshots = match within(self.limit(), self.client.list_children(&snapshots)).await {
            Ok(names) => names.len(),
            Err(Error::NoNode) => 0,
            Err(error) => return Err(error),
        };
        Ok(standing(number, &names, snapshots, permits))
    }

    /// Gives the place up.
    async fn leave(&mut self) -> Result<(), Error> {
        let Some(number) = self.number.take() else { return Ok(()) };
        let name = format!("{}/{PREFIX}{number:010}", self.queue);
        match within(self.limit(), self.client.delete(&name, None)).await {
            Err(Error::NoNode) => Ok(()),
            result => result,
        }
    }

    /// Closes the session, and with it the place, if a server hears it soon.
    async fn farewell(self) {
        let mut states = self.client.state_watcher();
        drop(self.client);
        let closed = async {
            while !matches!(states.changed().await, SessionState::Closed | SessionState::Expired) {}
            Ok(())
        };
        // A session that is not closed expires.
        drop(within(FAREWELL_MAX, closed).await);
    }
}

/// The answer, or an error after `limit`.
async fn within<T>(
    limit: Duration,
    answer: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    let late = async {
        Timer::after(limit).await;
        Err(Error::Timeout)
    };
    future::or(answer, late).await
}
