//! What a launched process finds in its environment.

/// What a launched process finds in its environment.
pub struct Environment {
    _private: (),
}

impl Environment {
    /// The environment of this process.
    pub fn from_process() -> Environment {
        Environment { _private: () }
    }
}
