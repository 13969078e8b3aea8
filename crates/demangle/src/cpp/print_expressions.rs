//! Literals and expressions to text.

use super::print::{Printed, Printer};
use super::tree::{Expression, Id, Node};
use alloc::format;
use alloc::string::ToString;

impl<'a> Printer<'_, 'a> {
    pub(super) fn literal(&mut self, of: Id, digits: &str) -> Printed {
        let type_name = match self.node(of) {
            Node::Name(text) => *text,
            _ => "",
        };
        let suffix = match type_name {
            "int" => Some(""),
            "unsigned int" => Some("u"),
            "long" => Some("l"),
            "unsigned long" => Some("ul"),
            "long long" => Some("ll"),
            "unsigned long long" => Some("ull"),
            "bool" if digits == "0" => return self.push("false"),
            "bool" if digits == "1" => return self.push("true"),
            _ => None,
        };
        if suffix.is_none() {
            self.push("(")?;
            self.whole(of)?;
            self.push(")")?;
        }
        let is_float = matches!(type_name, "float" | "double" | "long double" | "__float128");
        if let Some(positive) = digits.strip_prefix('n') {
            self.push("-")?;
            self.push(positive)?;
        } else if is_float {
            self.push(&format!("[{digits}]"))?;
        } else {
            self.push(digits)?;
        }
        self.push(suffix.unwrap_or(""))
    }

    /// An operand: in parentheses unless it is a name.
    fn operand(&mut self, id: Id) -> Printed {
        let simple = match self.node(self.resolve(id)) {
            Node::Name(_) | Node::Nested(..) | Node::Scoped(..) => true,
            Node::Expression(e) => matches!(e, Expression::Parameter(_) | Expression::Braced(..)),
            _ => false,
        };
        if simple {
            return self.whole(id);
        }
        self.push("(")?;
        self.whole(id)?;
        self.push(")")
    }

    fn in_parentheses(&mut self, all: &[Id]) -> Printed {
        self.push("(")?;
        self.list(all)?;
        self.push(")")
    }

    pub(super) fn expression(&mut self, expression: &Expression<'a>) -> Printed {
        match expression {
            Expression::Unary("&", of) => {
                self.push("&")?;
                match self.node(*of).clone() {
                    // The address of a function is shown without its parameters when it has a scope.
                    Node::Function(name, _) if matches!(self.node(name), Node::Nested(..)) => {
                        self.whole(name)
                    }
                    _ => self.operand(*of),
                }
            }
            Expression::Unary(symbol, of) => {
                self.push(symbol)?;
                self.operand(*of)
            }
            Expression::Suffix(symbol, of) => {
                self.operand(*of)?;
                self.push(symbol)
            }
            Expression::Binary("[]", a, b) => {
                self.operand(*a)?;
                self.push("[")?;
                self.whole(*b)?;
                self.push("]")
            }
            Expression::Binary(symbol @ ("." | "->"), a, b) => {
                self.operand(*a)?;
                self.push(symbol)?;
                self.whole(*b)
            }
            Expression::Binary(symbol, a, b) => {
                // A bare '>' would look like the end of template arguments.
                let wrap = *symbol == ">";
                if wrap {
                    self.push("(")?;
                }
                self.operand(*a)?;
                self.push(symbol)?;
                self.operand(*b)?;
                if wrap {
                    self.push(")")?;
                }
                Some(())
            }
            Expression::Conditional(a, b, c) => {
                self.operand(*a)?;
                self.push("?")?;
                self.operand(*b)?;
                self.push(" : ")?;
                self.operand(*c)
            }
            Expression::Call(function, arguments) => {
                match self.node(*function).clone() {
                    Node::Function(name, _) => self.operand(name)?,
                    _ => self.operand(*function)?,
                }
                self.in_parentheses(arguments)
            }
            Expression::Cast(to, arguments) => {
                self.push("(")?;
                self.whole(*to)?;
                self.push(")")?;
                self.in_parentheses(arguments)
            }
            Expression::NamedCast(name, to, value) => {
                self.push(name)?;
                self.push("<")?;
                self.whole(*to)?;
                self.push(">(")?;
                self.whole(*value)?;
                self.push(")")
            }
            Expression::Braced(of, values) => {
                if let Some(of) = of {
                    self.whole(*of)?;
                }
                self.push("{")?;
                self.list(values)?;
                self.push("}")
            }
            Expression::New(placement, of, initial) => {
                self.push("new ")?;
                if !placement.is_empty() {
                    self.in_parentheses(placement)?;
                    self.push(" ")?;
                }
                self.whole(*of)?;
                match initial {
                    Some(values) => self.in_parentheses(values),
                    None => Some(()),
                }
            }
            Expression::Parameter(0) => self.push("this"),
            Expression::Parameter(number) => self.push(&format!("{{parm#{number}}}")),
            Expression::PackSize(pack) => {
                let mut budget = 4096;
                match self.pack_length(*pack, &mut budget) {
                    Some(length) => self.push(&length.to_string()),
                    None => {
                        self.push("sizeof...(")?;
                        self.whole(*pack)?;
                        self.push(")")
                    }
                }
            }
            Expression::OfType(name, of) => {
                self.push(name)?;
                self.push("(")?;
                self.whole(*of)?;
                self.push(")")
            }
            Expression::Fold(kind, symbol, first, second) => self.fold(*kind, symbol, *first, *second),
            Expression::Word(text) => self.push(text),
        }
    }

    fn fold(&mut self, kind: char, symbol: &str, first: Id, second: Option<Id>) -> Printed {
        // The pack itself is shown, not its elements.
        let outer = self.element.take();
        self.push("(")?;
        match (kind, second) {
            ('l', _) => {
                self.push("...")?;
                self.push(symbol)?;
                self.operand(first)?;
            }
            ('r', _) => {
                self.operand(first)?;
                self.push(symbol)?;
                self.push("...")?;
            }
            (_, Some(second)) => {
                self.operand(first)?;
                self.push(symbol)?;
                self.push("...")?;
                self.push(symbol)?;
                self.operand(second)?;
            }
            _ => return None,
        }
        self.element = outer;
        self.push(")")
    }
}
