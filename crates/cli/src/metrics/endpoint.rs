//! Metrics over HTTP on an address of the user's.
//!
//! A thread of its own answers whoever asks with text that the daemon's loop refreshes, so that a
//! scraper, slow or hostile, never gets between a client and the disk. It serves one connection at
//! a time, reads at most a few KiB of it, and waits for nobody longer than two seconds.

use nearhead_disk::Nanos;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How old the numbers may be.
const REFRESH: Nanos = Nanos::from_secs(1);
const REQUEST_BYTES_MAX: usize = 8 * 1024;
const WAIT_MAX: Duration = Duration::from_secs(2);

/// The metrics of a daemon.
pub struct Endpoint {
    text: Arc<Mutex<String>>,
    refresh_at: Nanos,
}

impl Endpoint {
    /// Serves metrics at `address`.
    pub fn listen(address: &str) -> Result<Self, String> {
        let failed = |error| {
            format!(
                "metrics: expected a free address such as 127.0.0.1:9420, found {address}: {error}"
            )
        };
        let listener = TcpListener::bind(address).map_err(failed)?;
        let text = Arc::new(Mutex::new(String::new()));
        let shared = Arc::clone(&text);
        std::thread::Builder::new()
            .name("metrics".to_owned())
            .spawn(move || serve(&listener, &shared))
            .map_err(failed)?;
        Ok(Self { text, refresh_at: Nanos::ZERO })
    }

    /// Renders the numbers anew if they are old.
    pub fn refresh(&mut self, now: Nanos, render: impl FnOnce() -> String) {
        if now >= self.refresh_at {
            self.refresh_at = now + REFRESH;
            *self.text.lock().unwrap_or_else(PoisonError::into_inner) = render();
        }
    }
}

fn serve(listener: &TcpListener, text: &Mutex<String>) {
    for stream in listener.incoming() {
        match stream {
            // A scraper that fails tries again by itself.
            Ok(stream) => drop(answer(stream, text)),
            // Out of descriptors: they come back when others let go of theirs.
            Err(_) => std::thread::sleep(Duration::from_millis(100)),
        }
    }
}

fn answer(mut stream: TcpStream, text: &Mutex<String>) -> std::io::Result<()> {
    stream.set_read_timeout(Some(WAIT_MAX))?;
    stream.set_write_timeout(Some(WAIT_MAX))?;
    let mut request = Vec::new();
    let mut piece = [0; 1024];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        let len = stream.read(&mut piece)?;
        if len == 0 || request.len() + len > REQUEST_BYTES_MAX {
            break;
        }
        request.extend_from_slice(&piece[..len]);
    }
    let (status, body) = if request.starts_with(b"GET /metrics ") || request.starts_with(b"GET / ")
    {
        ("200 OK", text.lock().unwrap_or_else(PoisonError::into_inner).clone())
    } else {
        ("404 Not Found", "only GET /metrics is offered\n".to_owned())
    };
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}
