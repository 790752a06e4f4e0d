//! What a daemon shows over HTTP: a small server that only answers `GET`, and the page that shows a volume in a browser.
//!
//! Whoever drives a volume hands over text now and then and never waits for anybody; threads of this crate give it to whoever asks. It
//! knows nothing of volumes: what it is handed are bytes, and what they mean is between the report of `nearhead status` and the scripts of
//! the page (`assets/`). Nothing that is asked changes anything, and nothing is loaded from elsewhere, so the page works without a network.

mod feed;
mod page;
mod server;

pub use feed::Feed;
pub use page::Page;
pub use server::{Answer, Site, listen};
