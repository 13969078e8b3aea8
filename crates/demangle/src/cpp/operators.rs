//! Operators of C++ by their mangled code.

/// An operator.
#[derive(Clone, Copy, Debug)]
pub struct Operator {
    /// What follows the word `operator`.
    pub symbol: &'static str,
    /// Operands it takes in expressions; 0 for those that are encoded in their own way.
    pub operands: u8,
}

/// The operator of a code.
pub fn operator(code: &str) -> Option<Operator> {
    let index = TABLE.binary_search_by(|o| o.0.cmp(code)).ok()?;
    let (_, symbol, operands) = TABLE[index];
    Some(Operator { symbol, operands })
}

/// Code, symbol and operands, in order of the code.
#[rustfmt::skip]
const TABLE: &[(&str, &str, u8)] = &[
    ("aN", "&=", 2), ("aS", "=", 2), ("aa", "&&", 2), ("ad", "&", 1), ("an", "&", 2),
    ("aw", " co_await", 1), ("cl", "()", 0), ("cm", ",", 2), ("co", "~", 1), ("dV", "/=", 2),
    ("da", " delete[]", 1), ("de", "*", 1), ("dl", " delete", 1), ("ds", ".*", 2), ("dt", ".", 2),
    ("dv", "/", 2), ("eO", "^=", 2), ("eo", "^", 2), ("eq", "==", 2), ("ge", ">=", 2), ("gt", ">", 2),
    ("ix", "[]", 2), ("lS", "<<=", 2), ("le", "<=", 2), ("ls", "<<", 2), ("lt", "<", 2), ("mI", "-=", 2),
    ("mL", "*=", 2), ("mi", "-", 2), ("ml", "*", 2), ("mm", "--", 1), ("na", " new[]", 0),
    ("ne", "!=", 2), ("ng", "-", 1), ("nt", "!", 1), ("nw", " new", 0), ("oR", "|=", 2), ("oo", "||", 2),
    ("or", "|", 2), ("pL", "+=", 2), ("pl", "+", 2), ("pm", "->*", 2), ("pp", "++", 1), ("ps", "+", 1),
    ("pt", "->", 2), ("qu", "?", 3), ("rM", "%=", 2), ("rS", ">>=", 2), ("rm", "%", 2), ("rs", ">>", 2),
    ("ss", "<=>", 2),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_order() {
        assert!(TABLE.is_sorted_by(|a, b| a.0 < b.0));
        assert_eq!(operator("ss").map(|o| o.symbol), Some("<=>"));
        assert!(operator("zz").is_none());
    }
}
