// The logs by their place on the disk: how much of each is needed, how much waits for the next snapshot to be free, and where the head is
// taken to be. With the focus the arrow keys go from one to the next.

import { keyPlaces, widthOf } from "./charts.js";
import { drawn, percent } from "./words.js";

const TOP = 18, FLOOR = 84, KEY = 94, KEY_ROW = 16;

export class DiskMap {
  constructor(box, detail) {
    this.detail = detail;
    this.chosen = null;
    this.map = { cells: [], head_cell: null };
    this.box = box;
    this.svg = drawn("svg", { role: "img", tabindex: "0", "aria-label": "Fill of the logs along the disk" });
    box.replaceChildren(this.svg);
    this.svg.addEventListener("pointermove", (event) => {
      const box = this.svg.getBoundingClientRect();
      this.choose(Math.floor(((event.clientX - box.left) / box.width) * this.map.cells.length));
    });
    this.svg.addEventListener("pointerleave", () => this.choose(null));
    this.svg.addEventListener("blur", () => this.choose(null));
    this.svg.addEventListener("keydown", (event) => {
      const last = this.map.cells.length - 1, now = this.chosen ?? this.map.head_cell ?? 0;
      const to = { ArrowLeft: now - 1, ArrowRight: now + 1, Home: 0, End: last }[event.key];
      if (to === undefined || last < 0) return;
      event.preventDefault();
      this.choose(Math.max(0, Math.min(last, to)));
    });
  }

  draw(map) {
    this.map = map;
    const width = widthOf(this.box), wide = width / Math.max(1, map.cells.length), gap = wide > 4 ? 1 : 0;
    const parts = [];
    const bar = (kind, index, from, to) => {
      const high = Math.max(0, ((to - from) / 100) * (FLOOR - TOP));
      const top = FLOOR - (to / 100) * (FLOOR - TOP);
      return drawn("rect", { class: kind, x: index * wide, width: Math.max(.5, wide - gap), y: top, height: high });
    };
    map.cells.forEach((cell, index) => {
      const needed = Math.min(cell.needed_pct, 100), full = Math.max(needed, Math.min(cell.fill_pct, 100));
      parts.push(bar("waits", index, needed, full), bar("needed", index, 0, needed));
    });
    parts.push(drawn("rect", { class: "empty", x: .5, y: TOP, width: width - 1, height: FLOOR - TOP }));
    if (map.head_cell !== null && map.head_cell !== undefined) {
      const at = (map.head_cell + .5) * wide;
      parts.push(drawn("path", { class: "head", d: `M${at - 6} 2h12l-6 12z` }));
    }
    const legend = [["needed", "needed"], ["waits", "free after the next snapshot"], ["head", "head, as far as known"]];
    const places = keyPlaces(legend.map(([, words]) => words), 0, width, 40, 6.4);
    legend.forEach(([kind, words], index) => {
      const [x, row] = places[index], y = KEY + KEY_ROW * row;
      parts.push(drawn("rect", { class: kind, x, y, width: 12, height: 12 }), drawn("text", { x: x + 18, y: y + 10 }, words));
    });
    const high = KEY + KEY_ROW * (1 + places[places.length - 1][1]);
    this.svg.setAttribute("viewBox", `0 0 ${width} ${high}`);
    this.frame = drawn("rect", { class: "chosen", y: TOP, height: FLOOR - TOP, width: wide, visibility: "hidden" });
    this.wide = wide;
    this.svg.replaceChildren(...parts, this.frame);
    this.choose(this.chosen);
  }

  choose(index) {
    this.chosen = index !== null && index >= 0 && index < this.map.cells.length ? index : null;
    if (!this.frame) return;
    this.frame.setAttribute("visibility", this.chosen === null ? "hidden" : "visible");
    const cell = this.map.cells[this.chosen];
    if (!cell) {
      this.detail.textContent = this.map.cells.length ? "" : "This preset has no logs.";
      return;
    }
    this.frame.setAttribute("x", this.chosen * this.wide);
    const last = cell.first_log + cell.logs - 1;
    const logs = cell.logs === 1 ? `Log ${cell.first_log}` : `Logs ${cell.first_log} to ${last}`;
    const head = this.chosen === this.map.head_cell ? "; the head is near" : "";
    this.detail.textContent = `${logs}: ${percent(cell.fill_pct)} written, ${percent(cell.needed_pct)} needed${head}`;
  }
}
