//! The released packings, and the packing of one buffer.

use crate::model::DataType;

/// An encoder of released libraries, by the name that the handshake carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Module {
    /// `v20`, since release 2.0: fixed integers and a few peculiarities.
    V20,
    /// `v21`, since 2.1: fixed integers.
    V21,
    /// `v3`, since 3.0: as `v21`, with more types.
    V3,
    /// `v4`, since 4.0: flexible integers.
    V4,
    /// `v41`, since 4.1: the newest of releases 4.1 to 5.0.
    V41,
    /// `v51`, since 6.0.
    V51,
    /// `v61`, since 6.1.
    V61,
    /// This library's own encoder with every type, for our stores and data buffers. No peer of another library negotiates it.
    /// Types that `v61` knows have the form of `v61`.
    Own,
}

impl Module {
    /// All encoders of released libraries, oldest first.
    pub const ALL: [Module; 7] =
        [Module::V20, Module::V21, Module::V3, Module::V4, Module::V41, Module::V51, Module::V61];

    /// The encoder of this name.
    pub fn from_name(name: &[u8]) -> Option<Module> {
        Module::ALL.into_iter().find(|module| module.name().as_bytes() == name)
    }

    /// The name, as in the handshake.
    pub fn name(self) -> &'static str {
        match self {
            Module::V20 => "v20",
            Module::V21 => "v21",
            Module::V3 => "v3",
            Module::V4 => "v4",
            Module::V41 => "v41",
            Module::V51 => "v51",
            Module::V61 => "v61",
            Module::Own => "own",
        }
    }

    /// Whether integers are packed in as few bytes as they need.
    pub fn is_flexible(self) -> bool {
        self >= Module::V4
    }

    /// Whether peers with this encoder can unpack values of a type.
    pub fn knows(self, ty: DataType) -> bool {
        let since = match ty.0 {
            29 | 44 => return false,
            0..=43 => Module::V20,
            45 | 46 => Module::V3,
            47..=59 => Module::V4,
            60 | 65..=69 => Module::V41,
            // Release 6.0 removed the types of statistics.
            61..=64 => return matches!(self, Module::V41 | Module::Own),
            70..=72 => Module::V51,
            73 | 75 => Module::V61,
            // A type in the source of 7.0, whose encoder is also named `v61`.
            74 => Module::Own,
            _ => return false,
        };
        self >= since
    }
}

/// Whether a buffer carries type tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum BufferType {
    /// Only the tags that values need.
    NonDescribed = 1,
    /// Every pack operation carries the types of its count and of its values.
    Described = 2,
}

impl BufferType {
    /// The buffer type of a code in the handshake or in a packed buffer.
    pub fn from_code(code: u8) -> Option<BufferType> {
        match code {
            1 => Some(BufferType::NonDescribed),
            2 => Some(BufferType::Described),
            _ => None,
        }
    }
}

/// The encoding of an array of type `UNDEF`, which has no elements. It differs by release, for all encoders but `v20`; the
/// encoder's name does not determine it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Untyped {
    /// With its count: releases up to 6.0, and our own stores.
    Counted,
    /// As 6.1: it reads only the type. It writes the count for an array, and only the type for a NULL pointer to the
    /// array.
    Either,
    /// The type alone: 7.0.
    Bare,
    /// For readers of any release: as an empty array of bytes, which all read alike. It is read as [`Untyped::Either`].
    Replaced,
}

/// The form of a buffer, as two peers agreed on it in their handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Dialect {
    /// The encoder.
    pub module: Module,
    /// Whether buffers are described.
    pub buffer: BufferType,
    /// The peer's encoding of arrays without a type.
    untyped: Untyped,
}

impl Dialect {
    /// The form of packed values in our own stores: flexible, able to hold every type, not described.
    pub const STORED: Dialect = Dialect::plain(Module::Own);

    /// An encoder with non-described buffers, the default of release builds.
    pub const fn plain(module: Module) -> Dialect {
        Dialect::new(module, BufferType::NonDescribed)
    }

    /// An encoder with buffers of a type, as releases up to 6.0 have it.
    pub const fn new(module: Module, buffer: BufferType) -> Dialect {
        Dialect { module, buffer, untyped: Untyped::Counted }
    }

    /// The same with another encoder.
    pub const fn with_module(self, module: Module) -> Dialect {
        Dialect { module, ..self }
    }

    /// The same with arrays without a type as the peer's release has them.
    pub const fn with_untyped(self, untyped: Untyped) -> Dialect {
        Dialect { untyped, ..self }
    }

    /// How arrays without a type are packed.
    pub(super) fn untyped(self) -> Untyped {
        // This encoder has separate code, which no release has changed.
        if self.module == Module::V20 { Untyped::Counted } else { self.untyped }
    }

    /// Whether integers are packed in as few bytes as they need.
    pub fn is_flexible(self) -> bool {
        self.module.is_flexible()
    }

    /// The type as which a number is packed whose width depends on the machine; a tag with that type precedes it.
    pub(super) fn real_type(self, ty: DataType) -> Option<DataType> {
        match ty {
            DataType::PID => Some(DataType::UINT32),
            DataType::SIZE if !self.is_flexible() => Some(DataType::UINT64),
            DataType::INT | DataType::UINT if !self.is_flexible() => Some(DataType::INT32),
            _ => None,
        }
    }

    /// Whether buffers carry type tags.
    pub fn is_described(self) -> bool {
        self.buffer == BufferType::Described
    }
}
