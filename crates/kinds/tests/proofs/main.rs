//! What holds for every kind, whatever the object: codecs, defaults, validation, owners of fields, conversions, patches;
//! and golden files of tables and error texts.
//!
//! Objects are made from seeds, so that every run is the same. A property that does not hold prints the seed and the
//! smallest object found. `RKUBE_PROOF_CASES` and `RKUBE_PROOF_SEED` make more and other objects;
//! `UPDATE_GOLDEN=1` writes the golden files anew.

#![allow(clippy::unwrap_used)]

mod codecs;
mod conversions;
mod direct;
mod errors;
mod examples;
mod generator;
mod golden;
mod leaves;
mod owners;
mod property;
mod road;
mod rules;
mod scales;
mod strategic;
mod tables;
mod words;
