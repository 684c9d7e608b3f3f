//! The names of a node map.

use super::{number, take_range};
use crate::model::{Result, Status};

/// Most names that a node map may expand to.
pub const NODE_COUNT_MAX: usize = 1 << 20;
/// Most bytes that all names of a node map may have together.
pub const NODE_BYTES_MAX: usize = 64 << 20;

/// The names of a list separated by commas.
pub(super) fn parse_list(text: &[u8]) -> Result<Vec<Vec<u8>>> {
    let mut names = Names::default();
    if !text.is_empty() {
        for name in text.split(|byte| *byte == b',') {
            names.push(name.to_vec())?;
        }
    }
    Ok(names.list)
}

/// The names inside `pmix[...]`: literal names and `prefix[digits:ranges]suffix`.
pub(super) fn parse_native(mut body: &[u8]) -> Result<Vec<Vec<u8>>> {
    let mut names = Names::default();
    if body.is_empty() {
        return Ok(names.list);
    }
    loop {
        let (item, rest) = split_item(body)?;
        match item.iter().position(|byte| *byte == b'[') {
            Some(open) => names.push_numbered(&item[..open], &item[open + 1..])?,
            None => names.push(item.to_vec())?,
        }
        match rest {
            Some(rest) => body = rest,
            None => return Ok(names.list),
        }
    }
}

/// Splits off the first item of a list at its comma. Commas inside brackets do not separate items.
fn split_item(body: &[u8]) -> Result<(&[u8], Option<&[u8]>)> {
    let mut inside = false;
    for (at, byte) in body.iter().enumerate() {
        match byte {
            b'[' if inside => return Err(Status::ERR_BAD_PARAM),
            b'[' => inside = true,
            b']' if !inside => return Err(Status::ERR_BAD_PARAM),
            b']' => inside = false,
            b',' if !inside => return Ok((&body[..at], Some(&body[at + 1..]))),
            _ => {}
        }
    }
    if inside { Err(Status::ERR_BAD_PARAM) } else { Ok((body, None)) }
}

/// Names, with limits on their count and bytes.
#[derive(Default)]
struct Names {
    list: Vec<Vec<u8>>,
    bytes: usize,
}

impl Names {
    fn push(&mut self, name: Vec<u8>) -> Result<()> {
        self.reserve(1, name.len())?;
        self.list.push(name);
        Ok(())
    }

    /// Checks the limits for names to come, so that a range is refused before it is expanded.
    fn reserve(&mut self, count: usize, len: usize) -> Result<()> {
        self.bytes = count.checked_mul(len).and_then(|sum| sum.checked_add(self.bytes)).ok_or(Status::ERR_BAD_PARAM)?;
        if self.list.len().saturating_add(count) > NODE_COUNT_MAX || self.bytes > NODE_BYTES_MAX {
            return Err(Status::ERR_BAD_PARAM);
        }
        Ok(())
    }

    /// Adds the names of `prefix[digits:ranges]suffix`. `group` is the text after the `[`.
    fn push_numbered(&mut self, prefix: &[u8], group: &[u8]) -> Result<()> {
        let close = group.iter().position(|byte| *byte == b']').ok_or(Status::ERR_BAD_PARAM)?;
        let (group, suffix) = (&group[..close], &group[close + 1..]);
        let colon = group.iter().position(|byte| *byte == b':').ok_or(Status::ERR_BAD_PARAM)?;
        let digits = number(&group[..colon])?.try_into().map_err(|_| Status::ERR_BAD_PARAM)?;
        // Numbers have at most 18 digits; wider padding would only make names long.
        if digits > 64 {
            return Err(Status::ERR_BAD_PARAM);
        }
        for mut text in group[colon + 1..].split(|byte| *byte == b',') {
            let (first, last) = take_range(&mut text)?;
            if !text.is_empty() {
                return Err(Status::ERR_BAD_PARAM);
            }
            let count =
                usize::try_from(last - first).ok().and_then(|n| n.checked_add(1)).ok_or(Status::ERR_BAD_PARAM)?;
            self.reserve(count, prefix.len() + digits + suffix.len())?;
            for number in first..=last {
                let number = format!("{number:0digits$}");
                self.list.push([prefix, number.as_bytes(), suffix].concat());
            }
        }
        Ok(())
    }
}
