//! Loading and selecting what the commands work on.

use super::Failure;
use anyhow::{Context, anyhow};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use tallygraph_profile::Profile;
use tallygraph_profile::contexts::{self, Contexts};
use tallygraph_profile::graph::{self, CallGraph};
use tallygraph_profile::model::{EventDefinition, Part};
use tallygraph_profile::read;

/// Files larger than this are worth a progress bar.
const PROGRESS_FROM: u64 = 64 << 20;

/// Options that choose a part of a profile; every command has them.
#[derive(Args, Debug, Clone, Default)]
pub struct Selection {
    /// Only this part; may be repeated
    #[arg(long = "part", value_name = "N", allow_negative_numbers = true)]
    pub parts: Vec<i64>,
    /// Only this thread; may be repeated
    #[arg(long = "thread", value_name = "N", allow_negative_numbers = true)]
    pub threads: Vec<i64>,
    /// Take recursion levels such as main'2 for the function itself
    #[arg(long)]
    pub merge_recursion: bool,
    /// Add a derived event, such as Cy=Ir+10*Bm; may be repeated
    #[arg(long = "derive", value_name = "NAME=FORMULA")]
    pub derived: Vec<String>,
}

impl Selection {
    /// Whether a part and thread are chosen.
    pub fn wants(&self, part: Option<i64>, thread: Option<i64>) -> bool {
        let chosen = |wanted: &[i64], number: Option<i64>| {
            wanted.is_empty() || number.is_some_and(|n| wanted.contains(&n))
        };
        chosen(&self.parts, part) && chosen(&self.threads, thread)
    }

    fn wants_part(&self, part: &Part) -> bool {
        self.wants(part.header.part, part.header.thread)
    }

    /// The call graph of what is chosen, with derived events.
    pub fn graph(&self, profiles: &[Profile], lines: bool, instructions: bool) -> Result<CallGraph, Failure> {
        let filter = |part: &Part| self.wants_part(part);
        if !profiles.iter().flat_map(|p| &p.parts).any(filter) {
            return Err(Failure::Operation(anyhow!("no part is left: {}", self.available(profiles))));
        }
        let options = graph::Options {
            lines,
            instructions,
            merge_recursion: self.merge_recursion,
            parts: Some(&filter),
        };
        let profiles: Vec<&Profile> = profiles.iter().collect();
        let mut graph = CallGraph::build(&profiles, options);
        for definition in graph.definitions.clone() {
            // A formula of the file over events it does not have is no reason to fail.
            if definition.formula.is_some() && graph.event(&definition.name).is_none() {
                let _ = graph.derive(&definition);
            }
        }
        for text in &self.derived {
            let definition =
                EventDefinition::parse(text).map_err(|e| Failure::Usage(format!("--derive: {e}")))?;
            if definition.formula.is_none() {
                return Err(Failure::Usage(format!("--derive: `{text}` has no formula")));
            }
            graph.derive(&definition).map_err(|e| Failure::Usage(format!("--derive: {e}")))?;
        }
        Ok(graph)
    }

    fn available(&self, profiles: &[Profile]) -> String {
        let labels: Vec<String> =
            profiles.iter().flat_map(|p| &p.parts).take(20).map(|p| p.header.label()).collect();
        format!("the profile has {}", labels.join("; "))
    }
}

/// What a file holds.
pub enum Loaded {
    /// A profile with a call graph.
    Profile(Box<Profile>),
    /// Calling contexts.
    Contexts(Contexts),
}

/// Reads a profile or a calling-context file.
pub fn load_any(path: &Path) -> Result<Loaded, Failure> {
    let mut start = [0; 64];
    let mut length = 0;
    if path != Path::new("-") {
        let mut file = File::open(path).with_context(|| path.display().to_string())?;
        length = file.metadata().map(|m| m.len()).unwrap_or(0);
        if file.metadata().is_ok_and(|m| m.is_dir()) {
            return Err(anyhow!("{}: is a directory", path.display()).into());
        }
        if file.metadata().is_ok_and(|m| m.is_file()) {
            let n = file.read(&mut start).with_context(|| path.display().to_string())?;
            if contexts::is_contexts(&start[..n]) {
                let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
                return Ok(Loaded::Contexts(contexts::parse(&path.display().to_string(), &text)?));
            }
        }
    }
    let bar = if length >= PROGRESS_FROM { ProgressBar::new(length) } else { ProgressBar::hidden() };
    let style = ProgressStyle::with_template("reading {msg} {bar:30} {bytes}/{total_bytes}");
    bar.set_style(style.expect("the template is well-formed"));
    bar.set_message(path.file_name().unwrap_or_default().to_string_lossy().into_owned());
    let advance = |bytes: u64| bar.inc(bytes);
    let profile = read::file(path, read::Options { progress: Some(&advance), ..read::Options::default() })?;
    bar.finish_and_clear();
    Ok(Loaded::Profile(Box::new(profile)))
}

/// Reads a profile.
pub fn load(path: &Path) -> Result<Profile, Failure> {
    match load_any(path)? {
        Loaded::Profile(profile) => Ok(*profile),
        Loaded::Contexts(_) => {
            let advice = "holds calling contexts, which only `flamegraph` and `export` can use";
            Err(anyhow!("{}: {advice}", path.display()).into())
        }
    }
}

/// Reads several profiles; without any, the newest `callgrind.out.*` of the working directory.
pub fn load_all(paths: &[PathBuf]) -> Result<Vec<Profile>, Failure> {
    if paths.is_empty() {
        return Ok(vec![load(&newest()?)?]);
    }
    paths.iter().map(|p| load(p)).collect()
}

/// The newest profile of the working directory.
pub fn newest() -> Result<PathBuf, Failure> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(".")?.flatten() {
        let name = entry.file_name();
        let is_profile = name.to_str().is_some_and(|n| n.starts_with("callgrind.out."));
        if let Ok(metadata) = entry.metadata()
            && is_profile
            && metadata.is_file()
            && metadata.len() > 0
        {
            found.push((metadata.modified()?, name));
        }
    }
    let newest = found.into_iter().max();
    let (_, name) =
        newest.ok_or_else(|| Failure::Usage("no file given and no callgrind.out.* here".to_string()))?;
    Ok(PathBuf::from(name))
}

/// Index of the chosen event, or of the first.
pub fn event_index(events: &[String], wanted: Option<&str>) -> Result<usize, Failure> {
    match wanted {
        None if events.is_empty() => Err(anyhow!("the profile has no events").into()),
        None => Ok(0),
        Some(name) => events
            .iter()
            .position(|e| e == name)
            .ok_or_else(|| Failure::Usage(format!("there is no event `{name}`, but {}", events.join(" ")))),
    }
}

/// Whether `text` matches a pattern with `*` and `?`; a pattern without them must occur in it.
pub fn matches(pattern: &str, text: &str) -> bool {
    if !pattern.contains(['*', '?']) {
        return text.contains(pattern);
    }
    let (p, t): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut i, mut j) = (0, 0);
    // The last star, and how far the text was when it was met.
    let mut star: Option<(usize, usize)> = None;
    while j < t.len() {
        if i < p.len() && (p[i] == '?' || p[i] == t[j]) && p[i] != '*' {
            (i, j) = (i + 1, j + 1);
        } else if i < p.len() && p[i] == '*' {
            star = Some((i, j));
            i += 1;
        } else if let Some((at, taken)) = star {
            star = Some((at, taken + 1));
            (i, j) = (at + 1, taken + 1);
        } else {
            return false;
        }
    }
    p[i..].iter().all(|&c| c == '*')
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_know_star_and_question_mark() {
        for (pattern, text, expected) in [
            ("clone", "a::clone::b", true),
            ("clone", "close", false),
            ("a*c", "abbbc", true),
            ("a*c", "abbbcd", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("*::main", "tiny::main", true),
            ("*a*b*", "xxaxxbxx", true),
            ("", "anything", true),
            ("*", "", true),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} on {text}");
        }
    }
}
