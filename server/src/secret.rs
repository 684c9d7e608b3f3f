//! The secret of one rank: its process presents it as proof that this server's host started it.

use std::fmt;

use pmix_dstore::model::{Result, Status};

/// 32 random bytes, as 64 hex digits.
#[derive(Clone)]
pub(crate) struct Secret(String);

impl Secret {
    /// A new secret from the kernel, for which no descriptor is needed.
    ///
    /// # Errors
    /// `ERROR` if the kernel gives no random bytes.
    pub fn new() -> Result<Secret> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).map_err(|_| Status::ERROR)?;
        Ok(Secret(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// The number of hex digits.
    pub const LEN: usize = 64;

    /// The secret with these digits; `None` if they are none.
    pub fn of(digits: &[u8]) -> Option<Secret> {
        let is_good =
            digits.len() == Secret::LEN && digits.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        is_good.then(|| Secret(String::from_utf8_lossy(digits).into_owned()))
    }

    /// The hex digits.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Whether `shown` is the secret. Takes constant time, so that the time does not reveal how many bytes match.
    pub fn is(&self, shown: &[u8]) -> bool {
        let own = self.0.as_bytes();
        shown.len() == own.len() && own.iter().zip(shown).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}
