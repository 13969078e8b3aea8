//! `report`: one HTML file to explore a profile, or two, without a network.
//!
//! The file holds the page, its style and script, and the data as JSON: a *view* for everything
//! together and one for each part and thread. The script computes nothing that the other commands
//! compute too; inclusive costs, cycles and estimated stacks come from here.

mod data;

use super::input::Selection;
use super::stacks::{FrameLabel, StackOptions};
use super::{Failure, Outcome, input, output};
use clap::Args;
use serde_json::Value;
use std::path::PathBuf;

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// Arguments of `report`.
#[derive(Args)]
pub struct Arguments {
    /// Profiles, added up, and at most one calling-context file for the flame graph
    files: Vec<PathBuf>,
    /// Where to write
    #[arg(short, long, value_name = "FILE", default_value = "report.html")]
    output: PathBuf,
    #[command(flatten)]
    selection: Selection,
    /// Compare with these older profiles, added up
    #[arg(long, value_name = "OLD", num_args = 1..)]
    diff: Vec<PathBuf>,
    /// Title of the page
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// Folder to look for source files in; may be repeated
    #[arg(short = 'I', long = "include", value_name = "DIR")]
    include: Vec<PathBuf>,
    /// Do not put source files into the page
    #[arg(long)]
    no_source: bool,
    /// For estimated stacks: put together what is below this percentage of the total
    #[arg(long, value_name = "PERCENT", default_value_t = 0.1)]
    limit: f64,
}

/// Runs the command.
pub fn run(arguments: Arguments) -> Outcome {
    if !(0.0..=100.0).contains(&arguments.limit) {
        return Err(Failure::Usage("--limit must be between 0 and 100".to_string()));
    }
    let document = data::document(&arguments)?;
    let title = document["title"].as_str().unwrap_or_default().to_string();
    output::write(Some(&arguments.output), page(&title, &document)?.as_bytes())
}

/// Joins the page and its data.
fn page(title: &str, document: &Value) -> Result<String, Failure> {
    // `<` cannot close the script element when it is written as an escape.
    let json = serde_json::to_string(document)?.replace('<', "\\u003c");
    let escaped = title.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let page = PAGE.replacen("{{title}}", &escaped, 1);
    // Each piece is inserted once, so that a `{{…}}` in the data stays what it is.
    let (before, rest) = page.split_once("{{style}}").unwrap_or((&page, ""));
    let (middle, rest) = rest.split_once("{{data}}").unwrap_or((rest, ""));
    let (between, after) = rest.split_once("{{script}}").unwrap_or((rest, ""));
    Ok([before, STYLE, middle, &json, between, SCRIPT, after].concat())
}

impl Arguments {
    /// The stack options that the flame graph of a view is made with.
    fn stack_options(&self, selection: Selection) -> StackOptions {
        StackOptions { selection, event: None, focus: None, limit: self.limit, frame: FrameLabel::Function }
    }

    /// The profiles of the new side, or the newest in the working directory.
    fn new_files(&self) -> Result<Vec<PathBuf>, Failure> {
        if self.files.is_empty() { Ok(vec![input::newest()?]) } else { Ok(self.files.clone()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn data_cannot_leave_its_element() {
        let document = json!({ "title": "</script><b>{{script}}", "x": "{{style}}" });
        let page = page("</title><script>", &document).unwrap();
        assert!(!page.contains("</script><b>"));
        assert!(page.contains("&lt;/title&gt;"));
        assert_eq!(page.matches("{{style}}").count(), 1, "the data's own braces stay");
        assert_eq!(page.matches("</script>").count(), 2);
    }
}
