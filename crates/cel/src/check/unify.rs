//! Which type can stand for which, and what the types are that are still to be found.

use crate::types::Type;

/// What is known of the types that are still to be found. What a failed attempt learned is forgotten again.
#[derive(Debug, Default)]
pub struct Bindings {
    bound: Vec<Option<Type>>,
    /// Which were changed, and what they were.
    trail: Vec<(usize, Option<Type>)>,
}

impl Bindings {
    pub fn fresh(&mut self) -> Type {
        self.bound.push(None);
        Type::Variable(self.bound.len() - 1)
    }

    pub fn assignable(&mut self, one: &Type, other: &Type) -> bool {
        self.attempt(|bindings| bindings.fits(one, other))
    }

    pub fn all_assignable(&mut self, ones: &[Type], others: &[Type]) -> bool {
        self.attempt(|bindings| bindings.all_fit(&ones.iter().collect::<Vec<_>>(), &others.iter().collect::<Vec<_>>()))
    }

    /// The type with all that is known put in. What is not known stays, or with `finally` is dynamic.
    pub fn substitute(&self, subject: &Type, finally: bool) -> Type {
        if let Type::Variable(number) = subject {
            return match &self.bound[*number] {
                Some(known) => self.substitute(known, finally),
                None if finally => Type::Dyn,
                None => subject.clone(),
            };
        }
        if finally && matches!(subject, Type::Parameter(_)) {
            return Type::Dyn;
        }
        subject.with(&mut |inner| self.substitute(inner, finally))
    }

    fn attempt(&mut self, trial: impl FnOnce(&mut Self) -> bool) -> bool {
        self.trail.clear();
        let fits = trial(self);
        if !fits {
            while let Some((number, before)) = self.trail.pop() {
                self.bound[number] = before;
            }
        }
        fits
    }

    fn bind(&mut self, number: usize, to: Type) {
        let before = self.bound[number].replace(to);
        self.trail.push((number, before));
    }

    fn fits(&mut self, one: &Type, other: &Type) -> bool {
        if let Type::Variable(number) = other {
            match self.can_be(*number, one) {
                (true, _) => return true,
                (false, true) => return false,
                (false, false) => {}
            }
        }
        if let Type::Variable(number) = one {
            return self.can_be(*number, other).0;
        }
        if one.is_dyn() || one.is_error() || other.is_dyn() || other.is_error() {
            return true;
        }
        match (one, other) {
            (Type::Null, nullable) | (nullable, Type::Null) => {
                let nullable =
                    matches!(nullable, Type::Opaque(..) | Type::Object(_) | Type::Duration | Type::Timestamp);
                nullable || one == other
            }
            (Type::Type(_), Type::Type(_)) => true,
            (Type::List(_), Type::List(_)) | (Type::Map(..), Type::Map(..)) => {
                self.all_fit(&one.parameters(), &other.parameters())
            }
            (Type::Opaque(name, _), Type::Opaque(other_name, _)) => {
                name == other_name && self.all_fit(&one.parameters(), &other.parameters())
            }
            _ => one == other,
        }
    }

    fn all_fit(&mut self, ones: &[&Type], others: &[&Type]) -> bool {
        ones.len() == others.len() && ones.iter().zip(others).all(|(one, other)| self.fits(one, other))
    }

    /// Whether the variable can be this type, and whether something was known of it.
    fn can_be(&mut self, number: usize, subject: &Type) -> (bool, bool) {
        if *subject == Type::Variable(number) {
            return (true, true);
        }
        if let Some(known) = self.bound[number].clone() {
            if *subject == known {
                return (true, true);
            }
            if !self.fits(subject, &known) {
                return (false, true);
            }
            let general = more_general(subject, &known);
            if self.is_free_of(number, &general) {
                self.bind(number, general);
            }
            return (true, true);
        }
        if self.is_free_of(number, subject) {
            self.bind(number, subject.clone());
            return (true, false);
        }
        (false, false)
    }

    /// Whether the variable does not occur in the type.
    fn is_free_of(&self, number: usize, within: &Type) -> bool {
        match within {
            Type::Variable(other) if *other == number => false,
            Type::Variable(other) => self.bound[*other].as_ref().is_none_or(|known| self.is_free_of(number, known)),
            other => other.parameters().into_iter().all(|inner| self.is_free_of(number, inner)),
        }
    }
}

/// The more general of two types that fit.
pub fn more_general(one: &Type, other: &Type) -> Type {
    if is_as_general(one, other) { one.clone() } else { other.clone() }
}

fn is_as_general(one: &Type, other: &Type) -> bool {
    match (one, other) {
        (Type::Dyn | Type::Any | Type::Variable(_), _) => true,
        (_, Type::Dyn | Type::Any | Type::Variable(_)) => false,
        (Type::Type(_), Type::Type(_)) => true,
        (Type::List(_), Type::List(_)) | (Type::Map(..), Type::Map(..)) => all_as_general(one, other),
        (Type::Opaque(name, _), Type::Opaque(other_name, _)) => name == other_name && all_as_general(one, other),
        _ => one == other,
    }
}

fn all_as_general(one: &Type, other: &Type) -> bool {
    let (ones, others) = (one.parameters(), other.parameters());
    ones.len() == others.len() && ones.iter().zip(others).all(|(one, other)| is_as_general(one, other))
}
