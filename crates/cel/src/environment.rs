//! What expressions can speak of, and how a text becomes a program.

use std::collections::HashMap;
use std::sync::Arc;

use crate::ast::Expr;
use crate::check;
use crate::declarations::Functions;
use crate::estimate::{self, Range, Sizes};
use crate::functions::EvalError;
use crate::parse;
use crate::plan;
use crate::program::Program;
use crate::source::{Issues, Source};
use crate::types::Type;

/// Types with fields, by name.
pub trait Types: Send + Sync {
    /// Whether there is a type with this name.
    fn contains(&self, name: &str) -> bool;
    /// What the name stands for where it is written by itself.
    fn named(&self, name: &str) -> Option<Type> {
        self.contains(name).then(|| Type::object(name))
    }
    /// The type of a field, if the type has it.
    fn field(&self, name: &str, field: &str) -> Option<Type>;
}

/// Types with fields that are listed one by one.
#[derive(Clone, Debug, Default)]
pub struct ObjectTypes(HashMap<String, HashMap<String, Type>>);

impl ObjectTypes {
    pub fn new() -> Self {
        ObjectTypes::default()
    }

    /// A type of this name with these fields.
    #[must_use]
    pub fn object<'a>(mut self, name: &str, fields: impl IntoIterator<Item = (&'a str, Type)>) -> Self {
        let fields = fields.into_iter().map(|(field, of)| (field.to_owned(), of)).collect();
        self.0.insert(name.to_owned(), fields);
        self
    }
}

impl Types for ObjectTypes {
    fn contains(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    fn field(&self, name: &str, field: &str) -> Option<Type> {
        self.0.get(name)?.get(field).cloned()
    }
}

/// A text that means something.
#[derive(Debug)]
pub struct Checked(check::Checked);

/// Why a text is no program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    #[error(transparent)]
    Wrong(#[from] Issues),
    /// A constant in it cannot be computed.
    #[error(transparent)]
    Constant(#[from] EvalError),
}

impl Checked {
    /// The type of what it evaluates to.
    pub fn result_type(&self) -> &Type {
        &self.0.types[self.0.root.id]
    }

    /// The tree with macros expanded. Names in it are those of what they mean.
    pub fn tree(&self) -> &Expr {
        &self.0.root
    }

    /// What evaluating it can cost, where variables are of these sizes.
    pub fn estimate(&self, sizes: &dyn Sizes) -> Range {
        estimate::estimate(&self.0, sizes)
    }

    pub fn program(&self) -> Result<Program, EvalError> {
        Ok(Program { root: plan::plan(&self.0)?, result: self.result_type().clone() })
    }
}

/// The variables, types and functions of an expression.
#[derive(Clone)]
pub struct Environment<'t> {
    pub(crate) variables: HashMap<String, Type>,
    pub(crate) types: Vec<Arc<dyn Types + 't>>,
    pub(crate) functions: &'static Functions,
    bind: bool,
}

impl<'t> Environment<'t> {
    /// Without variables, with the functions that Kubernetes gives to all expressions.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Environment { variables: HashMap::new(), types: Vec::new(), functions: Functions::base(), bind: false }
    }

    #[must_use]
    pub fn variable(mut self, name: &str, of: Type) -> Self {
        self.variables.insert(name.to_owned(), of);
        self
    }

    /// Types that variables, or values that are made, can have.
    #[must_use]
    pub fn types(mut self, types: Arc<dyn Types + 't>) -> Self {
        self.types.push(types);
        self
    }

    /// What expressions of mutating policies have beyond others: the types of patches and their functions.
    #[must_use]
    pub fn with_patches(mut self) -> Self {
        self.functions = Functions::with_patches();
        self.types.push(Arc::new(check::PatchTypes));
        self
    }

    /// With the macro `cel.bind`.
    #[must_use]
    pub fn with_bind(mut self) -> Self {
        self.bind = true;
        self
    }

    /// The program of this text, or what is wrong with it.
    pub fn compile(&self, text: &str) -> Result<Program, CompileError> {
        Ok(self.check(text)?.program()?)
    }

    /// The tree of the text, of which nothing is checked but the syntax.
    pub fn parse(&self, text: &str) -> Result<Expr, Issues> {
        parse::parse(&Source::new(text), self.bind).map(|tree| tree.root)
    }

    /// The first half of [`Environment::compile`]: what the text means, before constants are computed.
    pub fn check(&self, text: &str) -> Result<Checked, Issues> {
        let source = Source::new(text);
        let tree = parse::parse(&source, self.bind)?;
        check::check(self, &source, tree).map(Checked)
    }

    pub(crate) fn is_type(&self, name: &str) -> bool {
        self.types.iter().any(|types| types.contains(name))
    }

    pub(crate) fn named(&self, name: &str) -> Option<Type> {
        self.types.iter().find_map(|types| types.named(name))
    }

    pub(crate) fn field(&self, name: &str, field: &str) -> Option<Type> {
        self.types.iter().find(|types| types.contains(name))?.field(name, field)
    }
}
