//! Back traces with names and lines, from addresses that the agent gives.

use crate::places::{Places, UNKNOWN};
use crate::tables::{Tables, get};

/// A frame with everything that is known of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Readable name of the function.
    pub function: String,
    /// `file:line`, if known.
    pub place: Option<String>,
    /// Path of the object, if it has one.
    pub object: Option<String>,
}

/// Describes the frame at `pc`, a return address unless it is the `newest`, in a recorded function.
pub fn describe(tables: &Tables, places: &mut Places, pc: u64, function: u32, newest: bool) -> Frame {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let Some(f) = get(&tables.functions, function) else {
        return Frame { function: text(UNKNOWN), place: None, object: None };
    };
    let number = places.object(tables, f.object);
    let name =
        if f.name.is_empty() && f.object != 0 { UNKNOWN.to_vec() } else { places.function_name(number, f) };
    let Some(object) = get(&tables.objects, f.object) else {
        return Frame { function: text(&name), place: None, object: None };
    };
    // A call's own line is that of its last byte.
    let svma = pc.wrapping_sub(object.bias).wrapping_sub(u64::from(!newest));
    let found = places.place(number, svma);
    let file = text(places.files.get(found.file));
    let base = file.rsplit('/').next().unwrap_or(&file);
    Frame {
        function: text(&name),
        place: (found.line != 0).then(|| format!("{base}:{}", found.line)),
        object: Some(text(object.path)),
    }
}

impl Frame {
    /// Where the function is, as Valgrind says it: `(file:line)` or `(in object)`, empty when nothing
    /// is known.
    pub fn location(&self) -> String {
        match (&self.place, &self.object) {
            (Some(place), _) => format!(" ({place})"),
            (None, Some(object)) => format!(" (in {object})"),
            (None, None) => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spool_file::SpoolFile;
    use crate::testing::two_functions;

    #[test]
    fn frames_without_line_name_their_object_and_unknown_ones_nothing() {
        let b = two_functions("frames");
        let spool = SpoolFile::open(&b.write()).unwrap();
        let log = spool.log().unwrap();
        let tables = Tables::read(&log).unwrap();
        let mut places = Places::new(&tables.config, 0);
        let frame = describe(&tables, &mut places, 0x1102, 1, true);
        assert_eq!((frame.function.as_str(), frame.location().as_str()), ("main", " (in /no/such/prog)"));
        let frame = describe(&tables, &mut places, 0x1102, 99, false);
        assert_eq!((frame.function.as_str(), frame.location().as_str()), ("???", ""));
    }
}
