//! A record leaves for its place: its header is encoded, and one durable command writes it.

use super::Commit;
use super::packer::padding;
use super::record::Record;
use crate::core::Core;
use crate::disk::dispatch::Purpose;
use crate::failure::Failure;
use crate::placement::{Need, Spot};
use nearhead_disk::{Buffer, BufferMut, Class, Command, Payload};
use nearhead_format::record::RecordHeader;

impl Commit {
    /// Sends the record to its place; also used to send it again elsewhere.
    pub(super) fn issue_record(&mut self, core: &mut Core, mut record: Record, spot: Spot) {
        let log_block = core.logs().block_bytes();
        let blocks = (record.header.record_bytes(log_block) / log_block) as u32;
        let (index, position) = (spot.log_index, spot.block);
        if !core.logs().accepts(index, position, Need { blocks, reserve: 0 }) {
            let problem = format!(
                "no place for a record of {blocks} blocks at block {position} of log {index}"
            );
            return core.fail(Failure::Internal { problem });
        }
        core.logs_mut().promise(index);
        self.placer.record_leaves(core, spot);
        self.rests.begin(core.now());
        record.header.position = position;
        record.blocks = blocks;
        let header = encoded(&record.header, log_block);
        record.journal_at = self.journal_header(core, &header);
        record.pending += 1 + u8::from(record.journal_at.is_some());
        let Some(command) = record_command(core, &record, header) else {
            let problem = format!("log {index} has no block {position}");
            return core.fail(Failure::Internal { problem });
        };
        let bytes = u64::from(blocks) * log_block as u64;
        let stats = core.stats_mut();
        stats.records += 1;
        stats.record_bytes += bytes;
        core.recorded_mut().note_logged(bytes);
        self.in_flight = Some(record);
        core.issue(Class::Durable, Purpose::Record, command);
    }
}

/// A header as it stands in a log.
pub(crate) fn encoded(header: &RecordHeader, log_block_bytes: usize) -> Buffer {
    let mut bytes = BufferMut::zeroed(header.encoded_bytes(log_block_bytes));
    header.encode_into(&mut bytes);
    bytes.freeze()
}

/// The write of the record where its header says that it stands.
pub(super) fn record_command(core: &Core, record: &Record, header: Buffer) -> Option<Command> {
    let RecordHeader { log_index, position, .. } = record.header;
    let offset = core.setup().layout.log_block_offset(log_index, position)?;
    let payload = nearhead_disk::total_len(&record.payload);
    let mut parts = Vec::with_capacity(record.payload.len() + 2);
    parts.push(Payload::Bytes(header));
    parts.extend(record.payload.iter().cloned());
    let padding = padding(payload, core.logs().block_bytes());
    if padding > 0 {
        parts.push(Payload::Zeros(padding));
    }
    let durable = core.flusher().is_needed();
    Some(Command::Write { offset, parts, durable })
}
