//! What options say of single functions.

/// How calls of a function are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Recursion levels kept apart (`--separate-recs`); 0 counts as 1.
    pub separate_recs: u32,
    /// Group within which callers make no difference (`--fn-group`), 0 for none.
    pub group: u32,
    /// Collection is switched while the function is active (`--toggle-collect`).
    pub toggles: bool,
    /// Something is to be done on entry or when it is left (`--dump-before` and its kind).
    pub triggers: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Rules { separate_recs: 2, group: 0, toggles: false, triggers: false }
    }
}
