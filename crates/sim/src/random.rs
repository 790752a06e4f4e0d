//! Pseudo-random numbers that are the same everywhere and for ever.
//!
//! Workloads and tests name a seed; the seed must mean the same numbers on every machine and in
//! every later version, so the generator is written down here rather than taken from a library:
//! xoshiro256** 1.0 (Blackman and Vigna, "Scrambled Linear Pseudorandom Number Generators", ACM
//! TOMS 47(4), 2021), its 256 bits of state filled from a 64-bit seed by `SplitMix64` (Steele,
//! Lea and Flood, OOPSLA 2014), as its authors advise. Not for secrets.

/// A seeded stream of numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Random {
    state: [u64; 4],
}

/// One step of `SplitMix64`: advances `state` and returns the next number.
///
/// Good for turning one seed into many (one per workload), because neighbouring seeds give
/// unrelated numbers.
pub fn split_mix_64(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

impl Random {
    /// The stream named by `seed`.
    pub fn new(seed: u64) -> Self {
        let mut filler = seed;
        Self { state: std::array::from_fn(|_| split_mix_64(&mut filler)) }
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
        for chunk in target.chunks_mut(8) {
            chunk.copy_from_slice(&self.next_u64().to_le_bytes()[..chunk.len()]);
        }
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
        let mut state = 1_234_567;
        let expected = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
            16_408_922_859_458_223_821,
        ];
        for number in expected {
            assert_eq!(split_mix_64(&mut state), number);
        }
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
