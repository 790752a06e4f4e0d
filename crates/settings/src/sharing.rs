//! Who of bulk and durable writes gives way, if their owner asks for more than the preset does: a target for durable writes, or a share of
//! the disk for bulk. Both at once would be two masters.

use crate::units::Span;
use nearhead_disk::Nanos;
use nearhead_engine::Config;
use nearhead_engine::admission::{Admission, WithShare, WithTarget};
use nearhead_format::Superblock;

/// The largest share of bulk, in percent: durable writes always get on.
pub(crate) const BULK_SHARE_MAX: u8 = 99;

/// What may be asked for.
#[derive(clap::Args, Clone, Copy, Debug, Default)]
pub struct Sharing {
    /// Let bulk give way until 99 of 100 durable writes take no longer than this, as far as the disk can; 0 no target
    /// [default: 0]
    #[arg(long, value_name = "TIME")]
    pub durable_p99: Option<Span>,
    /// Keep so much of the disk's time for large reads and writes, in percent, while there are any: durable writes wait for their turn, a
    /// second at most; 0 no share [default: 0]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=i64::from(BULK_SHARE_MAX)))]
    pub bulk_share: Option<u8>,
}

impl Sharing {
    /// Puts it over what the volume does by itself.
    pub fn configure(self, superblock: &Superblock, config: &mut Config) -> Result<(), String> {
        let p99 = self.durable_p99.map(|span| span.0).filter(|span| *span > Nanos::ZERO);
        let share = self.bulk_share.filter(|share| *share > 0);
        let below = config.admission.boxed();
        let (option, admission): (_, Box<dyn Admission>) = match (p99, share) {
            (None, None) => return Ok(()),
            (Some(p99), None) => ("--durable-p99", Box::new(WithTarget::new(below, p99))),
            (None, Some(share)) => ("--bulk-share", Box::new(WithShare::new(below, share))),
            (Some(_), Some(_)) => {
                return Err(
                    "--bulk-share: expected no --durable-p99 with it, found both: either bulk gives way or durable writes do; leave one out"
                        .to_owned(),
                );
            }
        };
        if superblock.layout.log_count() == 0 {
            return Err(format!(
                "{option}: expected a volume with logs, found one without; leave {option} out"
            ));
        }
        config.admission = admission;
        Ok(())
    }
}
