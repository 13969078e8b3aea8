//! Reports as text: Markdown, HTML, terminal, JSON.
//!
//! Markdown and HTML come from templates (minijinja) that are part of the program and can be
//! replaced by a user's own. Both see the same [`view::View`]: strings ready to print, next to the
//! plain numbers, so that a template needs no arithmetic.

pub mod terminal;
pub mod view;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, UndefinedBehavior};
use serde::Serialize;

use crate::report::Report;

/// The built-in template of a pull-request comment.
pub const MARKDOWN_TEMPLATE: &str = include_str!("../../templates/report.md.jinja");
/// The built-in template of a page.
pub const HTML_TEMPLATE: &str = include_str!("../../templates/report.html.jinja");

/// A template that could not be used: its name, line and problem in one line.
#[derive(Debug, thiserror::Error)]
#[error("template {name}: {problem}")]
pub struct TemplateError {
    /// The template.
    name: String,
    /// What is wrong.
    problem: String,
}

/// What a template writes, which decides how values are escaped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Markup {
    /// Values may not end a table cell or become a link; the filter `cell` sees to it.
    Markdown,
    /// Values are escaped for HTML.
    Html,
}

/// Fills a template with any serialisable data.
pub fn fill(
    name: &str,
    template: &str,
    markup: Markup,
    data: &impl Serialize,
) -> Result<String, TemplateError> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    let syntax = SyntaxConfig::builder()
        .trim_blocks(true)
        .lstrip_blocks(true)
        .keep_trailing_newline(true)
        .build()
        .expect("the standard delimiters are valid");
    environment.set_syntax(syntax);
    environment.set_auto_escape_callback(move |_| match markup {
        Markup::Html => AutoEscape::Html,
        Markup::Markdown => AutoEscape::None,
    });
    environment.add_filter("cell", |text: String| markdown_cell(&text));
    let failed = |e: minijinja::Error| TemplateError {
        name: name.to_string(),
        problem: format!("{e:#}").lines().next().unwrap_or_default().to_string(),
    };
    environment.add_template(name, template).map_err(failed)?;
    environment.get_template(name).and_then(|t| t.render(Serde(data))).map_err(failed)
}

/// Text that stays within one cell of a Markdown table and is shown as it is.
pub fn markdown_cell(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '|' | '\\' | '`' | '*' | '_' | '<' | '>' => {
                out.push('\\');
                out.push(c);
            }
            '\n' | '\r' => out.push(' '),
            _ => out.push(c),
        }
    }
    out
}

/// The report as a pull-request comment; `template` replaces the built-in one.
pub fn markdown(report: &Report, template: Option<&str>) -> Result<String, TemplateError> {
    let view = view::View::of(report);
    fill("report.md", template.unwrap_or(MARKDOWN_TEMPLATE), Markup::Markdown, &view)
}

/// The report as a page that needs no other file; `template` replaces the built-in one.
pub fn html(report: &Report, template: Option<&str>) -> Result<String, TemplateError> {
    let view = view::View::of(report);
    fill("report.html", template.unwrap_or(HTML_TEMPLATE), Markup::Html, &view)
}

/// The report as one JSON object, fields as in [`Report`].
pub fn json(report: &Report) -> String {
    let mut text = serde_json::to_string_pretty(report).expect("a report has only string keys");
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_can_not_break_out_of_a_table_cell() {
        assert_eq!(markdown_cell("a|b\n`c`"), "a\\|b \\`c\\`");
    }

    #[test]
    fn a_template_error_names_template_and_line() {
        let data = serde_json::json!({ "known": 1 });
        let error = fill("mine.md", "{{ known }}\n{{ unknown }}", Markup::Markdown, &data).unwrap_err();
        assert!(error.to_string().starts_with("template mine.md: "), "{error}");
        let error = fill("mine.md", "{% if %}", Markup::Markdown, &data).unwrap_err();
        assert!(error.to_string().contains("mine.md"), "{error}");
    }

    #[test]
    fn html_values_are_escaped() {
        let data = serde_json::json!({ "x": "<script>" });
        assert_eq!(fill("t", "{{ x }}", Markup::Html, &data).unwrap(), "&lt;script&gt;");
    }
}
