//! The server: `GET` of a few paths, one answer for a connection, or events for as long as somebody listens.
//!
//! Each connection has a thread of its own, and there are never more than [`CONNECTIONS_MAX`]: the next one is turned away. A request is at
//! most [`REQUEST_BYTES_MAX`] long, and nobody is waited for longer than [`WAIT_MAX`], so that who connects and says nothing, or reads
//! nothing, holds a thread for that long and then no more.

use crate::feed::Feed;
use std::borrow::Cow;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Connections at once.
const CONNECTIONS_MAX: usize = 32;
/// A request with all its header fields.
const REQUEST_BYTES_MAX: usize = 8 * 1024;
const HEADERS_MAX: usize = 64;
/// How long a request may take to come, and what is written to be taken.
const WAIT_MAX: Duration = Duration::from_secs(5);
/// After so long without an event a line is sent that means nothing, or nobody would notice that the reader has gone.
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// What is under a path.
#[derive(Clone, Debug)]
pub enum Answer {
    /// Bytes of this type.
    Whole(&'static str, Cow<'static, [u8]>),
    /// Messages as they come, as server-sent events.
    Events(Arc<Feed>),
}

/// What a server has to show.
pub trait Site: Send + Sync + 'static {
    /// What is under `path`, without what stands behind a question mark; none if there is nothing.
    fn answer(&self, path: &str) -> Option<Answer>;

    /// Whether only who names this machine by its address, or as `localhost`, gets an answer. A page of somebody else's can have a name of its
    /// own lead to this machine, and would then read what is here as if it were its own.
    fn is_private(&self) -> bool;
}

/// Serves `site` at `address` until the process ends, and says where that is: with the port that it got, if any was asked for. `what` is its name
/// in errors.
pub fn listen(what: &'static str, address: &str, site: impl Site) -> Result<SocketAddr, String> {
    let failed = |error: io::Error| {
        format!("{what}: expected a free address such as 127.0.0.1:9420, found {address}: {error}")
    };
    let listener = TcpListener::bind(address).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let site: Arc<dyn Site> = Arc::new(site);
    let thread = std::thread::Builder::new().name(what.to_owned());
    thread.spawn(move || accept_all(what, &listener, &site)).map_err(failed)?;
    Ok(address)
}

/// One of the connections that there may be at once, given back when dropped.
struct Place(Arc<AtomicUsize>);

impl Place {
    fn take(taken: &Arc<AtomicUsize>) -> Option<Self> {
        let more = |count: usize| (count < CONNECTIONS_MAX).then_some(count + 1);
        let was_free = taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok();
        was_free.then(|| Self(Arc::clone(taken)))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn accept_all(what: &'static str, listener: &TcpListener, site: &Arc<dyn Site>) {
    let taken = Arc::new(AtomicUsize::new(0));
    for stream in listener.incoming() {
        let Ok(mut stream) = stream else {
            // Out of descriptors: they come back when others let go of theirs.
            std::thread::sleep(Duration::from_millis(100));
            continue;
        };
        let Some(place) = Place::take(&taken) else {
            // What fits a socket's buffer is written without waiting; whoever does not take it finds the connection closed.
            drop(stream.set_nonblocking(true).and_then(|()| busy(&mut stream)));
            continue;
        };
        let site = Arc::clone(site);
        // A browser, or a scraper, that fails tries again by itself; and so it does if there is no thread for it.
        let serve = move || {
            drop(serve(stream, site.as_ref()));
            drop(place);
        };
        drop(std::thread::Builder::new().name(what.to_owned()).spawn(serve));
    }
}

fn busy(stream: &mut TcpStream) -> io::Result<()> {
    let told = format!("{CONNECTIONS_MAX} others are being served; try again later\n");
    respond(stream, "503 Service Unavailable", "text/plain", told.as_bytes(), true)
}

fn serve(mut stream: TcpStream, site: &dyn Site) -> io::Result<()> {
    stream.set_write_timeout(Some(WAIT_MAX))?;
    let head = read_head(&mut stream)?;
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    let is_whole = request.parse(&head).is_ok_and(|parsed| parsed.is_complete());
    let (Some(method), Some(target), true) = (request.method, request.path, is_whole) else {
        let told = "expected a request of HTTP/1.1, a few KiB long at most\n";
        return respond(&mut stream, "400 Bad Request", "text/plain", told.as_bytes(), true);
    };
    let host = request.headers.iter().find(|header| header.name.eq_ignore_ascii_case("host"));
    if site.is_private() && !host.is_none_or(|host| names_an_address(host.value)) {
        let told = "expected this machine named by its address, or as localhost: open the page as http://127.0.0.1:PORT/\n";
        return respond(&mut stream, "403 Forbidden", "text/plain", told.as_bytes(), true);
    }
    if !matches!(method, "GET" | "HEAD") {
        let told = "only GET is offered: nothing can be changed here\n";
        return respond(&mut stream, "405 Method Not Allowed", "text/plain", told.as_bytes(), true);
    }
    let path = target.split(['?', '#']).next().unwrap_or(target);
    let has_body = method == "GET";
    match site.answer(path) {
        Some(Answer::Whole(kind, bytes)) => respond(&mut stream, "200 OK", kind, &bytes, has_body),
        Some(Answer::Events(_)) if !has_body => {
            respond(&mut stream, "200 OK", EVENTS, &[], has_body)
        }
        Some(Answer::Events(feed)) => send_events(&mut stream, &feed),
        None => {
            let told = "nothing is here\n";
            respond(&mut stream, "404 Not Found", "text/plain", told.as_bytes(), has_body)
        }
    }
}

/// Everything up to the empty line that ends the header, or what came of it before the time or the room was over.
fn read_head(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let ends_at = Instant::now() + WAIT_MAX;
    let mut head = Vec::new();
    let mut piece = [0; 1024];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let left = ends_at.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        let len = stream.read(&mut piece)?;
        if len == 0 || head.len() + len > REQUEST_BYTES_MAX {
            break;
        }
        head.extend_from_slice(&piece[..len]);
    }
    Ok(head)
}

/// Whether what a browser was told to open is an address of this machine and no name that somebody may have given it.
fn names_an_address(host: &[u8]) -> bool {
    let Ok(host) = std::str::from_utf8(host) else { return false };
    let is_localhost = |name: &str| name.eq_ignore_ascii_case("localhost");
    let without_port = host.rsplit_once(':').map_or(host, |(name, _)| name);
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host.parse::<SocketAddr>().is_ok()
        || bare.parse::<IpAddr>().is_ok()
        || is_localhost(host)
        || is_localhost(without_port)
}

const EVENTS: &str = "text/event-stream";

/// Nothing is loaded from anywhere else, and no other page may show this one in a frame.
const FIELDS: &str = "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n\
    Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n";

fn respond(
    stream: &mut TcpStream,
    status: &str,
    kind: &str,
    body: &[u8],
    has_body: bool,
) -> io::Result<()> {
    let charset = if kind.contains("charset") { "" } else { "; charset=utf-8" };
    let mut answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}{charset}\r\nContent-Length: {}\r\n{FIELDS}Connection: close\r\n\r\n",
        body.len()
    )
    .into_bytes();
    if has_body {
        answer.extend_from_slice(body);
    }
    stream.write_all(&answer)
}

fn send_events(stream: &mut TcpStream, feed: &Feed) -> io::Result<()> {
    let head =
        format!("HTTP/1.1 200 OK\r\nContent-Type: {EVENTS}\r\n{FIELDS}Connection: close\r\n\r\n");
    stream.write_all(head.as_bytes())?;
    let mut sent = 0;
    loop {
        let event = match feed.after(sent, SILENCE_MAX) {
            Some((number, message)) => {
                sent = number;
                // A message is one line, or each of its lines would have to be marked.
                format!("data: {}\n\n", message.replace(['\n', '\r'], " "))
            }
            None => ": still here\n\n".to_owned(),
        };
        stream.write_all(event.as_bytes())?;
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};

    struct Shown(Arc<Feed>);

    impl Site for Shown {
        fn answer(&self, path: &str) -> Option<Answer> {
            match path {
                "/a" => Some(Answer::Whole("text/plain", Cow::Borrowed(b"what is shown"))),
                "/events" => Some(Answer::Events(Arc::clone(&self.0))),
                _ => None,
            }
        }

        fn is_private(&self) -> bool {
            true
        }
    }

    fn shown() -> (SocketAddr, Arc<Feed>) {
        let feed = Arc::new(Feed::default());
        (listen("test", "127.0.0.1:0", Shown(Arc::clone(&feed))).unwrap(), feed)
    }

    fn asked(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn what_is_asked_for_is_answered_and_everything_else_is_told_why_not() {
        let (address, _) = shown();
        for (request, status, told) in [
            ("GET /a HTTP/1.1\r\nHost: 127.0.0.1:1\r\n\r\n", "200 OK", "what is shown"),
            ("GET /a?x=1 HTTP/1.0\r\n\r\n", "200 OK", "what is shown"),
            ("HEAD /a HTTP/1.1\r\n\r\n", "200 OK", "\r\n\r\n"),
            ("GET /b HTTP/1.1\r\n\r\n", "404 Not Found", "nothing is here"),
            ("POST /a HTTP/1.1\r\n\r\n", "405 Method", "only GET"),
            (
                "GET /a HTTP/1.1\r\nHost: elsewhere.example\r\n\r\n",
                "403 Forbidden",
                "by its address",
            ),
            ("nonsense\r\n\r\n", "400 Bad Request", "expected a request"),
        ] {
            let answer = asked(address, request);
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{request}: {answer}");
            assert!(answer.ends_with(told) || answer.contains(told), "{request}: {answer}");
        }
        let head = asked(address, "HEAD /a HTTP/1.1\r\n\r\n");
        assert!(head.contains("Content-Length: 13") && !head.contains("shown"), "{head}");
        let long = format!("GET /a HTTP/1.1\r\nX: {}", "x".repeat(REQUEST_BYTES_MAX));
        let mut stream = TcpStream::connect(address).unwrap();
        // It may be refused before all of it is sent.
        drop(stream.write_all(long.as_bytes()));
        let mut answer = Vec::new();
        drop(stream.read_to_end(&mut answer));
        assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 400"), "{answer:?}");
    }

    #[test]
    fn events_come_to_whoever_listens_as_they_are_published() {
        let (address, feed) = shown();
        feed.publish("first");
        let stream = TcpStream::connect(address).unwrap();
        (&stream).write_all(b"GET /events HTTP/1.1\r\n\r\n").unwrap();
        let mut events = BufReader::new(stream)
            .lines()
            .map(Result::unwrap)
            .filter(|line| line.starts_with("data: "));
        assert_eq!(events.next().unwrap(), "data: first");
        feed.publish("second\nline");
        assert_eq!(events.next().unwrap(), "data: second line");
    }

    #[test]
    fn connections_beyond_those_that_there_may_be_are_turned_away_until_one_ends() {
        let (address, feed) = shown();
        let listen = || {
            let stream = TcpStream::connect(address).unwrap();
            (&stream).write_all(b"GET /events HTTP/1.1\r\n\r\n").unwrap();
            let mut line = String::new();
            // Who is turned away may find the connection gone before it has read why.
            drop(BufReader::new(&stream).read_line(&mut line));
            (stream, line)
        };
        let mut all: Vec<_> = (0..CONNECTIONS_MAX).map(|_| listen()).collect();
        assert!(all.iter().all(|(_, line)| line.contains("200 OK")));
        assert!(!listen().1.contains("200 OK"), "one more than there may be");
        drop(all.pop());
        // Its thread finds out when it writes.
        let again = (0..10_000).find(|_| {
            feed.publish("anything");
            listen().1.contains("200 OK")
        });
        assert!(again.is_some(), "a place that was given back is taken again");
    }

    #[test]
    fn only_addresses_and_localhost_name_this_machine() {
        for (host, names) in [
            ("127.0.0.1:9421", true),
            ("127.0.0.1", true),
            ("[::1]:9421", true),
            ("[::1]", true),
            ("192.168.1.7:80", true),
            ("localhost:9421", true),
            ("LOCALHOST", true),
            ("evil.example:9421", false),
            ("127.0.0.1.evil.example", false),
            ("localhost.evil.example:1", false),
            ("", false),
        ] {
            assert_eq!(names_an_address(host.as_bytes()), names, "{host}");
        }
        assert!(!names_an_address(&[0xff]));
    }
}
