//! Generated values in every dialect, and generated damage.

use super::*;

/// A small generator of numbers (splitmix64), so that a failure comes again.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// A number with any count of leading zeros alike.
    fn number(&mut self) -> u64 {
        let shift = self.below(64);
        self.next() >> shift
    }

    fn bytes(&mut self) -> Vec<u8> {
        (0..self.below(40)).map(|_| self.next() as u8).collect()
    }

    fn text(&mut self) -> Option<CString> {
        let bytes = self.bytes().into_iter().filter(|byte| *byte != 0).collect::<Vec<_>>();
        if self.below(5) == 0 { None } else { CString::new(bytes).ok() }
    }

    fn name(&mut self) -> Vec<u8> {
        self.text().unwrap_or_default().into_bytes()
    }

    fn proc(&mut self) -> Proc {
        Proc::new(Nspace::new(self.name()).unwrap(), Rank(self.number() as u32))
    }

    fn info(&mut self, depth: usize) -> Info {
        let key = crate::model::Key::new(self.name()).unwrap();
        Info { key, flags: self.number() as u32, value: self.value(depth) }
    }

    fn infos(&mut self, depth: usize) -> Vec<Info> {
        (0..self.below(4)).map(|_| self.info(depth)).collect()
    }

    fn list<T>(&mut self, item: impl Fn(&mut Random) -> T) -> Vec<T> {
        (0..self.below(5)).map(|_| item(self)).collect()
    }

    /// A value with at most `depth` more levels in it.
    fn value(&mut self, depth: usize) -> Value {
        let leaf = depth == 0;
        match self.below(if leaf { 16 } else { 26 }) {
            0 => Value::Undef,
            1 => Value::String(self.text()),
            2 => Value::ByteObject(self.bytes().into()),
            3 => Value::Proc(self.proc()),
            4 => Value::Timeval { sec: self.number() as i64, usec: -(self.number() as i64 >> 1) },
            5 => Value::CompressedString(compress(&self.bytes()).unwrap().into()),
            6 => Value::ProcNspace(self.proc().nspace),
            7 => Value::DataBuffer(self.bytes().into()),
            8 => Value::Coord(Box::new(Coord { view: 3, coords: self.list(|random| random.number() as u32) })),
            9 => Value::Double(self.number() as f64 / (1u64 << self.below(60)) as f64),
            10 => Value::Float(-(self.number() as f32)),
            11 => Value::Envar(Envar { name: self.text(), value: self.text(), separator: self.next() as u8 }),
            12..16 => loop {
                let ty = DataType(self.below(76) as u16);
                let bits = self.number();
                match ty {
                    DataType::FLOAT | DataType::DOUBLE | DataType::POINTER => {}
                    ty => match Value::from_scalar(ty, bits) {
                        Some(value) => break value,
                        None => continue,
                    },
                }
            },
            16 => Value::Info(Box::new(self.info(depth - 1))),
            17 => Value::Kval(Box::new(Kval { key: "key".into(), value: self.value(depth - 1) })),
            18 => Value::Value(Box::new(self.value(depth - 1))),
            19 => Value::infos(self.infos(depth - 1)),
            20 => Value::Query(Box::new(Query {
                keys: self.list(|random| random.text().unwrap_or_default()),
                qualifiers: self.infos(depth - 1),
            })),
            21 => Value::App(Box::new(App {
                cmd: self.text(),
                argv: self.list(|random| random.text().unwrap_or_default()),
                env: self.list(|random| random.text().unwrap_or_default()),
                cwd: self.text(),
                maxprocs: self.next() as i32,
                infos: self.infos(depth - 1),
            })),
            22 => Value::Pdata(Box::new(Pdata { proc: self.proc(), key: "key".into(), value: self.value(depth - 1) })),
            23 => {
                let first = self.value(depth - 1);
                // The element type UNDEF has no elements, POINTER has them without contents.
                let ty = first.data_type();
                let items = if matches!(ty, DataType::UNDEF | DataType::POINTER) { Vec::new() } else { vec![first; 2] };
                Value::DataArray(Box::new(DataArray { ty, items }))
            }
            24 => Value::DataArray(Box::new(DataArray {
                ty: DataType::STRING,
                items: self.list(|random| Value::String(random.text())),
            })),
            _ => Value::NodePid { hostname: self.text(), nodeid: self.number() as u32, pid: self.next() as i32 },
        }
    }
}

#[test]
fn generated_values_survive() {
    let mut random = Random(1);
    for round in 0..3000 {
        let value = random.value(5);
        let stored = pack_stored(&value).unwrap();
        assert_eq!(unpack_stored(value.data_type(), &stored).as_ref(), Ok(&value), "round {round}");
        for dialect in dialects() {
            let mut packer = Packer::new(dialect);
            match packer.value(&value) {
                Ok(()) => {}
                Err(error) => {
                    assert_eq!(error, Status::ERR_UNKNOWN_DATA_TYPE);
                    assert!(dialect.module < Module::V61);
                    continue;
                }
            }
            let bytes = packer.into_bytes();
            assert_eq!(Unpacker::new(dialect, &bytes).value().as_ref(), Ok(&value), "round {round} {dialect:?}");
        }
    }
}

#[test]
fn generated_damage_does_no_harm() {
    let mut random = Random(2);
    for _ in 0..3000 {
        let value = random.value(4);
        let mut bytes = pack_stored(&value).unwrap();
        for _ in 0..random.below(4) + 1 {
            if bytes.is_empty() {
                break;
            }
            let at = random.below(bytes.len());
            match random.below(4) {
                0 => bytes.truncate(at),
                1 => bytes.insert(at, random.next() as u8),
                2 => drop(bytes.remove(at)),
                _ => bytes[at] = random.next() as u8,
            }
        }
        // What still decodes is a value like any other: it packs and comes back.
        if let Ok(damaged) = unpack_stored(value.data_type(), &bytes) {
            let again = pack_stored(&damaged).unwrap();
            let equal = unpack_stored(value.data_type(), &again).unwrap();
            assert!(equal == damaged || format!("{damaged:?}").contains("NaN"), "{damaged:?}");
        }
    }
}
