//! Values that go over the wire as text: floating-point numbers, and the length of a regex.

/// The text of a floating-point number.
///
/// Released libraries send `%f`, which loses all but six decimals. This function does the same if `%f` loses nothing.
/// Other numbers get as many digits as they need, in a form that `strtod` reads.
pub(super) fn from_double(number: f64) -> String {
    if number.is_nan() {
        return if number.is_sign_negative() { "-nan".into() } else { "nan".into() };
    }
    if number.is_infinite() {
        return if number < 0.0 { "-inf".into() } else { "inf".into() };
    }
    let fixed = format!("{number:.6}");
    if fixed.parse() == Ok(number) { fixed } else { format!("{number:e}") }
}

/// As [`from_double`], for a `float`.
pub(super) fn from_float(number: f32) -> String {
    if !number.is_finite() {
        return from_double(number.into());
    }
    let fixed = format!("{:.6}", f64::from(number));
    if fixed.parse() == Ok(number) { fixed } else { format!("{number:e}") }
}

/// Parses a number; `None` if the text is not one.
pub(super) fn to_double(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(text).ok()?.trim();
    match text {
        "nan" => Some(f64::NAN),
        "-nan" => Some(-f64::NAN),
        text => text.parse().ok(),
    }
}

/// As [`to_double`], for a `float`, rounded once.
pub(super) fn to_float(text: &[u8]) -> Option<f32> {
    let text = std::str::from_utf8(text).ok()?.trim();
    match text {
        "nan" => Some(f32::NAN),
        "-nan" => Some(-f32::NAN),
        text => text.parse().ok(),
    }
}

/// Length of the regex at the start of `bytes`. A regex has no length prefix.
///
/// The compressed form holds its own size: `blob:`, NUL, `component=<name>:`, NUL, `size=<decimal>:`, NUL, bytes. All other forms
/// are text that ends with a NUL.
pub(super) fn regex_len(bytes: &[u8]) -> Option<usize> {
    let text_len = |from: usize| Some(bytes.get(from..)?.iter().position(|byte| *byte == 0)? + from + 1);
    let first = text_len(0)?;
    if &bytes[..first] != b"blob:\0" {
        return Some(first);
    }
    let second = text_len(first)?;
    let third = text_len(second)?;
    let size = bytes[second..third].strip_prefix(b"size=")?.strip_suffix(b":\0")?;
    let size: usize = std::str::from_utf8(size).ok()?.parse().ok()?;
    third.checked_add(size).filter(|len| *len <= bytes.len())
}
