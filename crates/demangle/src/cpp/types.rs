//! Types in mangled text.

use super::parse::{NameFacts, Parser, Substitution};
use super::tree::{Exceptions, Id, Node, RefQualifier, Signature};

/// Built-in types by their letter.
fn builtin(letter: u8) -> Option<&'static str> {
    Some(match letter {
        b'a' => "signed char",
        b'b' => "bool",
        b'c' => "char",
        b'd' => "double",
        b'e' => "long double",
        b'f' => "float",
        b'g' => "__float128",
        b'h' => "unsigned char",
        b'i' => "int",
        b'j' => "unsigned int",
        b'l' => "long",
        b'm' => "unsigned long",
        b'n' => "__int128",
        b'o' => "unsigned __int128",
        b's' => "short",
        b't' => "unsigned short",
        b'v' => "void",
        b'w' => "wchar_t",
        b'x' => "long long",
        b'y' => "unsigned long long",
        b'z' => "...",
        _ => return None,
    })
}

/// Built-in types after a `D`.
fn long_builtin(letter: u8) -> Option<&'static str> {
    Some(match letter {
        b'a' => "auto",
        b'c' => "decltype(auto)",
        b'd' => "decimal64",
        b'e' => "decimal128",
        b'f' => "decimal32",
        b'h' => "half",
        b'i' => "char32_t",
        b'n' => "decltype(nullptr)",
        b's' => "char16_t",
        b'u' => "char8_t",
        _ => return None,
    })
}

impl<'a> Parser<'a> {
    pub(super) fn decltype(&mut self) -> Option<Id> {
        self.expect("D")?;
        self.at += 1;
        let expression = self.expression()?;
        self.expect("E")?;
        self.make(Node::Decltype(expression))
    }

    pub(super) fn type_(&mut self) -> Option<Id> {
        self.deeper(|p| p.any_type())
    }

    pub(super) fn any_type(&mut self) -> Option<Id> {
        let node = match self.peek() {
            b'r' | b'V' | b'K' => {
                let qualifiers = self.qualifiers();
                if self.peek() == b'F' || self.rest().starts_with("DoF") {
                    let mut signature = self.function_signature()?;
                    signature.qualifiers = qualifiers;
                    Node::FunctionType(signature)
                } else {
                    let of = self.type_()?;
                    Node::Qualified(of, qualifiers)
                }
            }
            b'U' => {
                if matches!(self.peek_after(), b'l' | b't') {
                    let name = self.name(&mut NameFacts::default())?;
                    self.substitute(name);
                    return Some(name);
                }
                self.at += 1;
                let qualifier = self.source_name()?;
                let mut name = self.name_node(qualifier)?;
                if self.peek() == b'I' {
                    let arguments = self.template_arguments(false)?;
                    name = self.make(Node::Template(name, arguments))?;
                }
                let of = self.type_()?;
                Node::VendorQualified(of, name)
            }
            b'P' => self.compound(Node::Pointer)?,
            b'R' => self.compound(Node::LvalueReference)?,
            b'O' => self.compound(Node::RvalueReference)?,
            b'C' => self.compound(|of| Node::Postfix(of, "_Complex"))?,
            b'G' => self.compound(|of| Node::Postfix(of, "_Imaginary"))?,
            b'F' => Node::FunctionType(self.function_signature()?),
            b'A' => {
                self.at += 1;
                let size = if self.peek().is_ascii_digit() {
                    let digits = self.rest().bytes().take_while(u8::is_ascii_digit).count();
                    let text = &self.rest()[..digits];
                    self.at += digits;
                    Some(self.name_node(text)?)
                } else if self.peek() != b'_' {
                    Some(self.expression()?)
                } else {
                    None
                };
                self.expect("_")?;
                let element = self.type_()?;
                Node::Array(element, size)
            }
            b'M' => {
                self.at += 1;
                let class = self.type_()?;
                let member = self.type_()?;
                Node::MemberPointer(class, member)
            }
            b'T' => {
                let (parameter, index) = self.numbered_parameter()?;
                self.substitutions.push(Substitution::Parameter(parameter, index));
                // Inside a conversion's type an `I` belongs to the conversion itself.
                if self.peek() == b'I' && !self.permit_forward {
                    let arguments = self.template_arguments(false)?;
                    Node::Template(parameter, arguments)
                } else {
                    return Some(parameter);
                }
            }
            b'S' if self.peek_after() != b't' => {
                let base = self.substitution()?;
                if self.peek() == b'I' {
                    let arguments = self.template_arguments(false)?;
                    Node::Template(base, arguments)
                } else {
                    return Some(base);
                }
            }
            b'D' => match self.peek_after() {
                b't' | b'T' => {
                    let id = self.decltype()?;
                    self.substitute(id);
                    return Some(id);
                }
                b'p' => {
                    self.at += 2;
                    let pattern = self.type_()?;
                    Node::Expansion(pattern)
                }
                b'v' => {
                    self.at += 2;
                    let size = if self.peek() == b'_' {
                        self.at += 1;
                        self.expression()?
                    } else {
                        let digits = self.rest().bytes().take_while(u8::is_ascii_digit).count();
                        let text = self.rest().get(..digits).filter(|t| !t.is_empty())?;
                        self.at += digits;
                        self.name_node(text)?
                    };
                    self.expect("_")?;
                    let element = self.type_()?;
                    Node::Vector(element, size)
                }
                b'o' | b'O' | b'w' | b'x' => Node::FunctionType(self.function_signature()?),
                b'F' => {
                    self.at += 2;
                    let digits = self.rest().bytes().take_while(u8::is_ascii_digit).count();
                    let text = match &self.rest()[..digits] {
                        "16" => "_Float16",
                        "32" => "_Float32",
                        "64" => "_Float64",
                        "128" => "_Float128",
                        _ => return None,
                    };
                    self.at += digits;
                    if self.eat("b") {
                        return self.name_node("std::bfloat16_t");
                    }
                    if self.eat("x") {
                        return None;
                    }
                    self.expect("_")?;
                    return self.name_node(text);
                }
                other => {
                    let text = long_builtin(other)?;
                    self.at += 2;
                    return self.name_node(text);
                }
            },
            b'u' => {
                self.at += 1;
                let name = self.source_name()?;
                let mut id = self.name_node(name)?;
                if self.peek() == b'I' {
                    let arguments = self.template_arguments(false)?;
                    id = self.make(Node::Template(id, arguments))?;
                }
                self.substitute(id);
                return Some(id);
            }
            letter => {
                if let Some(text) = builtin(letter) {
                    self.at += 1;
                    return self.name_node(text);
                }
                let name = self.class_name()?;
                self.substitute(name);
                return Some(name);
            }
        };
        let id = self.make(node)?;
        self.substitute(id);
        Some(id)
    }

    /// The name of a class or enumeration, whose template arguments are not those of the function.
    pub(super) fn class_name(&mut self) -> Option<Id> {
        // Elaborated type specifiers.
        for keyword in ["Ts", "Tu", "Te"] {
            if self.eat(keyword) {
                break;
            }
        }
        self.name(&mut NameFacts::default())
    }

    pub(super) fn compound(&mut self, node: impl FnOnce(Id) -> Node<'a>) -> Option<Node<'a>> {
        self.at += 1;
        let of = self.type_()?;
        Some(node(of))
    }

    pub(super) fn function_signature(&mut self) -> Option<Signature> {
        let mut signature = Signature::default();
        if self.eat("Do") {
            signature.exceptions = Exceptions::Noexcept;
        } else if self.eat("DO") {
            let condition = self.expression()?;
            self.expect("E")?;
            signature.exceptions = Exceptions::NoexceptIf(condition);
        } else if self.eat("Dw") {
            signature.exceptions = Exceptions::Throw(self.until_end(Self::type_)?);
        }
        self.eat("Dx");
        self.expect("F")?;
        self.eat("Y");
        signature.result = Some(self.type_()?);
        loop {
            if self.eat("E") {
                break;
            }
            if self.eat("RE") {
                signature.reference = RefQualifier::Lvalue;
                break;
            }
            if self.eat("OE") {
                signature.reference = RefQualifier::Rvalue;
                break;
            }
            signature.parameters.push(self.type_()?);
        }
        Some(signature)
    }
}
