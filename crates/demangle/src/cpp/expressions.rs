//! Literals and expressions in mangled text.

use super::operators::{Operator, operator};
use super::parse::{NameFacts, Parser};
use super::tree::{Expression, Id, Node};
use alloc::vec;
use alloc::vec::Vec;

impl<'a> Parser<'a> {
    pub(super) fn literal(&mut self) -> Option<Id> {
        self.expect("L")?;
        if self.eat("_Z") || self.eat("Z") {
            let arguments = self.arguments.clone();
            let name = self.encoding();
            self.arguments = arguments;
            self.expect("E")?;
            return name;
        }
        let of = self.type_()?;
        let end = self.rest().find('E')?;
        let digits = &self.rest()[..end];
        self.at += end + 1;
        self.make(Node::Literal(of, digits))
    }

    pub(super) fn expressions_until_end(&mut self) -> Option<Vec<Id>> {
        self.until_end(Self::expression)
    }

    pub(super) fn make_expression(&mut self, expression: Expression<'a>) -> Option<Id> {
        self.make(Node::Expression(expression))
    }

    pub(super) fn expression(&mut self) -> Option<Id> {
        self.deeper(|p| p.any_expression())
    }

    pub(super) fn any_expression(&mut self) -> Option<Id> {
        let global = self.rest().starts_with("gs");
        if global && !matches!(self.text.as_bytes().get(self.at + 2), Some(b's')) {
            self.at += 2;
            if matches!(self.rest().get(..2), Some("nw" | "na" | "dl" | "da")) {
                return self.any_expression();
            }
            let name = self.unresolved_base()?;
            return self.make(Node::Global(name));
        }
        match self.peek() {
            b'L' => return self.literal(),
            b'T' => return self.template_parameter(),
            b'f' if self.peek_after() == b'p' => {
                self.at += 2;
                if self.eat("T") {
                    return self.make_expression(Expression::Parameter(0));
                }
                self.qualifiers();
                let n = self.sequence_number()?;
                return self.make_expression(Expression::Parameter(n + 1));
            }
            b'f' if self.peek_after() == b'L' => {
                self.at += 2;
                self.number()?;
                self.expect("p")?;
                self.qualifiers();
                let n = self.sequence_number()?;
                return self.make_expression(Expression::Parameter(n + 1));
            }
            b'f' if matches!(self.peek_after(), b'l' | b'r' | b'L' | b'R') => return self.fold(),
            b'0'..=b'9' => return self.simple_id(),
            _ => {}
        }
        let code = self.rest().get(..2)?;
        self.at += 2;
        match code {
            "cl" => {
                let function = self.expression()?;
                let arguments = self.expressions_until_end()?;
                self.make_expression(Expression::Call(function, arguments))
            }
            "cv" => {
                let to = self.type_()?;
                let arguments =
                    if self.eat("_") { self.expressions_until_end()? } else { vec![self.expression()?] };
                self.make_expression(Expression::Cast(to, arguments))
            }
            "tl" => {
                let of = self.type_()?;
                let values = self.expressions_until_end()?;
                self.make_expression(Expression::Braced(Some(of), values))
            }
            "il" => {
                let values = self.expressions_until_end()?;
                self.make_expression(Expression::Braced(None, values))
            }
            "dc" | "sc" | "cc" | "rc" => {
                let name = match code {
                    "dc" => "dynamic_cast",
                    "sc" => "static_cast",
                    "cc" => "const_cast",
                    _ => "reinterpret_cast",
                };
                let to = self.type_()?;
                let value = self.expression()?;
                self.make_expression(Expression::NamedCast(name, to, value))
            }
            "st" | "at" | "ti" => {
                let name = match code {
                    "st" => "sizeof ",
                    "at" => "alignof ",
                    _ => "typeid ",
                };
                let of = self.type_()?;
                self.make_expression(Expression::OfType(name, of))
            }
            "sz" | "az" | "te" | "nx" | "tw" => {
                let name = match code {
                    "sz" => "sizeof ",
                    "az" => "alignof ",
                    "te" => "typeid ",
                    "nx" => "noexcept",
                    _ => "throw ",
                };
                let of = self.expression()?;
                self.make_expression(Expression::Unary(name, of))
            }
            "tr" => self.make_expression(Expression::Word("throw")),
            "sZ" => {
                let pack = if self.peek() == b'T' { self.template_parameter()? } else { self.expression()? };
                self.make_expression(Expression::PackSize(pack))
            }
            "sp" => {
                let pattern = self.expression()?;
                self.make(Node::Expansion(pattern))
            }
            "sr" => self.scoped_name(),
            "on" => {
                let name = self.operator_name(&mut NameFacts::default())?;
                self.with_arguments(name)
            }
            "dn" => {
                let name = self.unresolved_base()?;
                self.make_expression(Expression::Unary("~", name))
            }
            "dt" | "pt" => {
                let object = self.expression()?;
                let member =
                    if self.peek().is_ascii_digit() { self.simple_id()? } else { self.expression()? };
                let symbol = if code == "dt" { "." } else { "->" };
                self.make_expression(Expression::Binary(symbol, object, member))
            }
            "pp" | "mm" => {
                let symbol = if code == "pp" { "++" } else { "--" };
                if self.eat("_") {
                    let of = self.expression()?;
                    return self.make_expression(Expression::Unary(symbol, of));
                }
                let of = self.expression()?;
                self.make_expression(Expression::Suffix(symbol, of))
            }
            "qu" => {
                let (a, b) = (self.expression()?, self.expression()?);
                let c = self.expression()?;
                self.make_expression(Expression::Conditional(a, b, c))
            }
            "nw" | "na" => {
                let mut placement = Vec::new();
                while !self.eat("_") {
                    placement.push(self.expression()?);
                }
                let of = self.type_()?;
                let initial = if self.eat("pi") {
                    Some(self.expressions_until_end()?)
                } else {
                    self.expect("E")?;
                    None
                };
                self.make_expression(Expression::New(placement, of, initial))
            }
            _ => {
                let Operator { symbol, operands } = operator(code)?;
                match operands {
                    1 => {
                        let of = self.expression()?;
                        self.make_expression(Expression::Unary(symbol, of))
                    }
                    2 => {
                        let (a, b) = (self.expression()?, self.expression()?);
                        self.make_expression(Expression::Binary(symbol, a, b))
                    }
                    _ => None,
                }
            }
        }
    }

    pub(super) fn fold(&mut self) -> Option<Id> {
        let kind = self.peek_after() as char;
        self.at += 2;
        let code = self.rest().get(..2)?;
        let symbol = operator(code)?.symbol;
        self.at += 2;
        let first = self.expression()?;
        let second = if kind.is_ascii_uppercase() { Some(self.expression()?) } else { None };
        self.make_expression(Expression::Fold(kind, symbol, first, second))
    }

    /// An identifier with template arguments, in an expression.
    pub(super) fn simple_id(&mut self) -> Option<Id> {
        let name = self.source_name()?;
        let name = self.name_node(name)?;
        let name = self.tags(name)?;
        self.with_arguments(name)
    }

    pub(super) fn with_arguments(&mut self, name: Id) -> Option<Id> {
        if self.peek() != b'I' {
            return Some(name);
        }
        let arguments = self.template_arguments(false)?;
        self.make(Node::Template(name, arguments))
    }

    pub(super) fn unresolved_base(&mut self) -> Option<Id> {
        if self.eat("on") {
            let name = self.operator_name(&mut NameFacts::default())?;
            return self.with_arguments(name);
        }
        if self.eat("dn") {
            let name = if self.peek().is_ascii_digit() { self.simple_id()? } else { self.type_()? };
            return self.make_expression(Expression::Unary("~", name));
        }
        self.simple_id()
    }

    /// What follows `sr`: a name below a type.
    pub(super) fn scoped_name(&mut self) -> Option<Id> {
        if self.eat("N") {
            let mut scope = self.type_()?;
            scope = self.with_arguments(scope)?;
            while !self.eat("E") {
                let level = self.simple_id()?;
                scope = self.make(Node::Scoped(scope, level))?;
            }
            let name = self.unresolved_base()?;
            return self.make(Node::Scoped(scope, name));
        }
        let scope = if self.peek().is_ascii_digit() {
            let mut scope = self.simple_id()?;
            while !self.eat("E") {
                let level = self.simple_id()?;
                scope = self.make(Node::Scoped(scope, level))?;
            }
            scope
        } else {
            self.type_()?
        };
        let name = self.unresolved_base()?;
        self.make(Node::Scoped(scope, name))
    }
}
