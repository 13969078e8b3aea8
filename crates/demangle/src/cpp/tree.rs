//! The tree of a C++ name.

use alloc::vec::Vec;
/// Index of a node in its [`Tree`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Id(pub u32);

/// `const`, `volatile` and `restrict`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Qualifiers {
    pub restrict: bool,
    pub volatile: bool,
    pub constant: bool,
}

/// What a member function may be called on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RefQualifier {
    #[default]
    None,
    /// `&`
    Lvalue,
    /// `&&`
    Rvalue,
}

/// Parameters and qualifiers of a function or a function type.
#[derive(Clone, Debug, Default)]
pub struct Signature {
    pub result: Option<Id>,
    pub parameters: Vec<Id>,
    pub qualifiers: Qualifiers,
    pub reference: RefQualifier,
    /// Text of an exception specification, with its condition.
    pub exceptions: Exceptions,
}

/// Exception specification of a function type.
#[derive(Clone, Debug, Default)]
pub enum Exceptions {
    #[default]
    Any,
    Noexcept,
    NoexceptIf(Id),
    Throw(Vec<Id>),
}

/// A node. Names borrow from the mangled text.
#[derive(Clone, Debug)]
pub enum Node<'a> {
    /// An identifier, or a fixed text.
    Name(&'a str),
    /// `scope::name`
    Nested(Id, Id),
    /// `function::entity`
    Local(Id, Id),
    /// An entity in the default argument of a parameter.
    DefaultArgument(Id, u64, Id),
    /// `name<arguments>`
    Template(Id, Vec<Id>),
    /// `name[abi:tag]`
    Tagged(Id, &'a str),
    /// A standard abbreviation: short and long form, and the base name for constructors.
    Standard(&'static str, &'static str, &'static str),
    /// Constructor of a class of this base name.
    Constructor(Id),
    /// Destructor.
    Destructor(Id),
    /// An operator's symbol, as it follows `operator`.
    Operator(&'static str),
    /// Conversion to a type.
    Conversion(Id),
    /// `operator"" name`
    LiteralOperator(Id),
    /// Parameters and number from 1.
    Lambda(Vec<Id>, u64),
    /// Number from 1.
    Unnamed(u64),
    /// Names bound together.
    Binding(Vec<Id>),
    /// `vtable for x` and its kind.
    Special(&'static str, Id),
    /// `construction vtable for a-in-b`
    ConstructionVtable(Id, Id),
    /// `reference temporary #n for x`
    ReferenceTemporary(u64, Id),
    /// A function with its signature.
    Function(Id, Signature),
    /// A type with qualifiers after it.
    Qualified(Id, Qualifiers),
    Pointer(Id),
    LvalueReference(Id),
    RvalueReference(Id),
    /// A word after a type: `_Complex`, a vendor's qualifier.
    Postfix(Id, &'a str),
    /// A vendor's qualifier with template arguments.
    VendorQualified(Id, Id),
    FunctionType(Signature),
    /// Element type and size.
    Array(Id, Option<Id>),
    /// Element type and number of elements.
    Vector(Id, Id),
    /// Class and member type.
    MemberPointer(Id, Id),
    /// Arguments of a template parameter pack.
    Pack(Vec<Id>),
    /// A template parameter that stands for a [`Node::Pack`].
    PackParameter(Id),
    /// `pattern...`
    Expansion(Id),
    /// A template parameter of a name that is read later: resolved before printing.
    Forward(u64),
    /// `auto:n` in a generic lambda, from 1.
    Auto(u64),
    /// A number of a built-in type: type's text, digits.
    Literal(Id, &'a str),
    /// An expression.
    Expression(Expression<'a>),
    /// `decltype (expression)`
    Decltype(Id),
    /// A global name in an expression.
    Global(Id),
    /// `::name` below a type.
    Scoped(Id, Id),
}

/// An expression.
#[derive(Clone, Debug)]
pub enum Expression<'a> {
    Unary(&'static str, Id),
    /// Operator after its operand.
    Suffix(&'static str, Id),
    Binary(&'static str, Id, Id),
    Conditional(Id, Id, Id),
    /// `(function)(arguments)`
    Call(Id, Vec<Id>),
    /// `(type)(arguments)`
    Cast(Id, Vec<Id>),
    /// `static_cast<type>(x)`
    NamedCast(&'static str, Id, Id),
    /// `type{arguments}`
    Braced(Option<Id>, Vec<Id>),
    /// `new type(arguments)`
    New(Vec<Id>, Id, Option<Vec<Id>>),
    /// `{parm#n}`; 0 for `this`.
    Parameter(u64),
    /// `sizeof...(pack)`
    PackSize(Id),
    /// Unary over a type: `sizeof (type)`.
    OfType(&'static str, Id),
    /// `(... op pack)` and its kind.
    Fold(char, &'static str, Id, Option<Id>),
    /// `throw`
    Word(&'a str),
}

/// All nodes of a name.
#[derive(Debug)]
pub struct Tree<'a> {
    pub nodes: Vec<Node<'a>>,
    pub root: Id,
    /// Template arguments of the whole name.
    pub arguments: Vec<Id>,
}

impl<'a> Tree<'a> {
    /// The node under an id.
    pub fn get(&self, id: Id) -> &Node<'a> {
        &self.nodes[id.0 as usize]
    }
}
