//! Mangled text to tree: encodings, names, template arguments and substitutions.
//!
//! Types are read in [`super::types`], expressions in [`super::expressions`].

use super::operators::operator;
use super::tree::{Id, Node, Qualifiers, RefQualifier, Signature, Tree};
use alloc::vec::Vec;

/// Nesting that no compiler reaches, within a thread's stack.
const DEEPEST: u32 = 200;
/// Nodes of one name.
const MOST_NODES: usize = 1 << 16;

pub(super) struct Parser<'a> {
    pub(super) text: &'a str,
    pub(super) at: usize,
    nodes: Vec<Node<'a>>,
    pub(super) substitutions: Vec<Substitution>,
    /// Arguments of the template named last: what `T_` refers to.
    pub(super) arguments: Vec<Id>,
    /// Positions in `nodes` of parameters to be resolved when `arguments` is known.
    forward: Vec<Id>,
    /// Parameters before the template's arguments are permitted (inside a conversion's type).
    pub(super) permit_forward: bool,
    /// Generic lambdas whose parameters are being read.
    lambdas: u32,
    depth: u32,
}

/// What an `S_` may refer to.
#[derive(Clone, Copy)]
pub(super) enum Substitution {
    Node(Id),
    /// A template parameter stands for the argument at the place where it is referred to.
    Parameter(Id, u64),
}

/// What the caller of `name` needs to know of it.
#[derive(Default)]
pub(super) struct NameFacts {
    /// Ends with template arguments.
    template: bool,
    /// Constructor, destructor or conversion: no result is encoded.
    no_result: bool,
    qualifiers: Qualifiers,
    reference: RefQualifier,
    /// The template arguments become what `T_` refers to: so for the name of a function.
    record: bool,
}

/// Parses a name that starts with `_Z`.
pub fn parse(text: &str) -> Option<Tree<'_>> {
    let mut p = Parser {
        text,
        at: 0,
        nodes: Vec::new(),
        substitutions: Vec::new(),
        arguments: Vec::new(),
        forward: Vec::new(),
        permit_forward: false,
        lambdas: 0,
        depth: 0,
    };
    p.expect("_Z")?;
    let root = p.encoding()?;
    (p.at == text.len() && p.forward.is_empty()).then_some(Tree {
        nodes: p.nodes,
        root,
        arguments: p.arguments,
    })
}

/// Standard abbreviations: short and long form, base name.
fn standard(letter: u8) -> Option<(&'static str, &'static str, &'static str)> {
    Some(match letter {
        b'a' => ("std::allocator", "std::allocator", "allocator"),
        b'b' => ("std::basic_string", "std::basic_string", "basic_string"),
        b's' => (
            "std::string",
            "std::basic_string<char, std::char_traits<char>, std::allocator<char> >",
            "basic_string",
        ),
        b'i' => ("std::istream", "std::basic_istream<char, std::char_traits<char> >", "basic_istream"),
        b'o' => ("std::ostream", "std::basic_ostream<char, std::char_traits<char> >", "basic_ostream"),
        b'd' => ("std::iostream", "std::basic_iostream<char, std::char_traits<char> >", "basic_iostream"),
        _ => return None,
    })
}

impl<'a> Parser<'a> {
    pub(super) fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    pub(super) fn peek(&self) -> u8 {
        self.text.as_bytes().get(self.at).copied().unwrap_or(0)
    }

    pub(super) fn peek_after(&self) -> u8 {
        self.text.as_bytes().get(self.at + 1).copied().unwrap_or(0)
    }

    pub(super) fn eat(&mut self, prefix: &str) -> bool {
        let found = self.rest().starts_with(prefix);
        if found {
            self.at += prefix.len();
        }
        found
    }

    pub(super) fn expect(&mut self, prefix: &str) -> Option<()> {
        self.eat(prefix).then_some(())
    }

    pub(super) fn make(&mut self, node: Node<'a>) -> Option<Id> {
        if self.nodes.len() >= MOST_NODES {
            return None;
        }
        self.nodes.push(node);
        Some(Id(self.nodes.len() as u32 - 1))
    }

    pub(super) fn name_node(&mut self, text: &'a str) -> Option<Id> {
        self.make(Node::Name(text))
    }

    /// Calls `parse` one level deeper.
    pub(super) fn deeper<T>(&mut self, parse: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        if self.depth >= DEEPEST {
            return None;
        }
        self.depth += 1;
        let result = parse(self);
        self.depth -= 1;
        result
    }

    pub(super) fn number(&mut self) -> Option<u64> {
        let digits = self.rest().bytes().take_while(u8::is_ascii_digit).count();
        let number = self.rest()[..digits].parse().ok()?;
        self.at += digits;
        Some(number)
    }

    /// `_` is 0, `0_` is 1, and so on.
    pub(super) fn sequence_number(&mut self) -> Option<u64> {
        if self.eat("_") {
            return Some(0);
        }
        let n = self.number()?;
        self.expect("_")?;
        n.checked_add(1)
    }

    /// As [`Parser::sequence_number`], in base 36.
    pub(super) fn base36_number(&mut self) -> Option<usize> {
        if self.eat("_") {
            return Some(0);
        }
        let digits = self.rest().bytes().take_while(|b| b.is_ascii_digit() || b.is_ascii_uppercase()).count();
        let n = usize::from_str_radix(&self.rest()[..digits], 36).ok()?;
        self.at += digits;
        self.expect("_")?;
        n.checked_add(1)
    }

    pub(super) fn encoding(&mut self) -> Option<Id> {
        self.deeper(|p| {
            if matches!(p.peek(), b'T' | b'G') {
                return p.special_name();
            }
            let mut facts = NameFacts { record: true, ..Default::default() };
            let unresolved = p.forward.len();
            let name = p.name(&mut facts)?;
            p.resolve_forward(unresolved)?;
            if matches!(p.peek(), 0 | b'E' | b'.') {
                return Some(name);
            }
            let mut signature =
                Signature { qualifiers: facts.qualifiers, reference: facts.reference, ..Default::default() };
            if facts.template && !facts.no_result {
                signature.result = Some(p.type_()?);
            }
            while !matches!(p.peek(), 0 | b'E' | b'.') {
                signature.parameters.push(p.type_()?);
            }
            p.make(Node::Function(name, signature))
        })
    }

    /// Points parameters that were named before their template's arguments to these.
    pub(super) fn resolve_forward(&mut self, from: usize) -> Option<()> {
        for id in self.forward.split_off(from) {
            let Node::Forward(index) = self.nodes[id.0 as usize] else { return None };
            let argument = *self.arguments.get(index as usize)?;
            if argument == id {
                return None;
            }
            self.nodes[id.0 as usize] = self.nodes[argument.0 as usize].clone();
        }
        Some(())
    }

    pub(super) fn special_name(&mut self) -> Option<Id> {
        const OF_TYPE: &[(&str, &str)] = &[
            ("TV", "vtable for "),
            ("TT", "VTT for "),
            ("TI", "typeinfo for "),
            ("TS", "typeinfo name for "),
        ];
        const OF_NAME: &[(&str, &str)] = &[
            ("GV", "guard variable for "),
            ("TW", "TLS wrapper function for "),
            ("TH", "TLS init function for "),
        ];
        for &(code, text) in OF_TYPE {
            if self.eat(code) {
                let of = self.type_()?;
                return self.make(Node::Special(text, of));
            }
        }
        for &(code, text) in OF_NAME {
            if self.eat(code) {
                let of = self.name(&mut NameFacts::default())?;
                return self.make(Node::Special(text, of));
            }
        }
        if self.eat("TA") {
            let of = self.template_argument()?;
            return self.make(Node::Special("template parameter object for ", of));
        }
        if self.eat("TC") {
            let derived = self.type_()?;
            self.number()?;
            self.expect("_")?;
            let base = self.type_()?;
            return self.make(Node::ConstructionVtable(base, derived));
        }
        if self.eat("GR") {
            let of = self.name(&mut NameFacts::default())?;
            let number = if self.at < self.text.len() { self.sequence_number()? } else { 0 };
            return self.make(Node::ReferenceTemporary(number, of));
        }
        if self.eat("GTt") {
            let of = self.encoding()?;
            return self.make(Node::Special("transaction clone for ", of));
        }
        if self.eat("GTn") {
            let of = self.encoding()?;
            return self.make(Node::Special("non-transaction clone for ", of));
        }
        if self.eat("GA") {
            let of = self.encoding()?;
            return self.make(Node::Special("hidden alias for ", of));
        }
        if self.eat("Tc") {
            self.call_offset()?;
            self.call_offset()?;
            let of = self.encoding()?;
            return self.make(Node::Special("covariant return thunk to ", of));
        }
        self.expect("T")?;
        let text = if self.peek() == b'v' { "virtual thunk to " } else { "non-virtual thunk to " };
        self.call_offset()?;
        let of = self.encoding()?;
        self.make(Node::Special(text, of))
    }

    pub(super) fn call_offset(&mut self) -> Option<()> {
        let numbers = if self.eat("h") {
            1
        } else {
            self.expect("v")?;
            2
        };
        for _ in 0..numbers {
            self.eat("n");
            self.number()?;
            self.expect("_")?;
        }
        Some(())
    }

    pub(super) fn name(&mut self, facts: &mut NameFacts) -> Option<Id> {
        self.deeper(|p| match p.peek() {
            b'N' => p.nested_name(facts),
            b'Z' => p.local_name(facts),
            b'S' if p.peek_after() != b't' => {
                let base = p.substitution()?;
                if p.peek() != b'I' {
                    return Some(base);
                }
                facts.template = true;
                let arguments = p.template_arguments(facts.record)?;
                p.make(Node::Template(base, arguments))
            }
            _ => {
                let mut name = if p.eat("St") {
                    let scope = p.name_node("std")?;
                    let inner = p.unqualified_name(facts, None)?;
                    p.make(Node::Nested(scope, inner))?
                } else {
                    p.unqualified_name(facts, None)?
                };
                if p.peek() == b'I' {
                    p.substitute(name);
                    facts.template = true;
                    let arguments = p.template_arguments(facts.record)?;
                    name = p.make(Node::Template(name, arguments))?;
                }
                Some(name)
            }
        })
    }

    pub(super) fn qualifiers(&mut self) -> Qualifiers {
        Qualifiers { restrict: self.eat("r"), volatile: self.eat("V"), constant: self.eat("K") }
    }

    pub(super) fn ref_qualifier(&mut self) -> RefQualifier {
        if self.eat("R") {
            RefQualifier::Lvalue
        } else if self.eat("O") {
            RefQualifier::Rvalue
        } else {
            RefQualifier::None
        }
    }

    pub(super) fn nested_name(&mut self, facts: &mut NameFacts) -> Option<Id> {
        self.expect("N")?;
        self.eat("H");
        facts.qualifiers = self.qualifiers();
        facts.reference = self.ref_qualifier();
        let mut so_far: Option<Id> = None;
        while !self.eat("E") {
            if so_far.is_some() && self.peek() == b'I' {
                facts.template = true;
                let arguments = self.template_arguments(facts.record)?;
                let name = self.make(Node::Template(so_far?, arguments))?;
                self.substitute(name);
                so_far = Some(name);
                continue;
            }
            facts.template = false;
            let name = match self.peek() {
                b'S' if self.peek_after() == b't' && so_far.is_none() => {
                    self.at += 2;
                    so_far = Some(self.name_node("std")?);
                    continue;
                }
                b'S' if so_far.is_none() => {
                    so_far = Some(self.substitution()?);
                    continue;
                }
                b'T' if so_far.is_none() => self.template_parameter()?,
                b'D' if matches!(self.peek_after(), b't' | b'T') && so_far.is_none() => self.decltype()?,
                b'M' if so_far.is_some() => {
                    // The initialiser of a data member: a scope of lambdas only.
                    self.at += 1;
                    continue;
                }
                _ => {
                    let inner = self.unqualified_name(facts, so_far)?;
                    match so_far {
                        Some(scope) => self.make(Node::Nested(scope, inner))?,
                        None => inner,
                    }
                }
            };
            self.substitute(name);
            so_far = Some(name);
        }
        // The whole name can be referred to only as a type, and `type_` adds it then.
        self.substitutions.pop()?;
        so_far
    }

    pub(super) fn local_name(&mut self, facts: &mut NameFacts) -> Option<Id> {
        self.expect("Z")?;
        let outer = self.arguments.clone();
        let function = self.encoding()?;
        if !facts.record {
            self.arguments = outer;
        }
        self.expect("E")?;
        if self.eat("s") {
            self.discriminator();
            let entity = self.name_node("string literal")?;
            return self.make(Node::Local(function, entity));
        }
        if self.eat("d") {
            let number = self.sequence_number()?;
            let entity = self.name(facts)?;
            return self.make(Node::DefaultArgument(function, number, entity));
        }
        let entity = self.name(facts)?;
        self.discriminator();
        self.make(Node::Local(function, entity))
    }

    pub(super) fn discriminator(&mut self) {
        let start = self.at;
        if self.eat("__") {
            if self.number().is_none() || !self.eat("_") {
                self.at = start;
            }
        } else if self.eat("_") {
            if self.peek().is_ascii_digit() {
                self.at += 1;
            } else {
                self.at = start;
            }
        }
    }

    pub(super) fn source_name(&mut self) -> Option<&'a str> {
        let length = self.number()? as usize;
        let name = self.rest().get(..length).filter(|n| !n.is_empty())?;
        self.at += length;
        let tail = name.strip_prefix("_GLOBAL_").map(str::as_bytes);
        if let Some([b'.' | b'_' | b'$', b'N', ..]) = tail {
            return Some("(anonymous namespace)");
        }
        Some(name)
    }

    pub(super) fn unqualified_name(&mut self, facts: &mut NameFacts, scope: Option<Id>) -> Option<Id> {
        facts.no_result = false;
        // Internal linkage, and friends defined in a class.
        self.eat("L");
        if self.peek() == b'F' && self.peek_after().is_ascii_digit() {
            self.at += 1;
        }
        let name = match self.peek() {
            b'U' => self.unnamed_type()?,
            b'D' if self.peek_after() == b'C' => {
                self.at += 2;
                let mut names = Vec::new();
                while !self.eat("E") {
                    let name = self.source_name()?;
                    names.push(self.name_node(name)?);
                }
                self.make(Node::Binding(names))?
            }
            b'C' | b'D' => {
                facts.no_result = true;
                let destructor = self.peek() == b'D';
                self.at += 1;
                let inheriting = !destructor && self.eat("I");
                if !matches!(self.peek(), b'0'..=b'5' | b'9') {
                    return None;
                }
                self.at += 1;
                // A constructor that is inherited has the name of the class it comes from.
                let class = if inheriting { self.name(&mut NameFacts::default())? } else { scope? };
                let base = self.base_name(class)?;
                self.make(if destructor { Node::Destructor(base) } else { Node::Constructor(base) })?
            }
            b'0'..=b'9' => {
                let name = self.source_name()?;
                self.name_node(name)?
            }
            _ => self.operator_name(facts)?,
        };
        self.tags(name)
    }

    pub(super) fn tags(&mut self, mut name: Id) -> Option<Id> {
        while self.eat("B") {
            let tag = self.source_name()?;
            name = self.make(Node::Tagged(name, tag))?;
        }
        Some(name)
    }

    /// The name of a class without scope and arguments, for its constructors; a standard abbreviation
    /// takes its long form there.
    pub(super) fn base_name(&mut self, of: Id) -> Option<Id> {
        let mut id = of;
        for _ in 0..DEEPEST {
            match self.nodes[id.0 as usize] {
                // A type without a name has constructors of the name before it.
                Node::Nested(scope, inner)
                    if matches!(self.nodes[inner.0 as usize], Node::Unnamed(_) | Node::Lambda(..)) =>
                {
                    id = scope;
                }
                Node::Nested(_, inner) | Node::Local(_, inner) | Node::DefaultArgument(_, _, inner) => {
                    id = inner
                }
                Node::Template(inner, _) | Node::Tagged(inner, _) => id = inner,
                Node::Standard(_, long, base) => {
                    self.nodes[id.0 as usize] = Node::Standard(long, long, base);
                    return self.name_node(base);
                }
                _ => return Some(id),
            }
        }
        None
    }

    pub(super) fn operator_name(&mut self, facts: &mut NameFacts) -> Option<Id> {
        if self.eat("cv") {
            facts.no_result = true;
            let outer = core::mem::replace(&mut self.permit_forward, true);
            let to = self.type_();
            self.permit_forward = outer;
            return self.make(Node::Conversion(to?));
        }
        if self.eat("li") {
            let name = self.source_name()?;
            let name = self.name_node(name)?;
            return self.make(Node::LiteralOperator(name));
        }
        let code = self.rest().get(..2)?;
        let symbol = operator(code)?.symbol;
        self.at += 2;
        self.make(Node::Operator(symbol))
    }

    pub(super) fn unnamed_type(&mut self) -> Option<Id> {
        if self.eat("Ut") {
            let number = self.sequence_number()?;
            return self.make(Node::Unnamed(number + 1));
        }
        self.expect("Ul")?;
        self.lambdas += 1;
        let parameters = self.until_end(Self::type_);
        self.lambdas -= 1;
        let number = self.sequence_number()?;
        self.make(Node::Lambda(parameters?, number + 1))
    }

    /// Elements up to and with an `E`.
    pub(super) fn until_end(&mut self, mut element: impl FnMut(&mut Self) -> Option<Id>) -> Option<Vec<Id>> {
        let mut all = Vec::new();
        while !self.eat("E") {
            all.push(element(self)?);
        }
        Some(all)
    }

    /// `record` says that the arguments become what `T_` refers to.
    pub(super) fn template_arguments(&mut self, record: bool) -> Option<Vec<Id>> {
        self.expect("I")?;
        let mut arguments = Vec::new();
        if record {
            self.arguments.clear();
        }
        while !self.eat("E") {
            if self.eat("Q") {
                self.expression()?;
                continue;
            }
            let argument = if record {
                let outer = self.arguments.clone();
                let argument = self.template_argument()?;
                self.arguments = outer;
                self.arguments.push(argument);
                argument
            } else {
                self.template_argument()?
            };
            arguments.push(argument);
        }
        Some(arguments)
    }

    pub(super) fn template_argument(&mut self) -> Option<Id> {
        self.deeper(|p| match p.peek() {
            b'X' => {
                p.at += 1;
                let expression = p.expression()?;
                p.expect("E")?;
                Some(expression)
            }
            b'J' => {
                p.at += 1;
                let all = p.until_end(Self::template_argument)?;
                p.make(Node::Pack(all))
            }
            b'L' => p.literal(),
            _ => p.type_(),
        })
    }

    pub(super) fn template_parameter(&mut self) -> Option<Id> {
        Some(self.numbered_parameter()?.0)
    }

    /// A template parameter and its number.
    pub(super) fn numbered_parameter(&mut self) -> Option<(Id, u64)> {
        self.expect("T")?;
        if self.eat("L") {
            self.number()?;
            self.expect("_")?;
        }
        let index = self.sequence_number()?;
        if self.lambdas > 0 {
            return Some((self.make(Node::Auto(index + 1))?, index));
        }
        if self.permit_forward {
            let id = self.make(Node::Forward(index))?;
            self.forward.push(id);
            return Some((id, index));
        }
        Some((self.argument(index)?, index))
    }

    /// What a template parameter stands for.
    pub(super) fn argument(&mut self, index: u64) -> Option<Id> {
        let argument = *self.arguments.get(usize::try_from(index).ok()?)?;
        match self.nodes[argument.0 as usize] {
            Node::Pack(_) => self.make(Node::PackParameter(argument)),
            _ => Some(argument),
        }
    }

    pub(super) fn substitution(&mut self) -> Option<Id> {
        self.expect("S")?;
        if self.peek().is_ascii_lowercase() {
            let (short, long, base) = standard(self.peek())?;
            self.at += 1;
            let name = self.make(Node::Standard(short, long, base))?;
            let tagged = self.tags(name)?;
            if tagged != name {
                self.substitute(tagged);
            }
            return Some(tagged);
        }
        let index = self.base36_number()?;
        match *self.substitutions.get(index)? {
            Substitution::Node(id) => Some(id),
            Substitution::Parameter(id, _) if self.lambdas > 0 => Some(id),
            Substitution::Parameter(id, index) => self.argument(index).or(Some(id)),
        }
    }

    pub(super) fn substitute(&mut self, id: Id) {
        self.substitutions.push(Substitution::Node(id));
    }
}
