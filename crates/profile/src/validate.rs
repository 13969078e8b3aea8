//! x
use crate::Profile;
/// x
pub fn findings(_: &Profile) {}
