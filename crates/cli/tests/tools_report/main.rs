//! Uses the HTML report in headless Chromium as a person would: looks, searches, sorts, clicks,
//! zooms, types keys, and asserts on what the page shows.
//!
//! Without Chromium and its driver the test says that it is skipped; `REQUIRE_CHROMIUM=1` makes
//! that a failure. `SCREENSHOTS=folder` keeps pictures.

mod webdriver;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use webdriver::{Browser, keys};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../profile/tests/fixtures").join(name)
}

fn folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tools-report");
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn report(arguments: &[&str]) {
    let output =
        Command::new(env!("CARGO_BIN_EXE_tallygraph")).arg("report").args(arguments).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "report {arguments:?}: {}\n{stderr}", output.status);
}

/// An older version of the program: `fib` is called less and `twice` not at all.
const OLD: &str = "version: 1\ncreator: callgrind-3.19.0\ncmd: ./tiny\nevents: Ir\nfl=/guests/tiny.c\n\
    fn=(below main)\n23 6\ncfn=fib\ncalls=1 8\n24 100\ncfn=squares\ncalls=1 15\n25 97\n\
    fn=fib\n9 100\nfn=squares\n17 97\nfn=only_before\n50 40\n";

/// Two threads with different functions, and two events.
const THREADS: &str = "version: 1\ncmd: ./threads\npart: 1\nthread: 1\nevents: Ir Dr\nfl=a.c\nfn=main\n1 100 5\n\
    cfn=work\ncalls=3 9\n2 300 90\nfn=work\n9 300 90\n\npart: 1\nthread: 2\nevents: Ir Dr\nfl=a.c\nfn=helper\n20 50 7\n";

fn picture(browser: &Browser, name: &str) {
    if let Some(folder) = std::env::var_os("SCREENSHOTS") {
        fs::create_dir_all(&folder).unwrap();
        fs::write(Path::new(&folder).join(name), browser.screenshot()).unwrap();
    }
}

fn url(path: &Path) -> String {
    format!("file://{}", path.display())
}

const FIRST_ROW: &str = "document.querySelector('#table tbody tr .name').firstChild.textContent";
const ROWS: &str = "document.querySelectorAll('#table tbody tr').length";

/// Whether a section shows a share above 100 %.
fn over_total(section: &str) -> String {
    format!("[...document.querySelectorAll('#{section} .share')].some(s => parseFloat(s.textContent) > 100)")
}

fn row(name: &str) -> String {
    format!(
        "[...document.querySelectorAll('#table tbody tr')].find(r => r.querySelector('.name').firstChild.textContent === \"{name}\")"
    )
}

/// Reads until an expression holds: a page of others is ready when it says so.
fn wait_for(browser: &Browser, expression: &str) {
    for _ in 0..300 {
        if browser.text(expression) == "true" {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    panic!("never true: {expression}\n{}", browser.text("document.body.innerText"));
}

/// speedscope's own page loads the export; its sandwich view lists functions with their costs.
#[test]
fn speedscope_shows_the_export() {
    let modules = std::env::var_os("TALLYGRAPH_NODE_MODULES").map(PathBuf::from);
    let page = modules.map(|m| m.join("speedscope/dist/release/index.html")).filter(|p| p.is_file());
    let (Some(page), Some(browser)) = (page, Browser::start()) else {
        assert!(std::env::var_os("REQUIRE_CONSUMERS").is_none(), "speedscope and chromium are required");
        eprintln!("skipped: TALLYGRAPH_NODE_MODULES has no speedscope, or chromium is not installed");
        return;
    };
    let folder = folder().join("speedscope");
    fs::create_dir_all(&folder).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_tallygraph"))
        .args(["export", "-f", "speedscope"])
        .arg(fixture("valid/plain.out"))
        .output()
        .unwrap();
    assert!(output.status.success());
    let loader = folder.join("profile.js");
    let base64 = webdriver::encode_base64(&output.stdout);
    fs::write(&loader, format!("speedscope.loadFileFromBase64('p.speedscope.json', '{base64}')")).unwrap();
    browser.open(&format!("{}#localProfilePath={}", url(&page), loader.display()));
    wait_for(&browser, "document.body.innerText.includes('Sandwich')");
    browser.run("[...document.querySelectorAll('div')].filter(d => d.innerText.trim().endsWith('Sandwich') && d.children.length < 3).pop().click()");
    wait_for(&browser, "document.body.innerText.includes('squares')");
    let text = browser.text("document.body.innerText");
    // Self and total of a leaf, and a function that is all total.
    assert!(text.contains("97 (17%)"), "{text}");
    assert!(text.contains("586 (100%)"), "{text}");
    picture(&browser, "speedscope.png");
    drop(browser);
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_person_finds_their_way_through_a_report() {
    let Some(browser) = Browser::start() else {
        assert!(std::env::var_os("REQUIRE_CHROMIUM").is_none(), "chromium and chromedriver are required");
        eprintln!("skipped: chromium or chromedriver is not installed");
        return;
    };
    let folder = folder().join("pages");
    fs::create_dir_all(&folder).unwrap();
    one_profile(&browser, &folder);
    two_profiles(&browser, &folder);
    threads_and_events(&browser, &folder);
    drop(browser);
    fs::remove_dir_all(&folder).unwrap();
}

fn one_profile(browser: &Browser, folder: &Path) {
    let page = folder.join("one.html");
    let fixtures = fixture("");
    let include = fixtures.to_str().unwrap();
    let profile = fixture("valid/plain.out");
    report(&[profile.to_str().unwrap(), "-o", page.to_str().unwrap(), "-I", include]);
    browser.open(&url(&page));
    assert_eq!(browser.text("document.title"), "./tiny");
    assert!(browser.text("document.getElementById('totals').innerText").contains("586"));
    picture(browser, "summary.png");

    // Functions: sorted by self cost first, searched, sorted by name.
    browser.click("#tab-functions");
    assert_eq!(browser.text(FIRST_ROW), "fib'2");
    assert_eq!(browser.text(ROWS), "8");
    browser.fill("#search", "odd");
    assert_eq!(browser.text(ROWS), "2");
    assert_eq!(browser.text("document.getElementById('count').textContent"), "2 of 8 functions");
    browser.fill("#search", "no such function");
    assert_eq!(browser.text(ROWS), "0");
    browser.fill("#search", " ");
    browser.click("[data-sort=name]");
    assert_eq!(browser.text(FIRST_ROW), "(below main)");
    assert_eq!(browser.text("document.querySelector('th[aria-sort=ascending]').textContent"), "Function");
    browser.click("[data-sort=inclusive]");
    assert_eq!(browser.text(FIRST_ROW), "(below main)");

    // A function with its neighbours, and from there to a callee, by mouse and by key.
    browser.run(&format!("{}.click()", row("(below main)")));
    assert_eq!(browser.text("document.querySelectorAll('.graph .callee').length"), "3");
    assert_eq!(browser.text("document.querySelectorAll('.graph .caller').length"), "0");
    picture(browser, "functions.png");
    browser.click(".graph .callee");
    assert_eq!(browser.text("document.getElementById('chosen').firstChild.textContent"), "fib");
    assert!(browser.text("document.getElementById('detail').innerText").contains("424"));
    browser.run(&format!("{}.focus()", row("(below main)")));
    browser.press(keys::DOWN);
    browser.press(keys::ENTER);
    let second =
        "document.querySelectorAll('#table tbody tr')[1].querySelector('.name').firstChild.textContent";
    assert_eq!(
        browser.text("document.getElementById('chosen').firstChild.textContent"),
        browser.text(second)
    );

    // Cycles are marked, and nothing is above the total.
    assert!(browser.text(&format!("{}.innerText", row("even'2"))).contains("cycle 1"));
    browser.run(&format!("{}.click()", row("fib'2")));
    assert_eq!(browser.text(&over_total("functions")), "false");

    // Source: the line with the cost, the call below it, and back to the function.
    browser.run(&format!("{}.click()", row("squares")));
    browser.click("#to-source");
    assert_eq!(browser.text("document.getElementById('source').hidden"), "false");
    let line = |n: u32| format!("document.querySelector('#lines tr[data-line=\"{n}\"]').innerText");
    assert!(browser.text(&line(17)).contains("square(i)"), "{}", browser.text(&line(17)));
    assert!(browser.text("document.getElementById('lines').innerText").contains("424"));
    assert_eq!(browser.text(&over_total("source")), "false");
    picture(browser, "source.png");

    flame_graph(browser);

    // The other theme.
    let back = "getComputedStyle(document.body).backgroundColor";
    let before = browser.text(back);
    browser.click("#theme");
    assert_ne!(browser.text(back), before);
    picture(browser, "flame-other-theme.png");
}

fn flame_graph(browser: &Browser) {
    browser.press(keys::ESCAPE);
    browser.press("3");
    assert_eq!(browser.text("document.getElementById('flame').hidden"), "false");
    assert_eq!(browser.text("document.getElementById('estimate').hidden"), "false", "estimates say so");
    let width = |name: &str| {
        format!(
            "(() => {{ const g = [...document.querySelectorAll('#flames g')].find(g => g.getAttribute('aria-label').startsWith(\"{name}:\")); return g ? Math.round(g.querySelector('rect').width.baseVal.value) : 0; }})()"
        )
    };
    let number = |name: &str| browser.text(&width(name)).parse::<u32>().unwrap();
    let (all, fib, squares) = (number("(below main)"), number("fib"), number("squares"));
    assert!(all > fib && fib > squares && squares > 0, "{all} {fib} {squares}");
    picture(browser, "flame.png");

    browser.fill("#flame-search", "squares");
    assert_eq!(browser.text("document.querySelectorAll('#flames g.found').length"), "1");
    // 97 of 586.
    assert_eq!(browser.text("document.getElementById('matched').textContent"), "matched 16.55%");

    browser.run("[...document.querySelectorAll('#flames g')].find(g => g.getAttribute('aria-label').startsWith('squares:')).dispatchEvent(new MouseEvent('click', {bubbles: true}))");
    assert_eq!(number("squares"), all, "the zoomed frame is as wide as the picture");
    assert_eq!(number("fib"), 0, "its neighbours are gone");
    browser.click("#reset");
    assert_eq!(number("squares"), squares);

    // By keys: from the bottom to its widest child, into it, and back.
    browser.press(keys::DOWN);
    let focused = "document.activeElement.getAttribute('aria-label')";
    assert!(browser.text(focused).starts_with("fib:"), "{}", browser.text(focused));
    browser.press(keys::RIGHT);
    assert!(browser.text(focused).starts_with("squares:"), "{}", browser.text(focused));
    browser.press(keys::ENTER);
    assert_eq!(number("squares"), all);
    browser.press(keys::UP);
    assert!(browser.text(focused).starts_with("(below main):"), "{}", browser.text(focused));
    browser.press(keys::ESCAPE);
    assert_eq!(number("squares"), squares);
}

fn two_profiles(browser: &Browser, folder: &Path) {
    let (page, old) = (folder.join("two.html"), folder.join("old.out"));
    fs::write(&old, OLD).unwrap();
    let new = fixture("valid/plain.out");
    report(&[
        new.to_str().unwrap(),
        "--merge-recursion",
        "-o",
        page.to_str().unwrap(),
        "--diff",
        old.to_str().unwrap(),
    ]);
    browser.open(&url(&page));
    let sentence = browser.text("document.getElementById('sentence').textContent");
    assert!(sentence.contains("`fib`") && sentence.contains("+324 Ir"), "{sentence}");
    assert!(browser.text("document.getElementById('totals').innerText").contains("343"));
    picture(browser, "two-summary.png");
    browser.click("#tab-functions");
    assert!(browser.text("document.getElementById('count').textContent").ends_with("1 no longer run"));
    browser.click("[data-sort=change]");
    assert_eq!(browser.text(FIRST_ROW), "fib");
    assert!(browser.text(&format!("{}.innerText", row("fib"))).contains("+324"));
    browser.run(&format!("{}.click()", row("fib")));
    assert!(browser.text("document.getElementById('detail').innerText").contains("self 100"));
    picture(browser, "two-functions.png");
    browser.click("#tab-flame");
    let fill = |name: &str| {
        browser.text(&format!("[...document.querySelectorAll('#flames g')].find(g => g.getAttribute('aria-label').startsWith('{name}:')).querySelector('rect').getAttribute('fill')"))
    };
    assert!(fill("fib").starts_with("hsl(6,"), "what grew is red: {}", fill("fib"));
    assert!(fill("squares").starts_with("hsl(0,"), "what stayed is grey: {}", fill("squares"));
    picture(browser, "two-flame.png");
}

fn threads_and_events(browser: &Browser, folder: &Path) {
    let (page, profile) = (folder.join("threads.html"), folder.join("threads.out"));
    fs::write(&profile, THREADS).unwrap();
    report(&[profile.to_str().unwrap(), "-o", page.to_str().unwrap()]);
    browser.open(&url(&page));
    browser.click("#tab-functions");
    assert_eq!(browser.text(ROWS), "3");
    assert_eq!(browser.text(FIRST_ROW), "work");
    let choose = |id: &str, value: &str| {
        browser.run(&format!("const s = document.getElementById('{id}'); s.value = '{value}'; s.dispatchEvent(new Event('change'))"));
    };
    choose("view", "2");
    assert_eq!(browser.text(ROWS), "1");
    assert_eq!(browser.text(FIRST_ROW), "helper");
    choose("view", "1");
    choose("event", "1");
    assert_eq!(browser.text(ROWS), "2");
    assert!(browser.text(&format!("{}.innerText", row("work"))).contains("90"));
    browser.click("#tab-flame");
    let label = "document.querySelector('#flames g').getAttribute('aria-label')";
    assert_eq!(browser.text(label), "main: 95 Dr (100.00%)");
}
