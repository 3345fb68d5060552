//! Rules of custom resources, with what Kubernetes 1.36.4 answers.
//!
//! `cases.jsonl` has a case in each line: a rule on the schema and value of the first line, or a schema, an object and
//! what it replaces. `crd` has the errors of the definition, `errors` and `warnings` those of the object, `remaining` what
//! is left of the budget, `refused` that the definition is wrong elsewhere, `total` what the rules can cost. Errors of maps come in any order; here they are sorted.

mod cases;
mod properties;
