//! Reports about segments and directories for people: `pmixctl inspect`.
//!
//! It modifies nothing and hides nothing. Of corrupt data it reports as much as can be decoded.

mod report;

use std::fmt::Write as _;
use std::io::Read;
use std::iter;
use std::mem::offset_of;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use crate::codec::ValueRef;
use crate::model::{KeyRef, Rank};
use crate::realm_resolution::{JobLookup, Realm};
use crate::segment::directory::page::{
    DamagedEntry, Entry, PAGE_CAPACITY, PAGES_MAX, PageError, check_header, count_of, first_of, may_be, page_name,
    segment_name,
};
use crate::segment::layout::bytes::{slice_at, u32_at, u64_at};
use crate::segment::layout::error::SegmentError;
use crate::segment::layout::fingerprint::{FINGERPRINT, LAYOUT};
use crate::segment::layout::header::SegmentKind;
use crate::segment::layout::page::{PAGE_LEN, PAGE_MAGIC, PageHeader};
use crate::segment::layout::raw_header::{RawHeader, content_hash};
use crate::segment::read::job_reader::JobReader;
use crate::segment::read::modex_reader::ModexReader;
use crate::segment::read::region::HeapRegion;

pub use report::Report;

/// How much of the values a report has.
#[derive(Clone, Copy, Debug)]
pub struct InspectOptions {
    /// Maximum number of listed rows of each realm, and of listed ranks of each modex segment.
    pub rows_max: u32,
    /// Bytes of a value that are shown.
    pub bytes_max: usize,
}

impl Default for InspectOptions {
    fn default() -> InspectOptions {
        InspectOptions { rows_max: 8, bytes_max: 32 }
    }
}

/// Reports on a segment, even a corrupt one.
pub fn inspect_segment(bytes: &[u8], options: &InspectOptions) -> Report {
    let mut report = Report::map();
    report.add("length", bytes.len() as u64);
    let Some(header) = RawHeader::read(bytes) else {
        report.add("problem", "no segment of this library: too short for a header");
        return report;
    };
    let mut problems: Vec<String> = Vec::new();
    let refused = header.check(bytes).err();
    report.add("header", header_report(&header));
    if let Some(error) = refused.as_ref().filter(|error| error.is_of_other_release()) {
        // What is behind the header is laid out otherwise: values decoded from it would be wrong.
        report.add("problem", error.to_string());
        return report;
    }
    problems.extend(refused.map(|error| error.to_string()));
    report.add("content hash matches", content_hash(bytes) == Some(header.content_hash));
    let region = Box::new(HeapRegion::new(bytes));
    let mut tables_damaged = false;
    let problem = |error: SegmentError| problems.push(error.to_string());
    match SegmentKind::from_code(header.kind) {
        Some(SegmentKind::Job) => match JobReader::open_damaged(region, problem) {
            Ok(reader) => {
                report.add("job", job_report(&reader, options));
                tables_damaged = reader.is_damaged();
            }
            Err(error) => problems.push(error.to_string()),
        },
        Some(SegmentKind::Modex) => match ModexReader::open_damaged(region, problem) {
            Ok(reader) => {
                report.add("modex", modex_report(&reader, options));
                tables_damaged = reader.is_damaged();
            }
            Err(error) => problems.push(error.to_string()),
        },
        None => {}
    }
    if tables_damaged {
        problems.push(SegmentError::Table.to_string());
    }
    problems.dedup();
    if !problems.is_empty() {
        report.add("problems", Report::List(problems.into_iter().map(Report::from).collect()));
    }
    report
}

fn header_report(header: &RawHeader) -> Report {
    let mut report = Report::map();
    report.add("magic", header.magic_ok);
    report.add("format version", header.format_version);
    report.add("features", format!("{:#x}", header.features));
    report.add("optional features", format!("{:#x}", header.features_optional));
    report.add("layout fingerprint", format!("{:#018x}", header.fingerprint));
    let kind = SegmentKind::from_code(header.kind);
    report.add("kind", kind.map_or_else(|| format!("unknown {}", header.kind), |kind| kind.name().to_owned()));
    report.add("namespace", text(&header.nspace));
    report.add("creator", text(&header.creator));
    report.add("total length", header.total_len);
    report.add("content hash", format!("{:#018x}", header.content_hash));
    report.add("table of contents at", header.toc_pos);
    report.add("table of contents length", header.toc_len);
    report
}

fn job_report(reader: &JobReader, options: &InspectOptions) -> Report {
    let mut report = Report::map();
    report.add("processes", reader.proc_count());
    let keys: Vec<KeyRef<'_>> = reader.keys().map(|(key, _)| key).collect();
    for realm in Realm::ALL {
        let mut realm_report = Report::map();
        let rows = reader.rows(realm);
        realm_report.add("rows", rows);
        let mut columns = Report::map();
        for key in &keys {
            if let Some(form) = reader.column_form(key, realm) {
                columns.add(text(key.text()), form);
            }
        }
        realm_report.add("columns", columns);
        let mut values = Report::map();
        for row in 0..rows.min(options.rows_max) {
            let mut row_report = Report::map();
            for key in &keys {
                let value = reader.find_key(key).and_then(|(key, _)| reader.value(realm, row, key));
                if let Some(value) = value {
                    row_report.add(text(key.text()), value_text(&value, options));
                }
            }
            values.add(row.to_string(), row_report);
        }
        realm_report.add("values by row", values);
        if rows > options.rows_max {
            realm_report.add("rows not shown", rows - options.rows_max);
        }
        report.add(format!("{realm:?}").to_lowercase(), realm_report);
    }
    report
}

fn modex_report(reader: &ModexReader, options: &InspectOptions) -> Report {
    let mut report = Report::map();
    report.add("ranks", reader.rank_count());
    report.add("placement", reader.placement_name());
    report.add("shapes", reader.shape_count());
    report.add("keys", Report::List(reader.keys().map(|key| text(key.text()).into()).collect()));
    let mut values = Report::map();
    let mut shown = 0;
    for rank in reader.ranks().take(options.rows_max as usize) {
        shown += 1;
        values.add(rank.to_string(), rank_report(reader, rank, options));
    }
    report.add("values by rank", values);
    if reader.rank_count() > shown {
        report.add("ranks not shown", reader.rank_count() - shown);
    }
    report
}

fn rank_report(reader: &ModexReader, rank: Rank, options: &InspectOptions) -> Report {
    let mut report = Report::map();
    for (key, value) in reader.rank(rank) {
        report.add(text(key.text()), value_text(&value, options));
    }
    report
}

/// Reports on the directory of a namespace, with a report on each live segment.
///
/// # Errors
/// If the directory or its page 0 cannot be read.
pub fn inspect_directory(path: &Path, options: &InspectOptions) -> std::io::Result<Report> {
    let mut report = Report::map();
    let zero = read_file(&path.join(page_name(0)))?;
    report.add("page", page_report(&zero));
    let mut problems = Vec::new();
    let (begin, entries) = read_entries(path, &zero, &mut problems);
    let mut list = Vec::new();
    let mut segments = Report::map();
    for (at, entry) in entries.iter().enumerate() {
        let index = begin + at as u64;
        let entry = match entry {
            Ok(Some(entry)) => entry,
            Ok(None) => {
                list.push(Report::from(format!("{index}: of an unknown kind")));
                continue;
            }
            Err(DamagedEntry) => {
                list.push(Report::from(format!("{index}: damaged")));
                problems.push(Report::from(format!("entry {index}: damaged")));
                continue;
            }
        };
        let mut later = entries[at + 1..].iter().flatten().flatten();
        let next = later.find_map(|new| match new.does_replace(entry.kind, entry.order) {
            true => Some("replaced"),
            false => (new.is_carried && new.has_segment_of(entry)).then_some("carried over to a later page"),
        });
        list.push(entry_line(index, entry, next.unwrap_or("live")).into());
        if next.is_some() {
            continue;
        }
        let name = segment_name(entry.file);
        match read_file(&path.join(&name)) {
            Ok(bytes) => {
                let mut segment = inspect_segment(&bytes, options);
                let is_same = bytes.len() as u64 == entry.len
                    && RawHeader::read(&bytes).is_some_and(|header| header.content_hash == entry.content_hash);
                segment.add("as its entry says", is_same);
                segments.add(name, segment);
            }
            Err(error) => problems.push(Report::from(format!("{name}: {error}"))),
        }
    }
    report.add("entries", Report::List(list));
    report.add("segments", segments);
    if !problems.is_empty() {
        report.add("problems", Report::List(problems));
    }
    Ok(report)
}

/// The entries of all pages that readers need, up to the first page that cannot be read or is of another version; and the number of the
/// first one. Page 0, which is `zero`, is always looked at.
fn read_entries(
    path: &Path,
    zero: &[u8],
    problems: &mut Vec<Report>,
) -> (u64, Vec<Result<Option<Entry>, DamagedEntry>>) {
    let word = |at| u64_at(zero, at).ok();
    let count = word(offset_of!(PageHeader, count)).and_then(count_of).unwrap_or(0);
    let first = word(offset_of!(PageHeader, first)).and_then(first_of).filter(|first| may_be(count, *first));
    if first.is_none() {
        problems.push(Report::from("page-0: impossible number of the first page that is needed, or of entries"));
    }
    let begin = first.unwrap_or(0);
    let mut entries = Vec::new();
    let pages = begin.max(1)..count.div_ceil(PAGE_CAPACITY).min(begin + PAGES_MAX);
    for number in iter::once(0).chain(pages) {
        let page = match number {
            0 => Ok(zero.to_vec()),
            number => read_file(&path.join(page_name(number))),
        };
        match page {
            Ok(page) => {
                let checked = check_page(&page, number);
                if let Err(error) = &checked {
                    problems.push(Report::from(format!("{}: {error}", page_name(number))));
                }
                // Entries of another version are laid out otherwise.
                if matches!(checked, Err(PageError::Version(_))) {
                    break;
                }
                let here = count.saturating_sub(number * PAGE_CAPACITY).min(PAGE_CAPACITY);
                let here = if number < begin { 0 } else { here };
                entries.extend((0..here).map(|index| Entry::in_page(&page, index)));
            }
            Err(error) => {
                problems.push(Report::from(format!("{}: {error}", page_name(number))));
                break;
            }
        }
    }
    if begin > 0 && !matches!(entries.first(), Some(Ok(None | Some(Entry { is_carried: true, .. })))) {
        problems.push(Report::from(format!("{}: it does not begin with a carried entry", page_name(begin))));
    }
    (begin * PAGE_CAPACITY, entries)
}

/// An entry in one line; `state` is what became of its segment.
fn entry_line(index: u64, entry: &Entry, state: &str) -> String {
    let name = segment_name(entry.file);
    let mut line = format!("{index}: {} {name}, {} bytes, place {}", entry.kind.name(), entry.len, entry.order);
    if let Some((first, last)) = entry.replaces {
        let _ = write!(line, ", replaces {first} to {last}");
    }
    if entry.is_carried {
        line.push_str(", carried");
    }
    let _ = write!(line, ", {state}");
    line
}

/// Checks a page as readers do.
///
/// # Errors
/// Why they refuse it.
fn check_page(page: &[u8], number: u64) -> Result<(), PageError> {
    check_header(page.first_chunk().ok_or(PageError::Wrong("length"))?, number)?;
    if page.len() == PAGE_LEN { Ok(()) } else { Err(PageError::Wrong("length")) }
}

fn page_report(page: &[u8]) -> Report {
    let mut report = Report::map();
    report.add("length", page.len() as u64);
    report.add("magic", page.starts_with(&PAGE_MAGIC));
    let number = |at: usize| u32_at(page, at).unwrap_or(0);
    report.add("version", number(offset_of!(PageHeader, version)));
    report.add("creator's process id", number(offset_of!(PageHeader, creator_pid)));
    let len = number(offset_of!(PageHeader, nspace_len)).min(256);
    let nspace = slice_at(page, offset_of!(PageHeader, nspace) as u64, len.into()).unwrap_or(&[]);
    report.add("namespace", text(nspace));
    match u64_at(page, offset_of!(PageHeader, count)).ok().and_then(count_of) {
        Some(count) => report.add("count", count),
        None => report.add("count", "damaged"),
    }
    match u64_at(page, offset_of!(PageHeader, first)).ok().and_then(first_of) {
        Some(0) => {}
        Some(first) => report.add("first page that is needed", first),
        None => report.add("first page that is needed", "damaged"),
    }
    report.add("retired", number(offset_of!(PageHeader, retired)) != 0);
    report
}

/// Reads a regular file; never waits for a pipe of that name.
fn read_file(path: &Path) -> std::io::Result<Vec<u8>> {
    let file = std::fs::OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(std::io::Error::other("not a regular file"));
    }
    let mut bytes = Vec::with_capacity(file.metadata()?.size() as usize);
    (&file).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn text(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

/// A value in one line: its type, then its text.
fn value_text(value: &ValueRef<'_>, options: &InspectOptions) -> String {
    let ty = value.data_type();
    match value {
        ValueRef::Scalar { .. } => match value.to_value() {
            Ok(value) => format!("{value:?}"),
            Err(status) => format!("{ty}: {status}"),
        },
        ValueRef::Str(None) => format!("{ty} NULL"),
        ValueRef::Str(Some(words)) => format!("{ty} \"{}\"", text(words.to_bytes())),
        ValueRef::Bytes { bytes, .. } => bytes_text(&ty.to_string(), bytes, options),
        ValueRef::Ranks(list) => match list.text() {
            Ok(words) => format!("{ty} \"{}\"", text(words.to_bytes())),
            Err(status) => format!("{ty}: {status}"),
        },
        ValueRef::Packed { bytes, .. } => match value.to_value() {
            Ok(value) => format!("{value:?}"),
            Err(status) => bytes_text(&format!("{ty}, not decodable ({status})"), bytes, options),
        },
        ValueRef::Owned(value) => format!("{value:?}"),
    }
}

fn bytes_text(what: &str, bytes: &[u8], options: &InspectOptions) -> String {
    let mut line = format!("{what} {} bytes ", bytes.len());
    for byte in bytes.iter().take(options.bytes_max) {
        let _ = write!(line, "{byte:02x}");
    }
    if bytes.len() > options.bytes_max {
        line.push_str("...");
    }
    line
}

/// Every struct of the format with size, alignment and the offsets of its fields, as this build has them.
pub fn layout_text() -> String {
    let mut text = String::new();
    for (name, size, align, fields) in LAYOUT {
        let _ = writeln!(text, "{name}: {size} bytes, aligned to {align}");
        for (field, offset) in *fields {
            let _ = writeln!(text, "  {offset:4} {field}");
        }
    }
    let _ = writeln!(text, "fingerprint {:#018x}", FINGERPRINT);
    text
}
