//! The pages that the program writes, in a real browser: on a phone nothing is wider than the screen, and charts follow the scheme that the
//! reader's system asks for, so that words, axes and series can be told from their ground.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::browser::{Browser, CONTRAST, can_show};
use common::{Scratch, run_ok};
use serde_json::json;

#[test]
fn the_page_of_the_demo_fits_a_phone_and_follows_the_scheme() {
    if !can_show() {
        return;
    }
    let scratch = Scratch::new("demo-page");
    run_ok(&scratch, &["demo", "--virtual", "--seconds", "1", "--out", "out"]);
    fits_and_follows(&scratch);
}

#[test]
fn the_page_of_the_figures_fits_a_phone_and_follows_the_scheme() {
    if !can_show() {
        return;
    }
    let scratch = Scratch::new("figures-page");
    run_ok(&scratch, &["figures", "fig2a", "--quick", "--out", "out"]);
    fits_and_follows(&scratch);
}

fn fits_and_follows(scratch: &Scratch) {
    let browser = Browser::open(800, 900);
    browser.be_a_phone();
    for scheme in ["light", "dark"] {
        browser.prefer(scheme);
        browser.go(&format!("file://{}", scratch.text("out/report.html")));
        let wide = browser.run("return document.documentElement.scrollWidth");
        assert!(wide.as_u64().unwrap() <= 360, "{scheme}: {wide} px");
        assert_eq!(browser.faint_texts(), json!([]), "{scheme}");
        let charts = browser.run(&format!("{CONTRAST}{CHARTS}"));
        let charts = charts.as_array().unwrap();
        assert!(!charts.is_empty());
        for chart in charts {
            let of = |name: &str| chart[name].as_f64().unwrap();
            for ground in ["painted", "behind"] {
                assert_eq!(of(ground) > 0.5, scheme == "light", "{scheme}, {ground}: {chart}");
            }
            assert!(of("faintest_text") >= 4.5, "{scheme}: {chart}");
            assert_eq!(chart["struck_texts"], json!([]), "{scheme}");
            // Orange and sky blue, which every kind of colour vision tells apart, are pale on white.
            let contrast_min = if scheme == "dark" { 3.0 } else { 2.0 };
            assert!(of("faintest_shape") >= contrast_min, "{scheme}: {chart}");
        }
    }
}

/// Of each chart: how light its ground is, as it is painted and behind that; the least contrast with it that a text has, or a shape that is
/// not pale on purpose; and the texts that lie under another or under a thick line.
const CHARTS: &str = "
    return [...document.querySelectorAll('svg')].map((svg) => {
        const ground = getComputedStyle(svg.querySelector('rect')).fill;
        const colours = (selector) => [...svg.querySelectorAll(selector)].filter((it) => it.getAttribute('opacity') === '1')
            .flatMap((it) => [getComputedStyle(it).fill, getComputedStyle(it).stroke])
            .filter((colour) => colour !== 'none').map((colour) => contrast(colour, ground));
        const texts = [...svg.querySelectorAll('text')];
        const over = [...texts, ...svg.querySelectorAll('polyline[stroke-width=\"2\"]')];
        const meet = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
        const is_struck = (text) => over.some((it) => it !== text && meet(it.getBoundingClientRect(), text.getBoundingClientRect()));
        return {
            struck_texts: texts.filter(is_struck).map((it) => it.textContent.trim()),
            painted: light(ground),
            behind: light(getComputedStyle(svg).backgroundColor),
            faintest_text: Math.min(...colours('text')),
            faintest_shape: Math.min(...colours('rect:not(:first-of-type), circle, polyline, polygon, path, line')),
        };
    });";
