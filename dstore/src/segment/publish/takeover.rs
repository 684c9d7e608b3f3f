//! A directory whose server was killed, taken over by the server that is started in its place.
//!
//! Readers have its pages and segments mapped, and go on: the pages and the live segments stay what they are. Everything is read as if
//! anybody had written it, though only the server's user can.

use std::ffi::OsStr;
use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, Read};
use std::iter;
use std::mem::offset_of;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{OFlag, open, openat};
use nix::sys::stat::{FileStat, Mode, SFlag, fchmod, fstat};
use nix::unistd::{UnlinkatFlags, geteuid, unlinkat};

use super::abandoned::{Abandoned, is_numbered};
use super::outer::{INNER_NAME, JOURNAL_NEW_NAME, SOCKET_NAME};
use super::page_writer::PageWriter;
use super::publisher::{LiveSegment, Pages as PagesInUse, Published, Publisher};
use crate::fallible_alloc;
use crate::file_ban;
use crate::model::Nspace;
use crate::segment::directory::files::{FileId, kind_of};
use crate::segment::directory::page::{
    Entry, PAGE_CAPACITY, PAGE_PREFIX, SEGMENT_PREFIX, check_header, count_of, first_of, may_be, page_name,
    segment_name,
};
use crate::segment::layout::bytes::{u32_at, u64_at};
use crate::segment::layout::header::SegmentKind;
use crate::segment::layout::page::{PAGE_LEN, PageHeader};
use crate::segment::layout::raw_header::{RawHeader, content_hash};
use crate::segment::read::modex_reader::ModexReader;
use crate::segment::read::region::HeapRegion;

/// What is taken over: the directory, and the published values of ranks, oldest first.
pub type Taken = (Publisher, Vec<(LiveSegment, ModexReader)>);

impl Publisher {
    /// Takes over the directory of this name in `server_tmpdir`, which must be that of `nspace`.
    ///
    /// # Errors
    /// Why it cannot be used: then it is as good as one that is left behind.
    pub fn take_over(
        abandoned: Abandoned,
        server_tmpdir: &Path,
        name: &OsStr,
        nspace: &Nspace,
    ) -> Result<Taken, String> {
        file_ban::check();
        let failed = |action: &'static str| move |error: Errno| format!("{action}: {}", io::Error::from(error));
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let tmpdir = open(server_tmpdir, flags, Mode::empty()).map_err(failed("open the directory around it"))?;
        let (outer, inner) = abandoned.into_parts().ok_or("the server was killed before it made it whole")?;
        let outer_id = FileId::from(&fstat(&outer).map_err(failed("stat"))?);
        let inner_id = FileId::from(&fstat(&inner).map_err(failed("stat"))?);
        let absolute = std::path::absolute(server_tmpdir).map_err(|error| error.to_string())?;
        let outer_name = name.to_str().ok_or("its name is no text")?.to_owned();
        let path = absolute.join(&outer_name).join(INNER_NAME);
        let pages = read_pages(&inner, nspace)?;
        let (live, next_file) = live_entries(&pages)?;
        let mut publisher = Publisher {
            nspace: nspace.clone(),
            tmpdir,
            outer,
            inner,
            outer_name,
            path,
            outer_id,
            inner_id,
            pages: PagesInUse::from_first(pages.first),
            count: pages.count,
            next_file,
            live: Vec::new(),
            others: Vec::new(),
            pid: std::process::id(),
            // Until all is known to be good, nothing is removed.
            is_retired: true,
        };
        let mut readers = Vec::new();
        for entry in live {
            publisher.take_segment(&entry, &mut readers)?;
        }
        for number in pages.numbers() {
            publisher.take_page(number)?;
        }
        publisher.remove_rest()?;
        publisher.is_retired = false;
        Ok((publisher, readers))
    }

    /// Takes a live segment; one with values of ranks is read.
    fn take_segment(&mut self, entry: &Entry, readers: &mut Vec<(LiveSegment, ModexReader)>) -> Result<(), String> {
        let name = segment_name(entry.file);
        let refused = |why: &dyn Display| format!("{name}: {why}");
        let (mut file, stat) = open_own(&self.inner, &name).map_err(|why| refused(&why))?;
        if stat.st_size as u64 != entry.len {
            return Err(refused(&"its length is not that of the entry"));
        }
        let segment = LiveSegment { kind: entry.kind, order: entry.order, len: entry.len };
        if entry.kind == SegmentKind::Modex {
            let bytes = read_all(&mut file, entry.len).map_err(|why| refused(&why))?;
            let header = RawHeader::read(&bytes).ok_or_else(|| refused(&"it is too short"))?;
            header.check(&bytes).map_err(|error| refused(&error))?;
            let is_meant = header.nspace == self.nspace.as_bytes() && header.content_hash == entry.content_hash;
            if !is_meant || content_hash(&bytes) != Some(header.content_hash) {
                return Err(refused(&"it is not the segment of the entry"));
            }
            fallible_alloc::probe(bytes.len()).map_err(|error| refused(&error))?;
            let reader = ModexReader::open(Box::new(HeapRegion::new(&bytes))).map_err(|error| refused(&error))?;
            readers.push((segment, reader));
        }
        let id = FileId::from(&stat);
        self.live.push(Published { segment, file: entry.file, name, id, content_hash: entry.content_hash });
        Ok(())
    }

    /// Takes a page, open for writing.
    fn take_page(&mut self, number: u64) -> Result<(), String> {
        let name = page_name(number);
        let (file, stat) = open_own(&self.inner, &name)?;
        let failed = |error: Errno| format!("{name}: {}", io::Error::from(error));
        // Nobody has the right to write it: its server did so by the descriptor with which it had made it.
        fchmod(&file, Mode::from_bits_truncate(0o644)).map_err(failed)?;
        let flags = OFlag::O_RDWR | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
        let opened = openat(&self.inner, name.as_str(), flags, Mode::empty());
        fchmod(&file, Mode::from_bits_truncate(0o444)).map_err(failed)?;
        let opened = File::from(opened.map_err(failed)?);
        let id = FileId::from(&stat);
        if FileId::from(&fstat(&opened).map_err(failed)?) != id {
            return Err(format!("{name}: another file has its name by now"));
        }
        self.pages.add(number, PageWriter::new(opened).map_err(|error| format!("{name}: {error}"))?);
        self.others.push((name, id));
        Ok(())
    }

    /// Removes what the killed server had begun or had not yet removed: its socket, segments that are not live, a page without entries,
    /// which no reader maps, and pages that readers do not need any more.
    fn remove_rest(&self) -> Result<(), String> {
        let listed = fs::read_dir(format!("/proc/self/fd/{}", self.inner.as_raw_fd())).map_err(|e| e.to_string())?;
        for entry in listed {
            let name = entry.map_err(|error| error.to_string())?.file_name();
            let is_dead = is_numbered(&name, SEGMENT_PREFIX) && !self.live.iter().any(|live| name == *live.name)
                || is_numbered(&name, PAGE_PREFIX) && !self.others.iter().any(|(page, _)| name == **page);
            if is_dead || name == SOCKET_NAME || name == JOURNAL_NEW_NAME {
                unlinkat(&self.inner, name.as_os_str(), UnlinkatFlags::NoRemoveDir)
                    .map_err(|error| format!("remove {}: {}", name.display(), io::Error::from(error)))?;
            }
        }
        Ok(())
    }
}

/// The pages of a directory that readers need.
struct Pages {
    /// Those from the first one on.
    images: Vec<Vec<u8>>,
    first: u64,
    count: u64,
}

impl Pages {
    /// The numbers of the pages with page 0, which is needed for its words.
    fn numbers(&self) -> impl Iterator<Item = u64> + use<> {
        iter::once(0).chain(self.first.max(1)..self.first + self.images.len() as u64)
    }
}

fn read_pages(inner: &OwnedFd, nspace: &Nspace) -> Result<Pages, String> {
    let zero = read_page(inner, nspace, 0)?;
    let word = |at| u64_at(&zero, at).unwrap_or(0);
    let count = count_of(word(offset_of!(PageHeader, count))).ok_or("page-0: impossible count")?;
    let first = first_of(word(offset_of!(PageHeader, first))).filter(|first| may_be(count, *first));
    let first = first.ok_or("page-0: impossible number of the first page that is needed, or of entries")?;
    if u32_at(&zero, offset_of!(PageHeader, retired)) != Ok(0) {
        return Err("the server has given it up".into());
    }
    let mut images = Vec::new();
    if first == 0 {
        images.push(zero);
    }
    for number in first.max(1)..count.div_ceil(PAGE_CAPACITY) {
        images.push(read_page(inner, nspace, number)?);
    }
    Ok(Pages { images, first, count })
}

fn read_page(inner: &OwnedFd, nspace: &Nspace, number: u64) -> Result<Vec<u8>, String> {
    let name = page_name(number);
    let (mut file, stat) = open_own(inner, &name)?;
    let image = match stat.st_size as usize {
        PAGE_LEN => read_all(&mut file, PAGE_LEN as u64).map_err(|why| format!("{name}: {why}"))?,
        _ => return Err(format!("{name}: its length is wrong")),
    };
    check_page(&image, number, nspace).map_err(|why| format!("{name}: {why}"))?;
    Ok(image)
}

/// Checks that these are the bytes of a page of the namespace.
///
/// # Errors
/// Why they are not.
fn check_page(image: &[u8], number: u64, nspace: &Nspace) -> Result<(), String> {
    let other = || format!("it is no page of namespace {nspace}");
    check_header(image.first_chunk().ok_or_else(other)?, number).map_err(|error| error.to_string())?;
    let len = u32_at(image, offset_of!(PageHeader, nspace_len)).map_err(|_| other())?;
    let name = image.get(offset_of!(PageHeader, nspace)..).and_then(|name| name.get(..len as usize));
    if name == Some(nspace.as_bytes()) { Ok(()) } else { Err(other()) }
}

/// The entries that no other one replaces, oldest first; and the first number that no file has.
fn live_entries(pages: &Pages) -> Result<(Vec<Entry>, u64), String> {
    let (mut live, mut next_file) = (Vec::<Entry>::new(), 0);
    let begin = pages.first * PAGE_CAPACITY;
    for index in begin..pages.count {
        let number = index / PAGE_CAPACITY;
        let page = pages.images.get((number - pages.first) as usize).ok_or("a page is missing")?;
        let entry = Entry::in_page(page, index % PAGE_CAPACITY).map_err(|_| format!("entry {index} is damaged"))?;
        let entry = entry.ok_or("it is of a newer release")?;
        // Carried over to a page that did not become the first one, or was not yet.
        if entry.is_carried && live.iter().any(|other| other.has_segment_of(&entry)) {
            continue;
        }
        let begins = pages.first > 0 && number == pages.first;
        if entry.is_carried && !begins {
            return Err(format!("entry {index} is carried over, but not to the first page that readers need"));
        }
        if !entry.is_carried && begins && index == begin {
            return Err(format!("page-{number} does not begin with a carried entry"));
        }
        live.retain(|other| !entry.does_replace(other.kind, other.order));
        next_file = next_file.max(entry.file.checked_add(1).ok_or("impossible number of a file")?);
        live.push(entry);
    }
    live.sort_by_key(|entry| entry.order);
    Ok((live, next_file))
}

/// Opens a regular file of this process's user for reading that nobody else may write.
fn open_own(directory: &OwnedFd, name: &str) -> Result<(File, FileStat), String> {
    let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
    let failed = |error: Errno| format!("{name}: {}", io::Error::from(error));
    let file = openat(directory, name, flags, Mode::empty()).map_err(failed)?;
    let stat = fstat(&file).map_err(failed)?;
    let is_own = kind_of(&stat) == SFlag::S_IFREG && stat.st_uid == geteuid().as_raw() && stat.st_mode & 0o022 == 0;
    if is_own {
        Ok((File::from(file), stat))
    } else {
        Err(format!("{name}: it is no file of this server's user alone"))
    }
}

/// The first `len` bytes of a file.
fn read_all(file: &mut File, len: u64) -> Result<Vec<u8>, String> {
    let len = usize::try_from(len).map_err(|error| error.to_string())?;
    let mut bytes = fallible_alloc::filled(0, len).map_err(|error| error.to_string())?;
    file.read_exact(&mut bytes).map_err(|error| error.to_string())?;
    Ok(bytes)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::ffi::OsString;
    use std::os::fd::AsFd;
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;

    use super::*;
    use crate::job::JobData;
    use crate::model::{Key, KeyRef, Rank, Value};
    use crate::segment::directory::page::{PAGES_KEPT, counted};
    use crate::segment::{Directory, ModexBuilder, NamespaceView, build_job};

    fn nspace() -> Nspace {
        Nspace::new("job").unwrap()
    }

    /// A segment with one number of rank 0 for each key.
    fn numbers(values: &[(&'static str, u32)]) -> crate::gather::GatherBuf {
        let values: Vec<(Key, Value)> =
            values.iter().map(|(key, number)| (Key::from(*key), Value::Uint32(*number))).collect();
        let mut builder = ModexBuilder::new(nspace());
        values.iter().for_each(|(key, value)| builder.add(Rank(0), key, value).unwrap());
        builder.finish("test").unwrap()
    }

    fn number(view: &NamespaceView, key: &str) -> Option<u32> {
        view.modex(Rank(0), &KeyRef::from(key)).and_then(|value| value.as_u32())
    }

    /// A directory whose server is killed after it has published three segments, one in place of another; and its name.
    fn killed(tmp: &Path) -> (NamespaceView, OsString, PathBuf) {
        let mut publisher = Publisher::create(tmp, &nspace(), None).unwrap();
        publisher.publish(SegmentKind::Job, &build_job(&JobData::new(nspace()), "test").unwrap()).unwrap();
        publisher.publish(SegmentKind::Modex, &numbers(&[("a", 1)])).unwrap();
        publisher.publish_replacing(SegmentKind::Modex, &numbers(&[("a", 2), ("b", 2)]), 1..=1).unwrap();
        publisher.publish(SegmentKind::Modex, &numbers(&[("c", 3)])).unwrap();
        let directory = Directory::open(publisher.directory(), publisher.directory_id()).unwrap();
        let view = NamespaceView::attach(directory).unwrap();
        let (name, path) = (OsString::from(&publisher.outer_name), publisher.path.clone());
        // It is dropped without removing anything, and its lock ends.
        publisher.is_retired = true;
        (view, name, path)
    }

    fn take(tmp: &Path, name: &OsStr) -> Result<Taken, String> {
        let parent = File::open(tmp).unwrap();
        let abandoned = Abandoned::find(parent.as_fd(), name).unwrap().expect("its server has ended");
        Publisher::take_over(abandoned, tmp, name, &nspace())
    }

    #[test]
    fn readers_go_on_with_the_server_that_takes_over() {
        let tmp = tempfile::tempdir().unwrap();
        let (view, name, path) = killed(tmp.path());
        // Of a publication that the server had begun.
        fs::write(path.join("segment-4"), "half").unwrap();
        let (mut publisher, readers) = take(tmp.path(), &name).unwrap();
        let orders: Vec<u64> = readers.iter().map(|(live, _)| live.order).collect();
        assert_eq!((publisher.count(), orders), (4, vec![2, 3]));
        let old = readers[0].1.get(Rank(0), &KeyRef::from("b")).and_then(|value| value.as_u32());
        assert_eq!(old, Some(2));
        // The same job again is no news to readers.
        assert_eq!(publisher.publish_changed_job(&build_job(&JobData::new(nspace()), "test").unwrap()).unwrap(), 4);
        assert_eq!(["a", "b", "c"].map(|key| number(&view, key)), [Some(2), Some(2), Some(3)]);
        assert_eq!(view.stats().refreshes, 1);
        publisher.publish_replacing(SegmentKind::Modex, &numbers(&[("c", 5), ("d", 5)]), 3..=3).unwrap();
        assert_eq!(["a", "c", "d"].map(|key| number(&view, key)), [Some(2), Some(5), Some(5)]);
        assert!(view.is_complete());
        drop(publisher);
        assert!(view.is_retired() && fs::read_dir(tmp.path()).unwrap().next().is_none(), "nothing is left");
    }

    /// A directory whose server is killed after so many steps of carrying live segments over, or, if it gets so far, when there are `count`
    /// entries. A view that read nothing since page 0, and the directory's name.
    fn killed_carrying(tmp: &Path, steps: usize, count: u64) -> (NamespaceView, OsString, PathBuf) {
        let mut publisher = Publisher::create(tmp, &nspace(), None).unwrap();
        publisher.publish(SegmentKind::Job, &build_job(&JobData::new(nspace()), "test").unwrap()).unwrap();
        publisher.publish(SegmentKind::Modex, &numbers(&[("a", 1)])).unwrap();
        let directory = Directory::open(publisher.directory(), publisher.directory_id()).unwrap();
        let view = NamespaceView::attach(directory).unwrap();
        publisher.publish(SegmentKind::Modex, &numbers(&[("b", 2)])).unwrap();
        replace_until(&mut publisher, PAGES_KEPT * PAGE_CAPACITY);
        publisher.add_page().unwrap();
        Publisher::CARRYING.iter().take(steps).for_each(|step| step(&mut publisher).unwrap());
        replace_until(&mut publisher, count);
        let (name, path) = (OsString::from(&publisher.outer_name), publisher.path.clone());
        publisher.is_retired = true;
        (view, name, path)
    }

    /// Publishes the newest value of `b` in place of the one before, until there are so many entries.
    fn replace_until(publisher: &mut Publisher, count: u64) {
        let segment = numbers(&[("b", 3)]);
        while publisher.count() < count {
            let newest = publisher.live().last().unwrap().order;
            publisher.publish_replacing(SegmentKind::Modex, &segment, newest..=newest).unwrap();
        }
    }

    fn pages(path: &Path) -> Vec<String> {
        let names = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut pages: Vec<String> = names.filter(|name| name.starts_with(PAGE_PREFIX)).collect();
        pages.sort();
        pages
    }

    #[test]
    fn a_server_killed_while_it_carries_segments_over_has_a_successor() {
        for steps in 0..=Publisher::CARRYING.len() {
            let tmp = tempfile::tempdir().unwrap();
            let (view, name, path) = killed_carrying(tmp.path(), steps, 0);
            let find = |view: &NamespaceView| ["a", "b"].map(|key| number(view, key));
            let attach = || {
                let directory = Directory::open(&path, FileId::of(&path).unwrap()).unwrap();
                NamespaceView::attach(directory).unwrap()
            };
            // What is left is read by a rank that attaches, and by one that looks.
            let late = attach();
            assert_eq!((find(&late), late.is_complete()), ([Some(1), Some(3)], true), "{steps}");
            let (mut publisher, readers) = take(tmp.path(), &name).unwrap_or_else(|why| panic!("{steps}: {why}"));
            assert_eq!(readers.len(), 2, "{steps}");
            let is_carried = steps >= 3;
            let left: &[&str] =
                if is_carried { &["page-0", "page-4"] } else { &["page-0", "page-1", "page-2", "page-3", "page-4"] };
            // Page 4 has no published entry before the second step.
            assert_eq!(pages(&path), left[..left.len() - usize::from(steps < 2)], "{steps}");
            publisher.publish(SegmentKind::Modex, &numbers(&[("b", 4)])).unwrap();
            for view in [&view, &late, &attach()] {
                assert_eq!((find(view), view.is_complete()), ([Some(1), Some(4)], true), "{steps}");
            }
            // After the second step alone, page 4 is not the first one that is needed, and page 5 is next.
            replace_until(&mut publisher, (PAGES_KEPT + 2) * PAGE_CAPACITY);
            let expected: &[&str] = if steps == 2 { &["page-0", "page-5"] } else { &["page-0", "page-4", "page-5"] };
            assert_eq!(pages(&path), expected, "{steps}");
            for view in [&view, &late, &attach()] {
                assert_eq!((find(view), view.is_complete()), ([Some(1), Some(3)], true), "{steps}");
                assert_eq!(view.stats().segments_live, 4, "{steps}");
            }
            drop(publisher);
            assert!(view.is_retired() && fs::read_dir(tmp.path()).unwrap().next().is_none(), "nothing is left");
        }
    }

    #[test]
    fn a_directory_with_another_first_page_is_refused_and_can_be_swept() {
        let tmp = tempfile::tempdir().unwrap();
        let (_view, name, path) = killed_carrying(tmp.path(), 3, (PAGES_KEPT + 1) * PAGE_CAPACITY + 10);
        let page = path.join("page-0");
        fs::set_permissions(&page, fs::Permissions::from_mode(0o644)).unwrap();
        let good = fs::read(&page).unwrap();
        let at = offset_of!(PageHeader, first);
        let lies = (1..8).filter(|number| *number != PAGES_KEPT).map(counted);
        for lie in lies.chain([counted(0), 1, PAGES_KEPT, u64::MAX, counted(PAGES_KEPT) ^ 1 << 40]) {
            let mut bad = good.clone();
            bad[at..at + 8].copy_from_slice(&lie.to_le_bytes());
            fs::write(&page, bad).unwrap();
            assert!(take(tmp.path(), &name).is_err(), "{lie:#x}");
        }
        let parent = File::open(tmp.path()).unwrap();
        let abandoned = Abandoned::find(parent.as_fd(), &name).unwrap().unwrap();
        abandoned.remove(parent.as_fd(), &name).unwrap();
        assert!(fs::read_dir(tmp.path()).unwrap().next().is_none());
    }

    /// Whatever is changed, nothing is taken over, and the directory can still be swept.
    #[test]
    fn a_directory_with_a_changed_file_is_refused() {
        let change = |file: &str, what: &dyn Fn(&Path)| {
            let tmp = tempfile::tempdir().unwrap();
            let (_view, name, path) = killed(tmp.path());
            let file = path.join(file);
            fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
            what(&file);
            let why = take(tmp.path(), &name).err().unwrap_or_else(|| panic!("{} is taken", file.display()));
            let parent = File::open(tmp.path()).unwrap();
            let abandoned = Abandoned::find(parent.as_fd(), &name).unwrap().unwrap();
            abandoned.remove(parent.as_fd(), &name).unwrap();
            assert!(fs::read_dir(tmp.path()).unwrap().next().is_none(), "{why}");
        };
        let flip = |at: usize| {
            move |file: &Path| {
                let mut bytes = fs::read(file).unwrap();
                bytes[at] ^= 1;
                fs::write(file, bytes).unwrap();
            }
        };
        // Magic, version, length, number, count, retired, the first page, namespace; an entry.
        for at in [0, 8, 12, 16, 20, 28, 64, 72, 80, 84, 256, 512, 575] {
            change("page-0", &flip(at));
        }
        let len = numbers(&[("c", 3)]).len();
        for at in (0..len).step_by(16) {
            change("segment-3", &flip(at));
        }
        let cut = |file: &Path| File::options().write(true).open(file).unwrap().set_len(100).unwrap();
        let shared = |file: &Path| fs::set_permissions(file, fs::Permissions::from_mode(0o666)).unwrap();
        let linked = |file: &Path| {
            fs::rename(file, file.with_file_name("segment-99")).unwrap();
            std::os::unix::fs::symlink("segment-99", file).unwrap();
        };
        for file in ["page-0", "segment-0", "segment-2", "segment-3"] {
            change(file, &cut);
            change(file, &shared);
            change(file, &linked);
            change(file, &|file| fs::remove_file(file).unwrap());
        }
    }
}
