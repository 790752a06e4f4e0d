//! What a database writes into its log for a transaction of TPC-C, from the benchmark's public tables and nothing else.
//!
//! A row that is changed is logged as what it was and what it is, each from the first column that changes to the last one; a row that is
//! added or deleted is logged whole. That is how Berkeley DB logs pages' items, of which the header is [`RECORD_BYTES`]; indices, page
//! splits and checkpoints are left out. No number here is fitted to the paper's.

use nearhead_basics::Random;

/// In front of each log record: type, transaction, position of the one before, file, page, its position, index, lengths (Berkeley DB's
/// records of added and changed items have 11 to 13 fields of 4 or 8 bytes, and 12 bytes before them).
const RECORD_BYTES: u64 = 64;
/// At the end of a transaction that changed anything: the same header, and the time.
const COMMIT_BYTES: u64 = RECORD_BYTES + 4;
/// Lines of an order, on average, and orders delivered at a time (TPC-C 5.11, clauses 2.4.1.3 and 2.7.4.2).
const LINES: (u64, u64) = (5, 15);
const DISTRICTS: u64 = 10;
const MEAN_LINES: u64 = 10;

/// Bytes of the rows (TPC-C 5.11, table in clause 1.2.1) that are added or deleted.
const HISTORY: u64 = 46;
const ORDER: u64 = 24;
const NEW_ORDER: u64 = 8;
const ORDER_LINE: u64 = 54;
/// Bytes between the first and the last column that change (clause 1.3): a stock's quantity to its remote count, with ten texts of 24 bytes
/// between; year to date of a warehouse or district; next order of a district; balance to delivery count of a customer, and its 500 bytes of data
/// where its credit is bad; carrier of an order; delivery date of a line.
const STOCK_CHANGE: u64 = 4 + 240 + 8 + 4 + 4;
const YEAR_TO_DATE_CHANGE: u64 = 8;
const NEXT_ORDER_CHANGE: u64 = 4;
const CUSTOMER_CHANGE: u64 = 8 + 8 + 4 + 4;
const CUSTOMER_DATA_CHANGE: u64 = CUSTOMER_CHANGE + 500;
const CARRIER_CHANGE: u64 = 4;
const DELIVERED_CHANGE: u64 = 8;

const fn changed(bytes: u64) -> u64 {
    RECORD_BYTES + 2 * bytes
}

const fn whole(bytes: u64) -> u64 {
    RECORD_BYTES + bytes
}

/// A transaction of TPC-C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    NewOrder,
    Payment,
    OrderStatus,
    Delivery,
    StockLevel,
}

impl Kind {
    /// The next one: of a hundred 45, 43, 4, 4 and 4 (clause 5.2.3, the least of each but the first, which has the rest).
    pub(crate) fn next(random: &mut Random) -> Self {
        match random.below(100) {
            0..45 => Self::NewOrder,
            45..88 => Self::Payment,
            88..92 => Self::OrderStatus,
            92..96 => Self::Delivery,
            _ => Self::StockLevel,
        }
    }

    /// Bytes that it writes into the log; none if it only reads.
    pub(crate) fn log_bytes(self, random: &mut Random) -> u64 {
        match self {
            Self::NewOrder => {
                let lines = LINES.0 + random.below(LINES.1 - LINES.0 + 1);
                let line = changed(STOCK_CHANGE) + whole(ORDER_LINE);
                let order = whole(ORDER) + whole(NEW_ORDER) + changed(NEXT_ORDER_CHANGE);
                order + lines * line + COMMIT_BYTES
            }
            Self::Payment => {
                // One customer in ten (clause 4.3.3.1).
                let has_bad_credit = random.below(10) == 0;
                let customer = if has_bad_credit { CUSTOMER_DATA_CHANGE } else { CUSTOMER_CHANGE };
                2 * changed(YEAR_TO_DATE_CHANGE) + changed(customer) + whole(HISTORY) + COMMIT_BYTES
            }
            Self::Delivery => {
                let lines = MEAN_LINES * changed(DELIVERED_CHANGE);
                let order = whole(NEW_ORDER) + changed(CARRIER_CHANGE) + changed(CUSTOMER_CHANGE);
                DISTRICTS * (order + lines) + COMMIT_BYTES
            }
            Self::OrderStatus | Self::StockLevel => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mix_is_that_of_the_benchmark_and_an_order_logs_most_of_all_bytes() {
        let mut random = Random::new(1);
        let (mut counts, mut bytes) = ([0_u64; 5], [0_u64; 5]);
        for _ in 0..100_000 {
            let kind = Kind::next(&mut random);
            counts[kind as usize] += 1;
            bytes[kind as usize] += kind.log_bytes(&mut random);
        }
        for (count, share) in counts.iter().zip([45, 43, 4, 4, 4]) {
            assert!(count.abs_diff(share * 1000) < 600, "{counts:?}");
        }
        let all: u64 = bytes.iter().sum();
        assert!(bytes[Kind::NewOrder as usize] * 2 > all, "{bytes:?}");
        assert_eq!((bytes[Kind::OrderStatus as usize], bytes[Kind::StockLevel as usize]), (0, 0));
    }
}
