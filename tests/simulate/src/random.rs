//! Numbers from a seed.

/// A generator of numbers (splitmix64): the same seed gives the same ones.
pub struct Random(u64);

impl Random {
    /// The numbers of a seed.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0) % limit
    }
}

/// A number that depends on each of `parts`, whatever else was asked before. Delays are drawn so: they stay the same where an action is
/// taken out of a script, and do not depend on the order in which a hash table lists connections.
pub fn drawn(parts: &[u64]) -> u64 {
    parts.iter().fold(0x2545_f491_4f6c_dd1d, |state, part| mix(state ^ mix(part.wrapping_add(0x9e37_79b9_7f4a_7c15))))
}

/// A number of a text.
pub fn of_text(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |state, byte| (state ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
