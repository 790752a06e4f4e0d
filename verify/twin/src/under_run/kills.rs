//! Databases killed at random moments: what they acknowledged is there when they start again.

use super::client::Client;
use super::databases::{Database, Server};
use super::{Settings, Way};
use crate::{Step, differs};
use nearhead_basics::SplitMix;
use std::time::{Duration, Instant};

const STARTS: &str = "a killed program starts again";
const ACKNOWLEDGED: &str = "every acknowledged change is there";

const WHOLE: &str = "the database finds itself whole";

/// Changes in one life at most.
const CHANGES_MAX: u64 = 400;
/// Longest life before the kill.
const LIFE_MAX_MS: u64 = 700;

/// Kills `database` again and again under `run`, and starts it plain and under `run` in turn. Returns
/// how many changes it acknowledged.
///
/// # Errors
/// The first difference, or what the machine lacks.
pub fn run(settings: &Settings, database: &mut dyn Database, kills: u32, seed: u64) -> Step<u64> {
    let mut random = SplitMix::new(seed);
    let mut acknowledged = 0;
    let mut asked = 0;
    database.prepare(settings)?;
    for kill in 0..=kills {
        // Plain after a life under run, and the reverse; also twice the same.
        let way = if kill == 0 || random.below(3) > 0 { Way::Run } else { Way::Plain };
        let mut server = match database.start(settings, way) {
            Ok(server) => server,
            Err(why) if kill > 0 => return differs(STARTS, format!("{way:?}, kill {kill}: {why}")),
            Err(why) => return Err(why.into()),
        };
        let Some(found) = database.count(&mut server.client) else {
            return differs(
                WHOLE,
                format!("{way:?}, kill {kill}, seed {seed}: its own check fails"),
            );
        };
        if found < acknowledged || found > asked {
            let expected = format!("{acknowledged} to {asked} changes, found {found}");
            return differs(ACKNOWLEDGED, format!("{way:?}, kill {kill}, seed {seed}: {expected}"));
        }
        acknowledged = found;
        asked = live(database, &mut server.client, found, &mut acknowledged, &mut random);
        server.kill();
        database.judge(settings)?;
    }
    Ok(acknowledged)
}

/// Makes changes until it is time for the kill. Returns the newest that was asked for.
fn live(
    database: &dyn Database,
    client: &mut Client,
    found: u64,
    acknowledged: &mut u64,
    random: &mut SplitMix,
) -> u64 {
    let end = Instant::now() + Duration::from_millis(random.below(LIFE_MAX_MS));
    let most = found + 1 + random.below(CHANGES_MAX);
    for number in found + 1..=most {
        let answer = client.ask(&database.change(number));
        if answer.is_none_or(|line| line != database.acknowledgement(number)) {
            return number;
        }
        *acknowledged = number;
        if Instant::now() > end {
            break;
        }
    }
    // One more is under way when the kill comes.
    client.send(&database.change(*acknowledged + 1));
    *acknowledged + 1
}

impl Server {
    /// Kills the server as `kill -9` does, and waits for its end.
    pub fn kill(self) {
        let Self { mut process, mut client } = self;
        // It may have ended on its own; what it lost shows in the next life.
        if let Some(process) = process.as_mut().or_else(|| client.program()) {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}
