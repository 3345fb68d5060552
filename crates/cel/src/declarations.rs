//! The functions that expressions can call, from a table.
//!
//! A row of `declarations.tsv` is one signature: function, its own name, whether it is called on a value, the types of
//! its arguments and of its result. The order of rows counts: the first that fits gives the result its type.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::types::Type;

static BASE: LazyLock<Functions> = LazyLock::new(|| Functions::read(&[include_str!("declarations.tsv")]));
static PATCH: LazyLock<Functions> =
    LazyLock::new(|| Functions::read(&[include_str!("declarations.tsv"), include_str!("declarations-patch.tsv")]));

/// One signature of a function.
#[derive(Debug)]
pub struct Overload {
    pub name: &'static str,
    pub member: bool,
    pub arguments: Vec<Type>,
    pub result: Type,
    /// The parameters in its types.
    pub parameters: Vec<String>,
}

/// Functions by name.
#[derive(Debug)]
pub struct Functions(HashMap<&'static str, Vec<Overload>>);

impl Functions {
    /// What every expression can call.
    pub fn base() -> &'static Functions {
        &BASE
    }

    /// With what the expressions of mutating policies can call.
    pub fn with_patches() -> &'static Functions {
        &PATCH
    }

    pub fn get(&self, name: &str) -> Option<(&'static str, &[Overload])> {
        self.0.get_key_value(name).map(|(name, overloads)| (*name, overloads.as_slice()))
    }

    fn read(tables: &[&'static str]) -> Functions {
        let mut functions: HashMap<&'static str, Vec<Overload>> = HashMap::new();
        for row in tables.iter().flat_map(|table| table.lines()) {
            let columns: Vec<&'static str> = row.split('\t').collect();
            let [function, name, style, arguments, result] = columns[..] else { continue };
            let arguments: Vec<Type> = arguments.split("; ").filter(|text| !text.is_empty()).map(read_type).collect();
            let result = read_type(result);
            let mut parameters = Vec::new();
            arguments.iter().chain([&result]).for_each(|part| collect_parameters(part, &mut parameters));
            let overload = Overload { name, member: style == "member", arguments, result, parameters };
            functions.entry(function).or_default().push(overload);
        }
        Functions(functions)
    }
}

/// A type as the table has it.
fn read_type(text: &str) -> Type {
    if let Some((name, rest)) = text.split_once('(') {
        let inner = split_parameters(rest.strip_suffix(')').unwrap_or(rest));
        let parameters: Vec<Type> = inner.into_iter().map(read_type).collect();
        return match (name, &parameters[..]) {
            ("list", [element]) => Type::list(element.clone()),
            ("map", [key, value]) => Type::map(key.clone(), value.clone()),
            ("type", [of]) => Type::of_type(of.clone()),
            _ => Type::Opaque(name.into(), parameters.into()),
        };
    }
    match text {
        "dyn" => Type::Dyn,
        "null" => Type::Null,
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "string" => Type::String,
        "bytes" => Type::Bytes,
        "duration" => Type::Duration,
        "timestamp" => Type::Timestamp,
        "type" => Type::Type(None),
        "net.IP" | "net.CIDR" => Type::opaque(text),
        parameter if parameter.len() == 1 => Type::Parameter(parameter.into()),
        object => Type::object(object),
    }
}

/// `a, b(c, d)` in its two parts.
fn split_parameters(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0, 0);
    for (index, letter) in text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(text[start..index].trim());
                start = index + 1;
            }
            _ => {}
        }
    }
    parts.push(text[start..].trim());
    parts
}

fn collect_parameters(part: &Type, names: &mut Vec<String>) {
    if let Type::Parameter(name) = part
        && !names.iter().any(|known| known == name.as_ref())
    {
        names.push(name.to_string());
    }
    part.parameters().into_iter().for_each(|inner| collect_parameters(inner, names));
}
