//! The page of `--http` in a real browser: it shows what the daemon does as it does it, by keyboard and on a phone, light and dark, asks
//! nobody else for anything, and says when the daemon has gone.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::browser::{Browser, can_show};
use common::nbd::Client;
use common::{Daemon, Scratch, run_fails, run_ok};
use serde_json::json;
use std::io::{Read, Write};
use std::net::TcpStream;

/// A key of the keyboard as `WebDriver` names it.
const RIGHT: &str = "\u{e014}";

/// A daemon with a page, and where that is.
fn served(scratch: &Scratch, more: &[&str]) -> (Daemon, String) {
    run_ok(scratch, &["create", "disk.img", "--size", "256M", "--label", "<b>shelf</b> & \"7\""]);
    let args = [&["--http", "127.0.0.1:0"], more].concat();
    let daemon = Daemon::serve(scratch, "disk.img", &args);
    let told = std::fs::read_to_string(scratch.path("daemon.stderr")).unwrap();
    let url = told.split_whitespace().find(|word| word.starts_with("http://")).unwrap();
    let url = url.trim_end_matches([',', ';']).to_owned();
    (daemon, url)
}

/// Everything is drawn, and a report has come.
const IS_DRAWN: &str = "document.getElementById('link').dataset.state === 'live' \
    && document.querySelectorAll('#now dd').length >= 8 && document.querySelectorAll('svg').length >= 5";

/// Texts of charts that are smaller than 11 px on the screen.
const SMALL_TEXTS: &str = "return [...document.querySelectorAll('svg text')].map((text) => { \
    const svg = text.closest('svg'), scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width; \
    return [text.textContent, parseFloat(getComputedStyle(text).fontSize) * scale]; }).filter(([, px]) => px < 11)";

#[test]
fn the_page_shows_what_a_daemon_does_and_says_when_it_has_gone() {
    if !can_show() {
        return;
    }
    let scratch = Scratch::new("page");
    let (daemon, url) = served(&scratch, &[]);
    let mut client = Client::connect(&daemon.socket).unwrap();
    for block in 0..64 {
        client.write(block << 20, &[7; 4096], true);
    }
    let browser = Browser::open(1280, 900);
    browser.go(&url);
    browser.wait_until(IS_DRAWN);
    browser.run("const span = document.getElementById('span'); span.value = 'all'; span.dispatchEvent(new Event('change'));");
    browser.wait_until("document.querySelectorAll('#spread polyline').length > 0");
    assert_eq!(browser.run("return document.getElementById('health').textContent"), "well");
    let heading = browser.run("return document.getElementById('target').textContent");
    assert!(heading.as_str().unwrap().starts_with("<b>shelf</b> & \"7\" ("), "{heading}");
    assert!(heading.as_str().unwrap().contains("disk.img"), "{heading}");
    let about = browser.run("return document.getElementById('about').textContent");
    assert!(about.as_str().unwrap().starts_with("preset nearhead"), "{about}");
    // What it draws comes from the daemon that serves it and from nobody else.
    let elsewhere = browser.run(
        "return performance.getEntriesByType('resource').map((entry) => entry.name).filter((name) => !name.startsWith(location.origin))",
    );
    assert_eq!(elsewhere, json!([]));
    let told = browser.console();
    assert!(told.is_empty(), "{told:?}");
    drop(client);
    daemon.stop_ok();
    browser.wait_until("document.getElementById('link').dataset.state === 'lost'");
}

#[test]
fn the_page_is_read_by_keyboard() {
    if !can_show() {
        return;
    }
    let scratch = Scratch::new("page-keys");
    let (_daemon, url) = served(&scratch, &[]);
    let browser = Browser::open(1280, 900);
    browser.go(&url);
    browser.wait_until(IS_DRAWN);
    browser.press("#disk svg", RIGHT);
    browser.wait_until("/^Logs? \\d/.test(document.getElementById('disk-detail').textContent)");
    browser.press("#bandwidth svg", RIGHT);
    browser.wait_until(
        "/ago: read .*written/.test(document.querySelector('#bandwidth .detail').textContent)",
    );
    // Whatever can be used has a name for who does not see it.
    let nameless = browser.run(
        "return [...document.querySelectorAll('svg, select')].filter((it) => !it.getAttribute('aria-label') && !it.labels?.length).length",
    );
    assert_eq!(nameless, 0);
}

#[test]
fn the_page_fits_a_phone_and_can_be_read_in_the_dark() {
    if !can_show() {
        return;
    }
    let scratch = Scratch::new("page-phone");
    let (_daemon, url) = served(&scratch, &[]);
    let browser = Browser::open(800, 900);
    browser.be_a_phone();
    for scheme in ["light", "dark"] {
        browser.prefer(scheme);
        browser.go(&url);
        browser.wait_until(IS_DRAWN);
        let wide = browser.run("return document.documentElement.scrollWidth");
        assert!(wide.as_u64().unwrap() <= 360, "{wide}");
        assert_eq!(browser.faint_texts(), json!([]), "{scheme}");
        let small = browser.run(SMALL_TEXTS);
        assert_eq!(small, json!([]), "{scheme}");
    }
}

#[test]
fn the_page_is_for_this_machine_by_address_and_changes_nothing() {
    let scratch = Scratch::new("page-http");
    let (_daemon, url) = served(&scratch, &[]);
    let address = url.trim_start_matches("http://").trim_end_matches('/');
    let ask = |request: &str| {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    assert!(ask("GET / HTTP/1.1\r\n\r\n").contains("<title>Nearhead</title>"));
    assert!(ask("GET / HTTP/1.1\r\nHost: elsewhere.example\r\n\r\n").starts_with("HTTP/1.1 403"));
    assert!(ask("POST / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405"));
    run_ok(&scratch, &["create", "other.img", "--size", "64M"]);
    let taken = ["serve", "other.img", "--socket", "b.sock", "--http", address];
    run_fails(&scratch, &taken, &["page: expected a free address"]);
}
