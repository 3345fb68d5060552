//! tests later
