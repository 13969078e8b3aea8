//! A client for chromedriver: as much of the WebDriver protocol as the test needs.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// The key that WebDriver and the DOM call `Enter`, and its kin.
pub mod keys {
    pub const ENTER: &str = "\u{e007}";
    pub const ESCAPE: &str = "\u{e00c}";
    pub const DOWN: &str = "\u{e015}";
    pub const UP: &str = "\u{e013}";
    pub const RIGHT: &str = "\u{e014}";
}

/// A headless browser with one window.
pub struct Browser {
    driver: Child,
    port: u16,
    session: String,
}

fn find(names: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).flat_map(|dir| names.iter().map(move |n| dir.join(n))).find(|p| p.is_file())
}

impl Browser {
    /// Starts a browser; `None` where Chromium or its driver is not installed.
    pub fn start() -> Option<Browser> {
        let chromium = find(&["chromium", "chromium-browser", "google-chrome"])?;
        let driver = find(&["chromedriver", "chromium.chromedriver"])?;
        let mut driver = Command::new(driver)
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("chromedriver can be started");
        let output = driver.stdout.take().expect("its output is a pipe");
        let mut port = None;
        let mut lines = BufReader::new(output).lines();
        for line in lines.by_ref() {
            let line = line.expect("chromedriver speaks");
            if let Some(text) = line.split("on port ").nth(1) {
                port = text.trim_end_matches('.').trim().parse().ok().filter(|p| *p != 0);
                if port.is_some() {
                    break;
                }
            }
        }
        // The pipe stays open, or chromedriver would die writing to it.
        std::thread::spawn(move || lines.for_each(drop));
        let port = port.expect("chromedriver tells its port");
        let mut browser = Browser { driver, port, session: String::new() };
        let options = json!({
            "binary": chromium,
            "args": [
                "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                "--window-size=1280,900", "--force-device-scale-factor=1", "--hide-scrollbars",
            ],
        });
        let capabilities = json!({ "capabilities": { "alwaysMatch": { "goog:chromeOptions": options } } });
        let answer = browser.request("POST", "/session", &capabilities);
        browser.session = answer["sessionId"].as_str().expect("a session").to_string();
        Some(browser)
    }

    fn request(&self, method: &str, path: &str, body: &Value) -> Value {
        let body = if method == "GET" { String::new() } else { body.to_string() };
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("chromedriver listens");
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .expect("the request is sent");
        let mut reader = BufReader::new(stream);
        let mut length = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).expect("a header line");
            let line = line.trim().to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(n) = line.strip_prefix("content-length:") {
                length = n.trim().parse().expect("a length");
            }
        }
        let mut text = vec![0; length];
        reader.read_exact(&mut text).expect("the whole answer");
        let answer: Value = serde_json::from_slice(&text).expect("the answer is JSON");
        let value = answer["value"].clone();
        assert!(value.get("error").is_none(), "{method} {path} {body}: {value:#}");
        value
    }

    fn command(&self, method: &str, path: &str, body: Value) -> Value {
        self.request(method, &format!("/session/{}{path}", self.session), &body)
    }

    /// Opens a page.
    pub fn open(&self, url: &str) {
        self.command("POST", "/url", json!({ "url": url }));
    }

    /// Runs JavaScript and returns what it returns.
    pub fn run(&self, script: &str) -> Value {
        self.command("POST", "/execute/sync", json!({ "script": script, "args": [] }))
    }

    /// The value of an expression as text.
    pub fn text(&self, expression: &str) -> String {
        match self.run(&format!("return {expression};")) {
            Value::String(text) => text,
            other => other.to_string(),
        }
    }

    fn element(&self, css: &str) -> String {
        let found = self.command("POST", "/element", json!({ "using": "css selector", "value": css }));
        let id = found.as_object().and_then(|o| o.values().next()).and_then(Value::as_str);
        id.unwrap_or_else(|| panic!("no element {css}")).to_string()
    }

    /// Clicks an element as a user would.
    pub fn click(&self, css: &str) {
        let id = self.element(css);
        self.command("POST", &format!("/element/{id}/click"), json!({}));
    }

    /// Types into an element, after emptying it.
    pub fn fill(&self, css: &str, text: &str) {
        let id = self.element(css);
        self.command("POST", &format!("/element/{id}/clear"), json!({}));
        self.command("POST", &format!("/element/{id}/value"), json!({ "text": text }));
    }

    /// Presses keys wherever the focus is.
    pub fn press(&self, keys: &str) {
        let actions: Vec<Value> = keys
            .chars()
            .flat_map(|c| {
                let key = c.to_string();
                [json!({ "type": "keyDown", "value": key }), json!({ "type": "keyUp", "value": key })]
            })
            .collect();
        self.command(
            "POST",
            "/actions",
            json!({ "actions": [{ "type": "key", "id": "keyboard", "actions": actions }] }),
        );
    }

    /// The window as PNG.
    pub fn screenshot(&self) -> Vec<u8> {
        let text = self.command("GET", "/screenshot", json!({}));
        decode_base64(text.as_str().expect("a picture"))
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() && !std::thread::panicking() {
            self.command("DELETE", "", json!({}));
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

fn decode_base64(text: &str) -> Vec<u8> {
    let value = |c: u8| match c {
        b'A'..=b'Z' => c - b'A',
        b'a'..=b'z' => c - b'a' + 26,
        b'0'..=b'9' => c - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let digits: Vec<u8> = text.bytes().filter(|c| !matches!(c, b'=' | b'\n' | b'\r')).map(value).collect();
    let mut bytes = Vec::with_capacity(digits.len() * 3 / 4);
    for group in digits.chunks(4) {
        let n = group.iter().fold(0u32, |n, &d| n << 6 | u32::from(d)) << (6 * (4 - group.len()));
        bytes.extend_from_slice(&n.to_be_bytes()[1..group.len()]);
    }
    bytes
}

/// Base64 with padding.
pub fn encode_base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let n = group.iter().fold(0u32, |n, &b| n << 8 | u32::from(b)) << (8 * (3 - group.len()));
        for digit in 0..4 {
            let index = (n >> (18 - 6 * digit) & 63) as usize;
            text.push(if digit > group.len() { '=' } else { DIGITS[index] as char });
        }
    }
    text
}
