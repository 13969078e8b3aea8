//! Tree to text.
//!
//! C++ declarators go around what they declare, so every type is printed in two halves: what comes
//! before the declared thing and what comes after. `void (*)(int)` is `void (*` and `)(int)`.
//! Expressions are printed in [`super::print_expressions`].

use super::tree::{Exceptions, Expression, Id, Node, Qualifiers, RefQualifier, Signature, Tree};
use alloc::format;
use alloc::string::String;

/// Longest text; references to earlier parts can make hostile names grow without bound.
const LONGEST: usize = 256 * 1024;
/// Nesting, within a thread's stack.
const DEEPEST: u32 = 400;
/// Nodes printed: a short text can hide much work.
const MOST_WORK: u32 = 1 << 20;

pub(super) struct Printer<'t, 'a> {
    tree: &'t Tree<'a>,
    out: String,
    /// Last character written, even if it was taken back: some forms look at it.
    last: char,
    /// Element of packs to print, inside an expansion.
    pub(super) element: Option<usize>,
    /// Inside the parameters of a lambda, whose own template parameters are `auto`; elsewhere they
    /// stand for the arguments of the call.
    in_lambda: bool,
    depth: u32,
    work: u32,
}

pub(super) type Printed = Option<()>;

/// The text of a tree; none when it is beyond the limits.
pub fn print(tree: &Tree) -> Option<String> {
    let mut p =
        Printer { tree, out: String::new(), last: '\0', element: None, in_lambda: false, depth: 0, work: 0 };
    p.whole(tree.root)?;
    Some(p.out)
}

impl<'a> Printer<'_, 'a> {
    pub(super) fn push(&mut self, text: &str) -> Printed {
        if let Some(last) = text.chars().next_back() {
            self.last = last;
            self.out.push_str(text);
        }
        (self.out.len() <= LONGEST).then_some(())
    }

    pub(super) fn node(&self, id: Id) -> &Node<'a> {
        self.tree.get(id)
    }

    fn deeper(&mut self, print: impl FnOnce(&mut Self) -> Printed) -> Printed {
        self.work += 1;
        if self.depth >= DEEPEST || self.work > MOST_WORK {
            return None;
        }
        self.depth += 1;
        let result = print(self);
        self.depth -= 1;
        result
    }

    pub(super) fn whole(&mut self, id: Id) -> Printed {
        self.left(id)?;
        self.right(id)
    }

    /// The node that stands for `id` here: an element of a pack instead of the pack.
    pub(super) fn resolve(&self, id: Id) -> Id {
        let mut id = id;
        for _ in 0..DEEPEST {
            let (pack, whole) = match self.node(id) {
                Node::PackParameter(pack) => (*pack, false),
                Node::Auto(_) => match self.argument_of(id) {
                    Some(argument) => (argument, true),
                    None => break,
                },
                _ => break,
            };
            match (self.node(pack), self.element) {
                (Node::Pack(all), Some(element)) if element < all.len() => id = all[element],
                (Node::Pack(_), _) if !whole => break,
                _ => id = pack,
            }
        }
        id
    }

    /// What a lambda's parameter stands for outside of the lambda.
    fn argument_of(&self, id: Id) -> Option<Id> {
        match self.node(id) {
            Node::Auto(number) if !self.in_lambda => self.tree.arguments.get(*number as usize - 1).copied(),
            _ => None,
        }
    }

    /// Whether a type has a second half that a pointer to it must be put in parentheses for.
    fn is_function(&self, id: Id) -> bool {
        matches!(self.node(self.resolve(id)), Node::FunctionType(_))
    }

    fn is_array(&self, id: Id) -> bool {
        match self.node(self.resolve(id)) {
            Node::Array(..) => true,
            Node::Qualified(of, _) => self.is_array(*of),
            _ => false,
        }
    }

    fn has_right(&self, id: Id) -> bool {
        let mut id = id;
        for _ in 0..DEEPEST {
            id = self.resolve(id);
            id = match self.node(id) {
                Node::FunctionType(_) | Node::Array(..) => return true,
                Node::Pointer(of) | Node::LvalueReference(of) | Node::RvalueReference(of) => *of,
                Node::Qualified(of, _) | Node::Postfix(of, _) | Node::VendorQualified(of, _) => *of,
                Node::MemberPointer(_, of) => *of,
                _ => return false,
            };
        }
        false
    }

    /// What a reference refers to, and whether it is an lvalue reference after collapsing.
    fn referred(&self, id: Id, lvalue: bool) -> (Id, bool) {
        let (mut id, mut lvalue) = (self.resolve(id), lvalue);
        for _ in 0..DEEPEST {
            match self.node(id) {
                Node::LvalueReference(of) => (id, lvalue) = (self.resolve(*of), true),
                Node::RvalueReference(of) => id = self.resolve(*of),
                _ => break,
            }
        }
        (id, lvalue)
    }

    /// Opens the declarator of a pointer-like type to `of`.
    fn open(&mut self, of: Id, symbol: &str) -> Printed {
        self.left(of)?;
        if self.is_array(of) {
            self.push(" (")?;
        } else if self.is_function(of) {
            self.push("(")?;
        }
        self.push(symbol)
    }

    fn close(&mut self, of: Id) -> Printed {
        if self.is_array(of) || self.is_function(of) {
            self.push(")")?;
        }
        self.right(of)
    }

    fn left(&mut self, id: Id) -> Printed {
        self.deeper(|p| p.first_half(p.resolve(id)))
    }

    fn right(&mut self, id: Id) -> Printed {
        if !self.has_right(id) {
            return Some(());
        }
        self.deeper(|p| p.second_half(p.resolve(id)))
    }

    fn second_half(&mut self, id: Id) -> Printed {
        match self.node(id).clone() {
            Node::FunctionType(signature) => {
                self.parameters(&signature)?;
                if let Some(result) = signature.result {
                    self.right(result)?;
                }
                self.after_parameters(&signature)
            }
            Node::Array(element, size) => {
                if !self.out.ends_with(']') {
                    self.push(" ")?;
                }
                self.push("[")?;
                if let Some(size) = size {
                    self.whole(size)?;
                }
                self.push("]")?;
                self.right(element)
            }
            Node::Pointer(of) => self.close(of),
            Node::LvalueReference(of) => self.close(self.referred(of, true).0),
            Node::RvalueReference(of) => self.close(self.referred(of, false).0),
            Node::MemberPointer(_, of) => self.close(of),
            Node::Qualified(of, _) | Node::Postfix(of, _) | Node::VendorQualified(of, _) => self.right(of),
            _ => Some(()),
        }
    }

    fn first_half(&mut self, id: Id) -> Printed {
        match self.node(id).clone() {
            Node::Name(text) => self.push(text),
            Node::Nested(scope, name) => {
                self.whole(scope)?;
                self.push("::")?;
                self.whole(name)
            }
            Node::Scoped(scope, name) => {
                self.whole(scope)?;
                self.push("::")?;
                self.whole(name)
            }
            Node::Local(function, entity) => {
                self.scope_function(function)?;
                self.push("::")?;
                self.whole(entity)
            }
            Node::DefaultArgument(function, number, entity) => {
                self.scope_function(function)?;
                self.push(&format!("::{{default arg#{}}}::", number + 1))?;
                self.whole(entity)
            }
            Node::Template(name, arguments) => {
                self.whole(name)?;
                self.arguments(&arguments)
            }
            Node::Tagged(name, tag) => {
                self.whole(name)?;
                self.push("[abi:")?;
                self.push(tag)?;
                self.push("]")
            }
            Node::Standard(short, ..) => self.push(short),
            Node::Constructor(base) => self.whole(base),
            Node::Destructor(base) => {
                self.push("~")?;
                self.whole(base)
            }
            Node::Operator(symbol) => {
                self.push("operator")?;
                self.push(symbol)
            }
            Node::Conversion(to) => {
                self.push("operator ")?;
                self.whole(to)
            }
            Node::LiteralOperator(name) => {
                self.push("operator\"\" ")?;
                self.whole(name)
            }
            Node::Lambda(parameters, number) => {
                self.push("{lambda")?;
                let outer = core::mem::replace(&mut self.in_lambda, true);
                self.parameters(&Signature { parameters, ..Default::default() })?;
                self.in_lambda = outer;
                self.push(&format!("#{number}}}"))
            }
            Node::Unnamed(number) => self.push(&format!("{{unnamed type#{number}}}")),
            Node::Binding(names) => {
                self.push("[")?;
                self.list(&names)?;
                self.push("]")
            }
            Node::Special(text, of) => {
                self.push(text)?;
                self.whole(of)
            }
            Node::ConstructionVtable(base, derived) => {
                self.push("construction vtable for ")?;
                self.whole(base)?;
                self.push("-in-")?;
                self.whole(derived)
            }
            Node::ReferenceTemporary(number, of) => {
                self.push(&format!("reference temporary #{number} for "))?;
                self.whole(of)
            }
            Node::Function(name, signature) => self.function(name, &signature, true),
            Node::Qualified(of, qualifiers) => {
                self.left(of)?;
                let known = match self.node(self.resolve(of)) {
                    Node::Qualified(_, inner) => *inner,
                    _ => Qualifiers::default(),
                };
                self.qualifiers(Qualifiers {
                    restrict: qualifiers.restrict && !known.restrict,
                    volatile: qualifiers.volatile && !known.volatile,
                    constant: qualifiers.constant && !known.constant,
                })
            }
            Node::Pointer(of) => self.open(of, "*"),
            Node::LvalueReference(of) => {
                let (of, _) = self.referred(of, true);
                self.open(of, "&")
            }
            Node::RvalueReference(of) => {
                let (of, lvalue) = self.referred(of, false);
                self.open(of, if lvalue { "&" } else { "&&" })
            }
            Node::Postfix(of, word) => {
                self.left(of)?;
                self.push(" ")?;
                self.push(word)
            }
            Node::VendorQualified(of, name) => {
                self.left(of)?;
                self.push(" ")?;
                self.whole(name)
            }
            Node::FunctionType(signature) => {
                if let Some(result) = signature.result {
                    self.left(result)?;
                    if !self.has_right(result) {
                        self.push(" ")?;
                    }
                }
                Some(())
            }
            Node::Array(element, _) => self.left(element),
            Node::Vector(element, size) => {
                self.whole(element)?;
                self.push(" __vector(")?;
                self.whole(size)?;
                self.push(")")
            }
            Node::MemberPointer(class, of) => {
                self.left(of)?;
                if self.is_array(of) {
                    self.push(" (")?;
                } else if self.is_function(of) {
                    self.push("(")?;
                } else {
                    self.push(" ")?;
                }
                self.whole(class)?;
                self.push("::*")
            }
            Node::Pack(all) => self.list(&all),
            Node::PackParameter(pack) => self.whole(pack),
            Node::Expansion(pattern) => self.expansion(pattern),
            Node::Forward(_) => None,
            Node::Auto(number) => self.push(&format!("auto:{number}")),
            Node::Literal(of, digits) => self.literal(of, digits),
            Node::Expression(expression) => self.expression(&expression),
            Node::Decltype(expression) => {
                self.push("decltype (")?;
                self.whole(expression)?;
                self.push(")")
            }
            Node::Global(name) => {
                self.push("::")?;
                self.whole(name)
            }
        }
    }

    fn qualifiers(&mut self, q: Qualifiers) -> Printed {
        for (there, text) in [(q.constant, " const"), (q.volatile, " volatile"), (q.restrict, " restrict")] {
            if there {
                self.push(text)?;
            }
        }
        Some(())
    }

    fn parameters(&mut self, signature: &Signature) -> Printed {
        self.push("(")?;
        let nothing =
            matches!(signature.parameters[..], [only] if matches!(self.node(only), Node::Name("void")));
        if !nothing {
            self.list(&signature.parameters)?;
        }
        self.push(")")
    }

    fn after_parameters(&mut self, signature: &Signature) -> Printed {
        self.qualifiers(signature.qualifiers)?;
        match signature.reference {
            RefQualifier::None => {}
            RefQualifier::Lvalue => self.push(" &")?,
            RefQualifier::Rvalue => self.push(" &&")?,
        }
        match &signature.exceptions {
            Exceptions::Any => Some(()),
            Exceptions::Noexcept => self.push(" noexcept"),
            Exceptions::NoexceptIf(condition) => {
                self.push(" noexcept(")?;
                self.whole(*condition)?;
                self.push(")")
            }
            Exceptions::Throw(types) => {
                self.push(" throw(")?;
                self.list(types)?;
                self.push(")")
            }
        }
    }

    fn function(&mut self, name: Id, signature: &Signature, with_result: bool) -> Printed {
        let result = signature.result.filter(|_| with_result);
        if let Some(result) = result {
            self.left(result)?;
            if !self.has_right(result) {
                self.push(" ")?;
            }
        }
        self.whole(name)?;
        self.parameters(signature)?;
        if let Some(result) = result {
            self.right(result)?;
        }
        self.after_parameters(signature)
    }

    /// A function as the scope of something in it.
    fn scope_function(&mut self, id: Id) -> Printed {
        match self.node(id).clone() {
            Node::Function(name, signature) => self.deeper(|p| p.function(name, &signature, false)),
            _ => self.whole(id),
        }
    }

    fn arguments(&mut self, arguments: &[Id]) -> Printed {
        if self.last == '<' {
            self.push(" ")?;
        }
        self.push("<")?;
        self.list(arguments)?;
        if self.last == '>' {
            self.push(" ")?;
        }
        self.push(">")
    }

    /// Elements with commas between. Elements at the end that print as nothing, as empty packs do,
    /// leave no comma; elsewhere they leave theirs, which is how the text is known.
    pub(super) fn list(&mut self, all: &[Id]) -> Printed {
        let Some((first, rest)) = all.split_first() else { return Some(()) };
        self.whole(*first)?;
        let mut end = self.out.len();
        for id in rest {
            self.push(", ")?;
            let start = self.out.len();
            self.whole(*id)?;
            if self.out.len() > start {
                end = self.out.len();
            }
        }
        self.out.truncate(end);
        Some(())
    }

    fn expansion(&mut self, pattern: Id) -> Printed {
        let mut budget = 4096;
        match self.pack_length(pattern, &mut budget) {
            None => {
                self.whole(pattern)?;
                self.push("...")
            }
            Some(length) => {
                let outer = self.element;
                for i in 0..length {
                    if i > 0 {
                        self.push(", ")?;
                    }
                    self.element = Some(i);
                    self.whole(pattern)?;
                }
                self.element = outer;
                Some(())
            }
        }
    }

    /// Length of the first pack that a pattern names.
    pub(super) fn pack_length(&self, id: Id, budget: &mut u32) -> Option<usize> {
        *budget = budget.checked_sub(1)?;
        let mut first = |ids: &[Id]| ids.iter().find_map(|&i| self.pack_length(i, budget));
        match self.node(id) {
            Node::PackParameter(pack) => match self.node(*pack) {
                Node::Pack(all) => Some(all.len()),
                _ => None,
            },
            Node::Auto(_) => match self.node(self.argument_of(id)?) {
                Node::Pack(all) => Some(all.len()),
                _ => None,
            },
            Node::Nested(a, b)
            | Node::Scoped(a, b)
            | Node::MemberPointer(a, b)
            | Node::Vector(a, b)
            | Node::VendorQualified(a, b)
            | Node::Local(a, b) => first(&[*a, *b]),
            Node::Template(name, arguments) => first(&[*name]).or_else(|| first(arguments)),
            Node::Function(name, s) => first(&[*name]).or_else(|| first(&s.parameters)),
            Node::FunctionType(s) => s.result.and_then(|r| first(&[r])).or_else(|| first(&s.parameters)),
            Node::Array(element, size) => first(&[*element]).or_else(|| size.and_then(|s| first(&[s]))),
            Node::Pack(all) => first(all),
            Node::Tagged(of, _)
            | Node::Conversion(of)
            | Node::Qualified(of, _)
            | Node::Pointer(of)
            | Node::LvalueReference(of)
            | Node::RvalueReference(of)
            | Node::Postfix(of, _)
            | Node::Literal(of, _)
            | Node::Decltype(of)
            | Node::Global(of) => first(&[*of]),
            Node::Expression(e) => match e {
                Expression::Unary(_, a) | Expression::Suffix(_, a) | Expression::OfType(_, a) => first(&[*a]),
                Expression::Binary(_, a, b) | Expression::NamedCast(_, a, b) => first(&[*a, *b]),
                Expression::Conditional(a, b, c) => first(&[*a, *b, *c]),
                Expression::Call(a, all) | Expression::Cast(a, all) => first(&[*a]).or_else(|| first(all)),
                Expression::Braced(a, all) => a.and_then(|a| first(&[a])).or_else(|| first(all)),
                Expression::New(_, a, _) => first(&[*a]),
                Expression::PackSize(_)
                | Expression::Fold(..)
                | Expression::Parameter(_)
                | Expression::Word(_) => None,
            },
            _ => None,
        }
    }
}
