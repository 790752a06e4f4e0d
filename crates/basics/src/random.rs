//! Pseudo-random numbers that are the same everywhere and for ever.
//!
//! Workloads, models and tests name a seed; the seed must mean the same numbers on every machine and in every later
//! version, so the generators are written down here rather than taken from a library. [`SplitMix`] has one word of state:
//! power cuts, faults and tests use it. [`Random`] is for workloads and traces, which draw many numbers. Neither may be
//! used for secrets, and neither stream may ever change: seeds in tests, figures and reports name what they gave.

/// What each step of [`SplitMix`] adds: 2^64 divided by the golden ratio, made odd.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// `SplitMix64` (Steele, Lea and Flood, OOPSLA 2014): neighbouring seeds give unrelated numbers.
#[derive(Clone, Debug)]
pub struct SplitMix(u64);

impl SplitMix {
    /// A generator whose sequence `seed` decides.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// The number that would come after `count` others, whatever was drawn in between.
    pub fn nth_u64(mut self, count: u64) -> u64 {
        self.0 = self.0.wrapping_add(count.wrapping_mul(STEP));
        self.next_u64()
    }

    /// A number from 0 to below `limit` (0 if `limit` is 0).
    pub fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(limit)) >> 64) as u64
    }

    /// True with probability one half.
    pub fn coin(&mut self) -> bool {
        is_heads(self.next_u64())
    }

    /// The coin that would come after `count` others, whatever was drawn in between.
    pub fn nth_coin(self, count: u64) -> bool {
        is_heads(self.nth_u64(count))
    }

    /// Fills `target` with random bytes.
    pub fn fill(&mut self, target: &mut [u8]) {
        fill(target, || self.next_u64());
    }
}

fn is_heads(bits: u64) -> bool {
    bits >> 63 == 1
}

fn fill(target: &mut [u8], mut next_u64: impl FnMut() -> u64) {
    for chunk in target.chunks_mut(8) {
        chunk.copy_from_slice(&next_u64().to_le_bytes()[..chunk.len()]);
    }
}

/// `xoshiro256**` 1.0 (Blackman and Vigna, "Scrambled Linear Pseudorandom Number Generators", ACM TOMS 47(4), 2021),
/// its state filled by [`SplitMix`], as its authors advise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Random {
    state: [u64; 4],
}

impl Random {
    /// The stream named by `seed`.
    pub fn new(seed: u64) -> Self {
        let mut filler = SplitMix::new(seed);
        Self { state: std::array::from_fn(|_| filler.next_u64()) }
    }

    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        let [s0, s1, s2, s3] = &mut self.state;
        let result = s1.wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let shifted = *s1 << 17;
        *s2 ^= *s0;
        *s3 ^= *s1;
        *s1 ^= *s2;
        *s0 ^= *s3;
        *s2 ^= shifted;
        *s3 = s3.rotate_left(45);
        result
    }

    /// A number from 0 to `bound - 1`, each equally likely; 0 when `bound` is 0.
    ///
    /// Multiply and reject (Lemire, "Fast Random Integer Generation in an Interval", ACM TOMACS
    /// 29(1), 2019), so there is no bias towards small numbers.
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 {
            return 0;
        }
        let threshold = bound.wrapping_neg() % bound;
        loop {
            let product = u128::from(self.next_u64()) * u128::from(bound);
            if product as u64 >= threshold {
                return (product >> 64) as u64;
            }
        }
    }

    /// A number in `[0, 1)` with 53 random bits.
    pub fn unit_f64(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Whether an event of probability `chance` (0 to 1) happens.
    pub fn happens(&mut self, chance: f64) -> bool {
        self.unit_f64() < chance
    }

    /// Fills `target` with random bytes.
    pub fn fill(&mut self, target: &mut [u8]) {
        fill(target, || self.next_u64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// First outputs of the authors' C code for the state 1, 2, 3, 4.
    #[test]
    fn xoshiro_gives_the_published_numbers() {
        let mut random = Random { state: [1, 2, 3, 4] };
        let expected = [
            11_520,
            0,
            1_509_978_240,
            1_215_971_899_390_074_240,
            1_216_172_134_540_287_360,
            607_988_272_756_665_600,
            16_172_922_978_634_559_625,
            8_476_171_486_693_032_832,
            10_595_114_339_597_558_777,
            2_904_607_092_377_533_576,
        ];
        for (index, number) in expected.into_iter().enumerate() {
            assert_eq!(random.next_u64(), number, "output {index}");
        }
    }

    /// First outputs of the authors' C code for the seed 1234567.
    #[test]
    fn split_mix_gives_the_published_numbers() {
        let mut random = SplitMix::new(1_234_567);
        let expected = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
            16_408_922_859_458_223_821,
        ];
        for (nth, number) in expected.into_iter().enumerate() {
            assert_eq!(SplitMix::new(1_234_567).nth_u64(nth as u64), number);
            assert_eq!(random.next_u64(), number);
        }
    }

    /// Recorded when the generators moved here: seeds of the swarm, of figures and of traces name these streams.
    #[test]
    fn the_streams_of_a_seed_never_change() {
        let mut random = SplitMix::new(7);
        let numbers = [random.next_u64(), random.below(1000), u64::from(random.coin())];
        assert_eq!(numbers, [7_191_089_600_892_374_487, 16, 1]);
        let mut random = Random::new(7);
        let numbers = [random.next_u64(), random.below(1000), random.unit_f64().to_bits()];
        assert_eq!(numbers, [12_923_355_070_828_475_994, 278, 4_605_737_911_394_149_775]);
        let coins: Vec<bool> = (0..8).map(|nth| SplitMix::new(7).nth_coin(nth)).collect();
        assert_eq!(coins, [false, false, true, true, false, false, false, false]);
        let mut bytes = [0; 11];
        random.fill(&mut bytes);
        assert_eq!(bytes, [64, 114, 128, 30, 115, 56, 41, 251, 24, 3, 84]);
    }

    #[test]
    fn numbers_of_split_mix_stay_below_their_limit() {
        let mut random = SplitMix::new(1);
        assert!((0..1000).all(|_| random.below(7) < 7));
        assert_eq!(random.below(0), 0);
    }

    #[test]
    fn numbers_below_a_bound_are_in_range_and_evenly_spread() {
        let mut random = Random::new(7);
        let mut counts = [0_u32; 10];
        for _ in 0..100_000 {
            counts[random.below(10) as usize] += 1;
        }
        // Standard deviation of each count is 95; 500 is more than five of them.
        assert!(counts.iter().all(|&count| count.abs_diff(10_000) < 500), "{counts:?}");
        assert_eq!(random.below(0), 0);
        assert_eq!(random.below(1), 0);
    }

    #[test]
    fn the_unit_interval_excludes_one_and_has_mean_a_half() {
        let mut random = Random::new(11);
        let mean = (0..100_000)
            .map(|_| {
                let number = random.unit_f64();
                assert!((0.0..1.0).contains(&number));
                number
            })
            .sum::<f64>()
            / 100_000.0;
        assert!((mean - 0.5).abs() < 0.005, "{mean}");
        assert!(!random.happens(0.0) && random.happens(1.0));
    }

    #[test]
    fn the_same_seed_fills_the_same_bytes() {
        let (mut left, mut right) = ([0; 13], [0; 13]);
        Random::new(3).fill(&mut left);
        Random::new(3).fill(&mut right);
        assert_eq!(left, right);
        Random::new(4).fill(&mut right);
        assert_ne!(left, right);
    }
}
