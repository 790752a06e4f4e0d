//! The page of a volume: its files, which are part of the program, and what they are told.
//!
//! Each message is one line of JSON: the report that `nearhead status --json` prints, and beside it what happened since the one before. What
//! came earlier is kept in short, so that who opens the page sees the last minutes at once.

use crate::feed::Feed;
use crate::server::{Answer, Site};
use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// Moments that are kept: ten minutes of one a second.
const MOMENTS_MAX: usize = 600;

/// Each file: path, type, content.
const FILES: [(&str, &str, &str); 8] = [
    ("/", "text/html", include_str!("../assets/index.html")),
    ("/page.css", "text/css", include_str!("../assets/page.css")),
    ("/page.js", "text/javascript", include_str!("../assets/page.js")),
    ("/charts.js", "text/javascript", include_str!("../assets/charts.js")),
    ("/disk-map.js", "text/javascript", include_str!("../assets/disk-map.js")),
    ("/latency.js", "text/javascript", include_str!("../assets/latency.js")),
    ("/words.js", "text/javascript", include_str!("../assets/words.js")),
    ("/icon.svg", "image/svg+xml", include_str!("../assets/icon.svg")),
];

#[derive(Debug, Default)]
struct Shown {
    feed: Arc<Feed>,
    moments: Mutex<VecDeque<String>>,
}

/// What the page is told; the same for all clones.
#[derive(Clone, Debug, Default)]
pub struct Page(Arc<Shown>);

impl Page {
    /// Tells whoever looks: `report` and `moment` are JSON values, the second short, as many are kept.
    pub fn tell(&self, report: &str, moment: &str) {
        let mut moments = self.0.moments.lock().unwrap_or_else(PoisonError::into_inner);
        moments.push_back(moment.to_owned());
        if moments.len() > MOMENTS_MAX {
            moments.pop_front();
        }
        drop(moments);
        self.0.feed.publish(format!("{{\"report\":{report},\"moment\":{moment}}}"));
    }

    fn moments(&self) -> String {
        let moments = self.0.moments.lock().unwrap_or_else(PoisonError::into_inner);
        let all: Vec<&str> = moments.iter().map(String::as_str).collect();
        format!("[{}]", all.join(","))
    }
}

impl Site for Page {
    fn answer(&self, path: &str) -> Option<Answer> {
        match path {
            "/events" => Some(Answer::Events(Arc::clone(&self.0.feed))),
            "/moments.json" => {
                Some(Answer::Whole("application/json", Cow::Owned(self.moments().into_bytes())))
            }
            _ => FILES
                .iter()
                .find(|(of, ..)| *of == path)
                .map(|(_, kind, text)| Answer::Whole(kind, Cow::Borrowed(text.as_bytes()))),
        }
    }

    fn is_private(&self) -> bool {
        true
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use std::time::Duration;

    fn text(page: &Page, path: &str) -> String {
        match page.answer(path) {
            Some(Answer::Whole(_, bytes)) => String::from_utf8(bytes.into_owned()).unwrap(),
            other => panic!("{path}: {other:?}"),
        }
    }

    #[test]
    fn the_last_moments_are_kept_and_no_more_of_them_than_there_is_room_for() {
        let page = Page::default();
        assert_eq!(text(&page, "/moments.json"), "[]");
        for number in 0..MOMENTS_MAX + 2 {
            page.tell("{}", &number.to_string());
        }
        let kept = text(&page, "/moments.json");
        assert!(kept.starts_with("[2,3,") && kept.ends_with(",601]"), "{kept}");
        let (_, newest) = page.0.feed.after(0, Duration::ZERO).unwrap();
        assert_eq!(newest.as_ref(), "{\"report\":{},\"moment\":601}");
    }

    #[test]
    fn every_file_that_another_one_names_is_there_and_none_is_asked_of_elsewhere() {
        let page = Page::default();
        for (of, _, content) in FILES {
            assert!(!content.is_empty(), "{of}");
            let elsewhere = content.replace("http://www.w3.org/2000/svg", "");
            assert!(!elsewhere.contains("http:") && !elsewhere.contains("https:"), "{of}");
            let is_path = |piece: &&str| {
                let path = piece.strip_prefix('.').unwrap_or(piece);
                path.starts_with('/') && path.contains('.') && !path.contains([' ', '\n'])
            };
            for named in content.split(['"', '\'']).filter(is_path) {
                assert!(page.answer(named.trim_start_matches('.')).is_some(), "{of}: {named}");
            }
        }
        assert!(page.answer("/../Cargo.toml").is_none());
    }
}
