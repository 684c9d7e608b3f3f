//! The file of a flight recorder: whatever it says, its steps can be told.
//!
//! Input: how to mend the bytes, then the file. The checks of records rarely fit by chance, so that most inputs are mended.
#![no_main]

use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use pmix_dstore::recorder::{FILE_LEN, History, MAGIC, OPEN_COUNT, RECORD_COUNT, VERSION};
use pmix_fuzz::bounded;

/// A history of a file of fixed length.
const HEAP_MAX: usize = 1 << 20;
/// Bytes of the header and of a record.
const BLOCK: usize = FILE_LEN / (1 + RECORD_COUNT + OPEN_COUNT);

fuzz_target!(|input: &[u8]| {
    let [mended, file @ ..] = input else { return };
    let mut file = file.to_vec();
    if mended % 8 > 0 {
        file.resize(FILE_LEN, 0);
        file[..8].copy_from_slice(&MAGIC.to_ne_bytes());
        file[8..16].copy_from_slice(&(u64::from(VERSION) | (RECORD_COUNT as u64) << 32).to_ne_bytes());
        file.chunks_exact_mut(BLOCK).for_each(mend);
    }
    bounded(HEAP_MAX, 1, || {
        let Ok(history) = History::parse(&file) else { return };
        assert!(history.records.len() + history.damaged <= RECORD_COUNT + OPEN_COUNT);
        assert!(history.records.is_sorted_by_key(|record| record.serial));
        let past = history.past();
        assert!(past.open.len() + past.over.len() <= history.records.len());
        for record in &history.records {
            for now in [Duration::ZERO, record.time, Duration::MAX] {
                let words = record.in_words(now).to_string();
                assert!(words.len() < 512 && words.bytes().all(|byte| matches!(byte, b' '..=b'~')), "{words:?}");
            }
        }
    });
});

/// Gives a block the check of its other words.
fn mend(block: &mut [u8]) {
    let (words, check) = block.split_at_mut(BLOCK - 8);
    let words = words.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word));
    let sum = words.fold(MAGIC, |sum, word| (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29));
    check.copy_from_slice(&sum.to_ne_bytes());
}
