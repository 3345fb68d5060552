//! Macros: calls that become other trees, most of them folds.

use std::sync::Arc;

use super::build::Builder;
use crate::ast::{Comprehension, Entry, Expr, Field, Kind, Literal};

/// The variable in which folds collect their result. No text can name it.
pub const ACCUMULATOR: &str = "@result";
/// Its name of old, which texts may still not bind.
const OLD_ACCUMULATOR: &str = "__result__";
/// The variable of folds that only bind another.
pub const UNUSED: &str = "#unused";
/// The variable in which `sortBy` keeps what it sorts.
pub const SORT_INPUT: &str = "@__sortBy_input__";

pub enum Expanded {
    Done(Expr),
    /// The call is one of a macro, but not as it should be.
    Wrong(Option<usize>, String),
    NoMacro(Option<Expr>, Vec<Expr>),
}

/// Where it is wrong, and how.
type Fault = (Option<usize>, String);
type Outcome = Result<Expr, Fault>;
/// One variable or two.
type Variables = (Arc<str>, Option<Arc<str>>);

/// Expands the call if a macro has its name and its number of arguments.
pub fn expand(
    build: &mut Builder,
    open: usize,
    name: &str,
    target: Option<Expr>,
    mut arguments: Vec<Expr>,
) -> Expanded {
    let mut site = Site { build, open };
    let outcome = match (name, arguments.len(), target) {
        ("has", 1, None) => site.has(arguments.remove(0)),
        ("all" | "exists" | "exists_one", 2, Some(target)) => site.quantifier(name, target, arguments),
        ("all" | "exists" | "exists_one" | "existsOne", 3, Some(target)) => site.quantifier(name, target, arguments),
        ("map", 2 | 3, Some(target)) => site.map(target, arguments),
        ("filter", 2, Some(target)) => site.filter(target, arguments),
        ("transformList" | "transformMap" | "transformMapEntry", 3 | 4, Some(target)) => {
            site.transform(name, target, arguments)
        }
        ("optMap" | "optFlatMap", 2, Some(target)) => site.optional_map(name, target, arguments),
        ("sortBy", 2, Some(target)) => site.sort_by(target, arguments),
        ("bind", 3, Some(Expr { kind: Kind::Ident(name), .. })) if name.as_ref() == "cel" && site.build.bind => {
            site.bound(arguments)
        }
        (_, _, target) => return Expanded::NoMacro(target, arguments),
    };
    match outcome {
        Ok(expr) => Expanded::Done(expr),
        Err((offset, message)) => Expanded::Wrong(offset, message),
    }
}

/// A call that is being expanded: all new parts stand where its parenthesis does.
struct Site<'a> {
    build: &'a mut Builder,
    open: usize,
}

impl Site<'_> {
    fn has(&mut self, argument: Expr) -> Outcome {
        match argument.kind {
            Kind::Select { operand, field, .. } => Ok(self.part(Kind::Select { operand, field, test: true })),
            _ => Err((argument.offset, "invalid argument to has() macro".to_owned())),
        }
    }

    fn quantifier(&mut self, name: &str, target: Expr, mut arguments: Vec<Expr>) -> Outcome {
        let predicate = arguments.pop();
        let variables = self.variables(&arguments)?;
        let predicate = predicate.unwrap_or_else(|| self.part(Kind::Unspecified));
        let (initial, condition, step, result) = match name {
            "all" => {
                let initial = self.literal(Literal::Bool(true));
                let (one, other, result) = (self.accumulator(), self.accumulator(), self.accumulator());
                let condition = self.call("@not_strictly_false", vec![one]);
                (initial, condition, self.call("_&&_", vec![other, predicate]), result)
            }
            "exists" => {
                let initial = self.literal(Literal::Bool(false));
                let (one, other, result) = (self.accumulator(), self.accumulator(), self.accumulator());
                let not = self.call("!_", vec![one]);
                let condition = self.call("@not_strictly_false", vec![not]);
                (initial, condition, self.call("_||_", vec![other, predicate]), result)
            }
            _ => {
                let (initial, condition) = (self.literal(Literal::Int(0)), self.literal(Literal::Bool(true)));
                let (one, other) = (self.accumulator(), self.accumulator());
                let increment = self.literal(Literal::Int(1));
                let more = self.call("_+_", vec![one, increment]);
                let step = self.call("_?_:_", vec![predicate, more, other]);
                let (count, wanted) = (self.accumulator(), self.literal(Literal::Int(1)));
                (initial, condition, step, self.call("_==_", vec![count, wanted]))
            }
        };
        Ok(self.fold(target, variables, initial, condition, step, result))
    }

    fn map(&mut self, target: Expr, mut arguments: Vec<Expr>) -> Outcome {
        let variable = self.variable(&arguments[0], "argument is not an identifier")?;
        let transform = arguments.pop().unwrap_or_else(|| self.part(Kind::Unspecified));
        let filter = if arguments.len() == 2 { arguments.pop() } else { None };
        Ok(self.collect_list(target, (variable, None), filter, transform))
    }

    fn filter(&mut self, target: Expr, mut arguments: Vec<Expr>) -> Outcome {
        let variable = self.variable(&arguments[0], "argument is not an identifier")?;
        let predicate = arguments.pop();
        let element = arguments.pop().unwrap_or_else(|| self.part(Kind::Unspecified));
        Ok(self.collect_list(target, (variable, None), predicate, element))
    }

    fn transform(&mut self, name: &str, target: Expr, mut arguments: Vec<Expr>) -> Outcome {
        let transform = arguments.pop().unwrap_or_else(|| self.part(Kind::Unspecified));
        let filter = if arguments.len() == 3 { arguments.pop() } else { None };
        let variables = self.variables(&arguments)?;
        if name == "transformList" {
            return Ok(self.collect_list(target, variables, filter, transform));
        }
        let mut parts = vec![self.accumulator()];
        if name == "transformMap" {
            let key = variables.0.clone();
            parts.push(self.part(Kind::Ident(key)));
        }
        parts.push(transform);
        let step = self.call("cel.@mapInsert", parts);
        let initial = self.part(Kind::Map(Vec::new()));
        Ok(self.collect(target, variables, initial, filter, step))
    }

    fn optional_map(&mut self, name: &str, target: Expr, mut arguments: Vec<Expr>) -> Outcome {
        let Kind::Ident(variable) = &arguments[0].kind else {
            return Err((arguments[0].offset, format!("{name}() variable name must be a simple identifier")));
        };
        let variable = variable.clone();
        let mapped = arguments.pop().unwrap_or_else(|| self.part(Kind::Unspecified));
        let copy = self.copy(&target);
        let present = self.member("hasValue", target, Vec::new());
        let value = self.member("value", copy, Vec::new());
        let mut then = self.bind(variable, value, mapped);
        if name == "optMap" {
            then = self.call("optional.of", vec![then]);
        }
        let none = self.call("optional.none", Vec::new());
        Ok(self.call("_?_:_", vec![present, then, none]))
    }

    fn sort_by(&mut self, target: Expr, arguments: Vec<Expr>) -> Outcome {
        let sortable = matches!(
            target.kind,
            Kind::List { .. } | Kind::Select { .. } | Kind::Ident(_) | Kind::Comprehension(_) | Kind::Call { .. }
        );
        if !sortable {
            let message = "sortBy can only be applied to a list, identifier, comprehension, call or select expression";
            return Err((target.offset, message.to_owned()));
        }
        let input = self.part(Kind::Ident(SORT_INPUT.into()));
        let keys = self.map(input, arguments)?;
        let list = self.part(Kind::Ident(SORT_INPUT.into()));
        let sorted = self.member("@sortByAssociatedKeys", list, vec![keys]);
        Ok(self.bind(SORT_INPUT.into(), target, sorted))
    }

    /// `cel.bind(variable, value, result)`
    fn bound(&mut self, mut arguments: Vec<Expr>) -> Outcome {
        let Kind::Ident(variable) = &arguments[0].kind else {
            let message = "cel.bind() variable names must be simple identifiers";
            return Err((arguments[0].offset, message.to_owned()));
        };
        let variable = variable.clone();
        let result = arguments.remove(2);
        let value = arguments.remove(1);
        Ok(self.bind(variable, value, result))
    }

    fn variables(&mut self, arguments: &[Expr]) -> Result<Variables, Fault> {
        let simple = "argument must be a simple name";
        let [one, other] = arguments else { return Ok((self.variable(&arguments[0], simple)?, None)) };
        let (Kind::Ident(first), Kind::Ident(second)) = (&one.kind, &other.kind) else {
            let wrong = if matches!(one.kind, Kind::Ident(_)) { other } else { one };
            return Err((wrong.offset, simple.to_owned()));
        };
        if first == second {
            return Err((other.offset, format!("duplicate variable name: {first}")));
        }
        Ok((self.variable(one, simple)?, Some(self.variable(other, simple)?)))
    }

    fn variable(&mut self, argument: &Expr, otherwise: &str) -> Result<Arc<str>, Fault> {
        let Kind::Ident(name) = &argument.kind else { return Err((argument.offset, otherwise.to_owned())) };
        if name.as_ref() == OLD_ACCUMULATOR {
            return Err((argument.offset, "iteration variable overwrites accumulator variable".to_owned()));
        }
        Ok(name.clone())
    }

    /// A fold that adds an element to a list at each turn.
    fn collect_list(&mut self, target: Expr, variables: Variables, filter: Option<Expr>, element: Expr) -> Expr {
        let initial = self.part(Kind::List { elements: Vec::new(), optional: Vec::new() });
        let accumulator = self.accumulator();
        let one = self.part(Kind::List { elements: vec![element], optional: Vec::new() });
        let step = self.call("_+_", vec![accumulator, one]);
        self.collect(target, variables, initial, filter, step)
    }

    fn collect(
        &mut self,
        target: Expr,
        variables: Variables,
        initial: Expr,
        filter: Option<Expr>,
        mut step: Expr,
    ) -> Expr {
        let condition = self.literal(Literal::Bool(true));
        if let Some(filter) = filter {
            let otherwise = self.accumulator();
            step = self.call("_?_:_", vec![filter, step, otherwise]);
        }
        let result = self.accumulator();
        self.fold(target, variables, initial, condition, step, result)
    }

    fn fold(
        &mut self,
        range: Expr,
        (variable, variable2): Variables,
        initial: Expr,
        condition: Expr,
        step: Expr,
        result: Expr,
    ) -> Expr {
        let accumulator = ACCUMULATOR.into();
        let fold = Comprehension { range, variable, variable2, accumulator, initial, condition, step, result };
        self.part(Kind::Comprehension(Box::new(fold)))
    }

    /// A fold over nothing: `result` where the variable has this value.
    fn bind(&mut self, variable: Arc<str>, value: Expr, result: Expr) -> Expr {
        let range = self.part(Kind::List { elements: Vec::new(), optional: Vec::new() });
        let condition = self.literal(Literal::Bool(false));
        let step = self.part(Kind::Ident(variable.clone()));
        let fold = Comprehension {
            range,
            variable: UNUSED.into(),
            variable2: None,
            accumulator: variable,
            initial: value,
            condition,
            step,
            result,
        };
        self.part(Kind::Comprehension(Box::new(fold)))
    }

    /// The same part with ids of its own.
    fn copy(&mut self, expr: &Expr) -> Expr {
        let mut boxed = |part: &Expr| Box::new(self.copy(part));
        let kind = match &expr.kind {
            Kind::Select { operand, field, test } => {
                Kind::Select { operand: boxed(operand), field: field.clone(), test: *test }
            }
            Kind::Call { function, target, arguments } => Kind::Call {
                function: function.clone(),
                target: target.as_deref().map(boxed),
                arguments: arguments.iter().map(|argument| self.copy(argument)).collect(),
            },
            Kind::List { elements, optional } => Kind::List {
                elements: elements.iter().map(|element| self.copy(element)).collect(),
                optional: optional.clone(),
            },
            Kind::Map(entries) => Kind::Map(entries.iter().map(|entry| self.copy_entry(entry)).collect()),
            Kind::Struct { name, fields } => {
                Kind::Struct { name: name.clone(), fields: fields.iter().map(|field| self.copy_field(field)).collect() }
            }
            Kind::Comprehension(fold) => Kind::Comprehension(Box::new(Comprehension {
                range: self.copy(&fold.range),
                variable: fold.variable.clone(),
                variable2: fold.variable2.clone(),
                accumulator: fold.accumulator.clone(),
                initial: self.copy(&fold.initial),
                condition: self.copy(&fold.condition),
                step: self.copy(&fold.step),
                result: self.copy(&fold.result),
            })),
            simple => simple.clone(),
        };
        self.build.expr(expr.offset, kind)
    }

    fn copy_entry(&mut self, entry: &Entry) -> Entry {
        let (key, value) = (self.copy(&entry.key), self.copy(&entry.value));
        self.build.ids += 1;
        Entry { id: self.build.ids, offset: Some(self.open), key, value, optional: entry.optional }
    }

    fn copy_field(&mut self, field: &Field) -> Field {
        let value = self.copy(&field.value);
        self.build.ids += 1;
        let (name, optional) = (field.name.clone(), field.optional);
        Field { id: self.build.ids, offset: Some(self.open), name, value, optional }
    }

    fn part(&mut self, kind: Kind) -> Expr {
        self.build.expr(Some(self.open), kind)
    }

    fn literal(&mut self, literal: Literal) -> Expr {
        self.part(Kind::Literal(literal))
    }

    fn accumulator(&mut self) -> Expr {
        self.part(Kind::Ident(ACCUMULATOR.into()))
    }

    fn call(&mut self, function: &str, arguments: Vec<Expr>) -> Expr {
        self.part(Kind::Call { function: function.into(), target: None, arguments })
    }

    fn member(&mut self, function: &str, target: Expr, arguments: Vec<Expr>) -> Expr {
        self.part(Kind::Call { function: function.into(), target: Some(Box::new(target)), arguments })
    }
}
