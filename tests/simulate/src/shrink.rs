//! Finds the short script in a long one that fails.

use crate::script::Action;

/// Takes out actions as long as the rest still fails (delta debugging): first halves, then ever smaller pieces, then single ones.
pub fn shrink(script: &[Action], fails: impl Fn(&[Action]) -> bool) -> Vec<Action> {
    let mut script = script.to_vec();
    let mut piece = script.len().div_ceil(2).max(1);
    loop {
        let mut at = 0;
        let mut has_shrunk = false;
        while at < script.len() {
            let end = (at + piece).min(script.len());
            let shorter = [&script[..at], &script[end..]].concat();
            if fails(&shorter) {
                script = shorter;
                has_shrunk = true;
            } else {
                at = end;
            }
        }
        if piece == 1 && !has_shrunk {
            return script;
        }
        piece = (piece / 2).max(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_needed_is_left() {
        let script: Vec<Action> = (0..100).map(|milliseconds| Action::Wait { milliseconds }).collect();
        let has = |script: &[Action], n| script.contains(&Action::Wait { milliseconds: n });
        let short = shrink(&script, |script| has(script, 17) && has(script, 83));
        assert_eq!(short, [Action::Wait { milliseconds: 17 }, Action::Wait { milliseconds: 83 }]);
    }
}
