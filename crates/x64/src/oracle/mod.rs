//! The decoder against iced-x86, an independent one: where its tables come from, and comparisons.

mod accesses;
mod compare;
mod describe;
mod encode;
mod facts;
mod generate;
mod points;
mod tests;
mod text;
