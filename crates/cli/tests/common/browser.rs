//! A real browser without a screen, driven as the `WebDriver` standard says: chromedriver starts it and takes commands over HTTP.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

/// The key of `WebDriver`'s "element" in answers.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// Whether there is a browser; a test that needs one returns if not.
pub fn can_show() -> bool {
    super::tools(&["chromium", "chromedriver"])
}

/// For a script: the relative luminance of a colour, and the contrast of two (WCAG 2.2).
pub const CONTRAST: &str = "
    const channels = (color) => color.match(/[\\d.]+/g).map(Number);
    const light = (color) => channels(color).slice(0, 3).map((value) => value / 255)
        .map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4))
        .reduce((sum, value, index) => sum + value * [0.2126, 0.7152, 0.0722][index], 0);
    const contrast = (one, other) => {
        const [a, b] = [light(one), light(other)].sort((x, y) => y - x);
        return (a + 0.05) / (b + 0.05);
    };";

const FAINT_TEXT: &str = "
    const behind = (element) => {
        for (let at = element; at; at = at.parentElement) {
            const color = getComputedStyle(at).backgroundColor;
            if ((channels(color)[3] ?? 1) > 0) return color;
        }
        return 'rgb(255, 255, 255)';
    };
    const texts = [...document.querySelectorAll('h1, h2, h3, p, dt, dd, td, th, li, a, text')].filter((it) => it.textContent.trim());
    return texts.filter((it) => {
        const style = getComputedStyle(it);
        return contrast(it.tagName === 'text' ? style.fill : style.color, behind(it)) < 4.5;
    }).map((it) => it.textContent);";

/// The browser; it ends when dropped.
pub struct Browser {
    driver: Child,
    port: u16,
    session: String,
}

impl Browser {
    /// With a window of this size.
    pub fn open(width: u32, height: u32) -> Self {
        let mut driver = Command::new("chromedriver")
            .arg("--port=0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let told = BufReader::new(driver.stdout.take().unwrap());
        let mut browser = Self { driver, port: 0, session: String::new() };
        // "ChromeDriver was started successfully on port 12345."
        let ready =
            told.lines().map(Result::unwrap).find(|line| line.contains("successfully on port"));
        let ready = ready.expect("chromedriver says where it listens");
        let number = ready.trim_end_matches('.').rsplit(' ').next().unwrap();
        browser.port = number.parse().unwrap();
        let wanted = json!({"capabilities": {"alwaysMatch": {
            "browserName": "chrome",
            "goog:loggingPrefs": {"browser": "ALL"},
            "goog:chromeOptions": {"args": [
                "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                format!("--window-size={width},{height}")
            ]}
        }}});
        let made = browser.ask("POST", "/session", &wanted);
        made["sessionId"].as_str().unwrap().clone_into(&mut browser.session);
        let minutes = json!({"script": 300_000, "pageLoad": 300_000});
        browser.tell("/timeouts", &minutes);
        browser
    }

    pub fn go(&self, url: &str) {
        self.tell("/url", &json!({"url": url}));
    }

    /// What the body of a function returns in the page.
    pub fn run(&self, script: &str) -> Value {
        self.tell("/execute/sync", &json!({"script": script, "args": []}))
    }

    /// Waits until this is true in the page; it is looked at whenever the page changes.
    pub fn wait_until(&self, condition: &str) {
        let script = format!(
            "const done = arguments[0];
             const is = () => {condition};
             if (is()) {{ done(true); return; }}
             const watch = new MutationObserver(() => {{ if (is()) {{ watch.disconnect(); done(true); }} }});
             watch.observe(document, {{subtree: true, childList: true, attributes: true, characterData: true}});"
        );
        let found = self.tell("/execute/async", &json!({"script": script, "args": []}));
        assert_eq!(found, true, "{condition}");
    }

    /// Presses keys while the element that a selector names has the focus.
    pub fn press(&self, selector: &str, keys: &str) {
        let found = self.tell("/element", &json!({"using": "css selector", "value": selector}));
        let id = found[ELEMENT].as_str().unwrap();
        self.tell(&format!("/element/{id}/value"), &json!({"text": keys}));
    }

    /// A command of Chromium's own protocol.
    pub fn devtools(&self, command: &str, params: &Value) {
        self.tell("/goog/cdp/execute", &json!({"cmd": command, "params": params}));
    }

    /// The screen of a phone, 360 px wide.
    pub fn be_a_phone(&self) {
        let phone = json!({"width": 360, "height": 740, "deviceScaleFactor": 2, "mobile": true});
        self.devtools("Emulation.setDeviceMetricsOverride", &phone);
    }

    /// The colour scheme that pages are asked for: `light` or `dark`.
    pub fn prefer(&self, scheme: &str) {
        let media = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.devtools("Emulation.setEmulatedMedia", &media);
    }

    /// Texts whose contrast with what is behind them is below 4.5 to 1 (WCAG 2.2, 1.4.3).
    pub fn faint_texts(&self) -> Value {
        self.run(&format!("{CONTRAST}{FAINT_TEXT}"))
    }

    /// What the page's scripts, or the browser about them, said.
    pub fn console(&self) -> Vec<Value> {
        self.tell("/se/log", &json!({"type": "browser"})).as_array().unwrap().clone()
    }

    /// A picture of the window, as PNG in base64.
    pub fn picture(&self) -> String {
        let path = format!("/session/{}/screenshot", self.session);
        self.ask("GET", &path, &Value::Null).as_str().unwrap().to_owned()
    }

    fn tell(&self, path: &str, body: &Value) -> Value {
        self.ask("POST", &format!("/session/{}{path}", self.session), body)
    }

    fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            self.port,
            body.len()
        )
        .unwrap();
        // It keeps the connection open, whatever it is asked for.
        let mut stream = BufReader::new(stream);
        let (mut status, mut length) = (String::new(), 0);
        stream.read_line(&mut status).unwrap();
        for line in stream.by_ref().lines().map(Result::unwrap).take_while(|it| !it.is_empty()) {
            let (name, value) = line.split_once(':').unwrap();
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).unwrap();
        let answered: Value = serde_json::from_slice(&body).unwrap();
        let is_well = status.starts_with("HTTP/1.1 200");
        assert!(is_well, "{method} {path}: {answered}");
        answered["value"].clone()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // An orderly end takes the browser along; without a session there is none.
        if !self.session.is_empty() {
            let path = format!("/session/{}", self.session);
            drop(std::panic::catch_unwind(|| self.ask("DELETE", &path, &Value::Null)));
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}
