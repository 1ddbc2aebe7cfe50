//! The core function library of XPath 1.0 (section 4), by the type of the result.

use super::budget::Exceeded;
use super::cache::Want;
use super::expressions::{ExprId, Function, Type};
use super::run::{Context, Evaluation};
use super::steps::sort;
use super::strings::{is_language, round, substring, translate};
use super::text::Text;
use super::tree::Node;
use crate::values::number::number as parse_number;
use crate::values::strings::{length, normalize_space, words};
use memchr::memmem;

/// Bytes that a translated or normalised byte counts for: it takes so much longer than one that is copied.
const TRANSLATED: usize = 8;
const NORMALISED: usize = 4;
/// Steps that a conversion to a number counts for.
const CONVERTED: usize = 6;

impl<'a> Evaluation<'a, '_> {
    pub(super) fn boolean_function(
        &mut self,
        function: Function,
        arguments: &[ExprId],
        context: Context,
    ) -> Result<bool, Exceeded> {
        Ok(match (function, arguments) {
            (Function::True, _) => true,
            (Function::Not, &[a]) => !self.boolean(a, context)?,
            (Function::Boolean, &[a]) => self.boolean(a, context)?,
            (Function::StartsWith, &[a, b]) => {
                let (a, b) = self.two(a, b, context)?;
                a.starts_with(&b)
            }
            (Function::Contains, &[a, b]) => {
                let (a, b) = self.two(a, b, context)?;
                memmem::find(&a, &b).is_some()
            }
            (Function::Lang, &[a]) => {
                let asked = self.text(a, context)?;
                self.has_language(context.node, &asked)?
            }
            _ => false,
        })
    }

    pub(super) fn number_function(
        &mut self,
        function: Function,
        arguments: &[ExprId],
        context: Context,
    ) -> Result<f64, Exceeded> {
        Ok(match (function, arguments) {
            (Function::Last, _) => f64::from(context.size),
            (Function::Position, _) => f64::from(context.position),
            (Function::Count, &[a]) => self.nodes(a, context, Want::All)?.len() as f64,
            (Function::Sum, &[a]) => {
                let nodes = self.nodes(a, context, Want::All)?;
                let mut sum = 0.0;
                for &node in &*nodes {
                    sum += self.node_number(node)?;
                }
                sum
            }
            (Function::StringLength, &[a]) => {
                let text = self.one(a, context)?;
                length(&text) as f64
            }
            (Function::Number, &[a]) => self.number(a, context)?,
            (Function::Floor, &[a]) => self.number(a, context)?.floor(),
            (Function::Ceiling, &[a]) => self.number(a, context)?.ceil(),
            (Function::Round, &[a]) => round(self.number(a, context)?),
            _ => f64::NAN,
        })
    }

    pub(super) fn text_function(
        &mut self,
        function: Function,
        arguments: &[ExprId],
        context: Context,
    ) -> Result<Text<'a>, Exceeded> {
        Ok(match (function, arguments) {
            (Function::String, &[a]) => self.text(a, context)?,
            (Function::LocalName | Function::NamespaceUri | Function::Name, &[a]) => {
                match self.nodes(a, context, Want::First)?.first() {
                    Some(&first) => self.name_function(function, first)?,
                    None => Text::Part(b""),
                }
            }
            (Function::Concat, _) => {
                let mut made = vec![];
                for &a in arguments {
                    let text = self.one(a, context)?;
                    made.extend_from_slice(&text);
                }
                Text::Made(made)
            }
            (Function::SubstringBefore, &[a, b]) => {
                let (a, b) = self.two(a, b, context)?;
                let end = memmem::find(&a, &b).unwrap_or(0);
                a.slice(0..end)
            }
            (Function::SubstringAfter, &[a, b]) => {
                let (a, b) = self.two(a, b, context)?;
                let size = a.len();
                let start = memmem::find(&a, &b).map_or(size, |at| at + b.len());
                a.slice(start..size)
            }
            (Function::Substring, &[a, from]) => {
                let (text, from) = (self.one(a, context)?, self.number(from, context)?);
                let range = substring(&text, from, None);
                text.slice(range)
            }
            (Function::Substring, &[a, from, count]) => {
                let (text, from) = (self.one(a, context)?, self.number(from, context)?);
                let range = substring(&text, from, Some(self.number(count, context)?));
                text.slice(range)
            }
            (Function::NormalizeSpace, &[a]) => {
                let text = self.text(a, context)?;
                self.meter.bytes(NORMALISED * text.len())?;
                Text::Made(normalize_space(&text))
            }
            (Function::Translate, &[a, from, to]) => {
                let (text, from) = (self.text(a, context)?, self.text(from, context)?);
                let to = self.text(to, context)?;
                self.meter.bytes(TRANSLATED * (text.len() + from.len() + to.len()))?;
                Text::Made(translate(&text, &from, &to))
            }
            _ => Text::Part(b""),
        })
    }

    /// Returns the string that an argument is, and pays for reading it.
    fn one(&mut self, argument: ExprId, context: Context) -> Result<Text<'a>, Exceeded> {
        let text = self.text(argument, context)?;
        self.meter.bytes(text.len())?;
        Ok(text)
    }

    fn two(&mut self, a: ExprId, b: ExprId, context: Context) -> Result<(Text<'a>, Text<'a>), Exceeded> {
        Ok((self.one(a, context)?, self.one(b, context)?))
    }

    /// Returns the number that a node's string-value is.
    pub(super) fn node_number(&mut self, node: Node) -> Result<f64, Exceeded> {
        self.meter.steps(CONVERTED)?;
        let value = self.value(node)?;
        self.meter.bytes(value.len())?;
        Ok(parse_number(&value))
    }

    fn name_function(&mut self, function: Function, node: Node) -> Result<Text<'a>, Exceeded> {
        let n = node.index();
        let name = match function {
            _ if node.is_namespace() && function == Function::NamespaceUri => Text::Part(b""),
            _ if node.is_namespace() => {
                self.pay_for_scope(n)?;
                Text::Part(self.tree.namespace(node, &mut self.state.scopes).prefix(&self.tree))
            }
            Function::Name => Text::Part(self.tree.name(n)),
            Function::LocalName => Text::Part(self.tree.local_name(n)),
            _ => {
                if self.tree.names.namespace_name(self.tree.symbol(n)).is_none() {
                    self.pay_for_scope(n)?;
                }
                self.tree.namespace_uri(n, &mut self.state.scopes)
            }
        };
        self.meter.bytes(name.len())?;
        Ok(name)
    }

    /// Whether the nearest `xml:lang` around a node says that its language is the one asked for.
    fn has_language(&mut self, node: Node, asked: &[u8]) -> Result<bool, Exceeded> {
        let mut at = node.index();
        while at != 0 {
            if self.tree.is_element(at) {
                self.meter.steps(self.tree.attributes(at) + 1)?;
                if let Some(attribute) = self.tree.language(at) {
                    let value = self.value(Node::new(attribute))?;
                    self.meter.bytes(asked.len())?;
                    return Ok(is_language(&value, asked));
                }
            }
            at = self.tree.parent(at);
        }
        Ok(false)
    }

    /// Returns the elements with the IDs that the argument lists; of a node-set every string-value is a list.
    pub(super) fn by_id(&mut self, arguments: &[ExprId], context: Context) -> Result<Vec<Node>, Exceeded> {
        let &[argument] = arguments else { return Ok(vec![]) };
        let mut texts = vec![];
        if self.all.info(argument).of == Type::Nodes {
            for &node in &*self.nodes(argument, context, Want::All)? {
                texts.push(self.value(node)?);
            }
        } else {
            texts.push(self.text(argument, context)?);
        }
        // whoever asks first makes the table; everybody pays the same
        let tree = self.tree;
        self.state.ids.get_or_insert_with(|| tree.ids());
        let mut found = vec![];
        for text in texts {
            self.meter.bytes(text.len())?;
            for id in words(&text) {
                self.meter.steps(1)?;
                let element = self.state.ids.as_ref().and_then(|ids| ids.get(id));
                found.extend(element.map(|&n| Node::new(n)));
            }
        }
        sort(&mut found);
        Ok(found)
    }
}
