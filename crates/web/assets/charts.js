// Lines over an axis, drawn anew each time. The reader moves a cursor over them with the pointer or, once the chart has the focus, with the
// arrow keys, and what stands there is said in the chart's last line and to screen readers.

import { drawn } from "./words.js";

const HEIGHT = 220, LEFT = 62, RIGHT = 28, BOTTOM = 44;
/** Room of a row of the key, and of a label below the axis. */
const KEY_ROW = 18, LABEL_WIDTH = 46;

/** Units of a drawing as wide as `box`: on a narrow screen fewer, so that one is a pixel and text keeps its size. */
export const widthOf = (box) => Math.max(280, Math.min(640, Math.floor(box.clientWidth || 640)));

/** The ticks that have room for their labels: every one, every second, and so on. */
export function labelled(ticks, room) {
  const every = Math.max(1, Math.ceil((ticks.length * LABEL_WIDTH) / Math.max(1, room)));
  return new Set(ticks.filter((_, index) => (ticks.length - 1 - index) % every === 0));
}

/** Where each of `words` stands in a key `width` wide: `[x, row]`, `each` units for a letter and `extra` beside them. */
export function keyPlaces(words, from, width, extra, each) {
  let x = from, row = 0;
  return words.map((word) => {
    const wide = extra + each * word.length;
    if (x > from && x + wide > width) { x = from; row += 1; }
    const place = [x, row];
    x += wide;
    return place;
  });
}

/** Whole steps up to `most`: about four, each 1, 2 or 5 times a power of ten. */
export function steps(most) {
  if (!(most > 0)) return [0, 1];
  const raw = most / 4, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((times) => times * power).find((candidate) => candidate >= raw);
  const all = [];
  for (let value = 0; value < most + step; value += step) all.push(value);
  return all;
}

/** Powers of ten around `least` and `most`. */
export function powers(least, most) {
  const first = Math.floor(Math.log10(least)), last = Math.max(first + 1, Math.ceil(Math.log10(most)));
  return Array.from({ length: last - first + 1 }, (_, index) => 10 ** (first + index));
}

/** A scale from values to places: `log` for powers of ten. */
function scale(ticks, from, to, log) {
  const of = (value) => (log ? Math.log10(Math.max(value, ticks[0])) : value);
  const first = of(ticks[0]), last = of(ticks[ticks.length - 1]);
  return (value) => from + ((of(value) - first) / (last - first || 1)) * (to - from);
}

/**
 * A chart that lives in `box`. `draw({rows, x, y, said})` draws it: `rows` are `{name, points: [[x, y], ...]}`, `x` and `y` are
 * `{ticks, log, words, title}`, and `said(index)` is what stands where the cursor is, the points being in one order in all rows.
 */
export class Chart {
  constructor(box, title) {
    this.cursor = null;
    this.box = box;
    this.svg = drawn("svg", { role: "img", tabindex: "0", "aria-label": title });
    this.said = document.createElement("p");
    this.said.className = "detail";
    this.said.setAttribute("aria-live", "polite");
    box.replaceChildren(this.svg, this.said);
    this.svg.addEventListener("pointermove", (event) => this.point(event));
    this.svg.addEventListener("pointerleave", () => this.move(null));
    this.svg.addEventListener("blur", () => this.move(null));
    this.svg.addEventListener("keydown", (event) => this.key(event));
  }

  draw(what) {
    this.what = what;
    const { rows, x, y } = what;
    const wide = this.width = widthOf(this.box), right = wide - RIGHT;
    const key = keyPlaces(rows.map((row) => row.name), LEFT, wide, 60, 7);
    const keyRows = 1 + Math.max(0, ...key.map(([, row]) => row));
    const TOP = 8 + KEY_ROW * keyRows;
    this.svg.setAttribute("viewBox", `0 0 ${wide} ${HEIGHT}`);
    this.across = scale(x.ticks, LEFT, right, x.log);
    const up = scale(y.ticks, HEIGHT - BOTTOM, TOP, y.log);
    const parts = [];
    for (const tick of y.ticks) {
      parts.push(drawn("line", { class: "grid", x1: LEFT, x2: right, y1: up(tick), y2: up(tick) }));
      parts.push(drawn("text", { x: LEFT - 6, y: up(tick) + 4, "text-anchor": "end" }, y.words(tick)));
    }
    const named = labelled(x.ticks, right - LEFT);
    for (const tick of x.ticks) {
      parts.push(drawn("line", { class: "grid", x1: this.across(tick), x2: this.across(tick), y1: TOP, y2: HEIGHT - BOTTOM }));
      if (named.has(tick)) parts.push(drawn("text", { x: this.across(tick), y: HEIGHT - BOTTOM + 16, "text-anchor": "middle" }, x.words(tick)));
    }
    parts.push(drawn("line", { class: "axis", x1: LEFT, x2: right, y1: HEIGHT - BOTTOM, y2: HEIGHT - BOTTOM }));
    parts.push(drawn("text", { x: (LEFT + right) / 2, y: HEIGHT - 8, "text-anchor": "middle" }, x.title));
    rows.forEach((row, index) => {
      const [keyX, keyRow] = key[index], keyY = 12 + KEY_ROW * keyRow;
      for (const piece of pieces(row.points)) {
        const line = piece.map(([at, value]) => `${this.across(at).toFixed(1)},${up(value).toFixed(1)}`).join(" ");
        parts.push(drawn("polyline", { class: `row row-${index}`, points: line }));
      }
      parts.push(drawn("line", { class: `row row-${index}`, x1: keyX, x2: keyX + 24, y1: keyY, y2: keyY }));
      parts.push(drawn("text", { class: `key-${index}`, x: keyX + 30, y: keyY + 4 }, row.name));
    });
    this.mark = drawn("line", { class: "cursor", y1: TOP, y2: HEIGHT - BOTTOM, visibility: "hidden" });
    this.svg.replaceChildren(...parts, this.mark);
    this.move(this.cursor);
  }

  get places() {
    return this.what?.rows[0]?.points.map(([at]) => at) ?? [];
  }

  point(event) {
    const box = this.svg.getBoundingClientRect();
    const at = ((event.clientX - box.left) / box.width) * this.width;
    let nearest = null;
    this.places.forEach((place, index) => {
      const far = Math.abs(this.across(place) - at);
      if (nearest === null || far < nearest[1]) nearest = [index, far];
    });
    this.move(nearest?.[0] ?? null);
  }

  key(event) {
    const last = this.places.length - 1, now = this.cursor ?? last;
    const to = { ArrowLeft: now - 1, ArrowRight: now + 1, Home: 0, End: last, PageUp: now - 10, PageDown: now + 10 }[event.key];
    if (to === undefined || last < 0) return;
    event.preventDefault();
    this.move(Math.max(0, Math.min(last, to)));
  }

  move(index) {
    this.cursor = index !== null && index < this.places.length ? index : null;
    if (!this.mark) return;
    if (this.cursor === null) {
      this.mark.setAttribute("visibility", "hidden");
      this.said.textContent = "";
      return;
    }
    const at = this.across(this.places[this.cursor]);
    for (const end of ["x1", "x2"]) this.mark.setAttribute(end, at);
    this.mark.setAttribute("visibility", "visible");
    this.said.textContent = this.what.said(this.cursor);
  }
}

/** Runs of points that have a value. */
function pieces(points) {
  const all = [[]];
  for (const point of points) {
    if (point[1] === null || point[1] === undefined) { if (all[all.length - 1].length) all.push([]); } else all[all.length - 1].push(point);
  }
  return all.filter((piece) => piece.length);
}
