// The page: takes what the daemon tells once a second and draws it. It asks for nothing but to be told, changes nothing, and says so when
// the daemon has gone: numbers that are old are never shown as if they were new.

import { Chart, powers, steps } from "./charts.js";
import { DiskMap } from "./disk-map.js";
import { Spread } from "./latency.js";
import { element, percent, short, size, span, time } from "./words.js";

const MOMENTS_MAX = 600, REPORTS_MAX = 60, SILENT_MS = 5000;
const at = (id) => document.getElementById(id);
const perSecond = (bytes) => short(bytes, "B/s");

const disk = new DiskMap(at("disk"), at("disk-detail"));
const bandwidth = new Chart(at("bandwidth"), "Bytes read and written a second");
const times = new Chart(at("times"), "Times that 99 of 100 requests do not exceed");
const cleaning = new Chart(at("cleaning"), "Bytes logged and brought home a second");
const spread = new Spread(at("spread"));
let moments = [], reports = [], toldAt = 0;

function show({ report, moment }) {
  toldAt = Date.now();
  // Another daemon than before: what was is no part of it.
  if (moments.length && moment.at_s < moments[moments.length - 1].at_s) { moments = []; reports = []; }
  reports = [...reports, report].slice(-REPORTS_MAX);
  moments = [...moments, moment].slice(-MOMENTS_MAX);
  link("live", "live");
  title(report);
  now(report, moment);
  disk.draw(report.state.log_map ?? { cells: [], head_cell: null });
  overTime();
  distribution();
  emptying(report);
  damage(report);
  devices(report);
}

function link(state, words) {
  at("link").dataset.state = state;
  if (at("link").textContent !== words) at("link").textContent = words;
}

function title(report) {
  const label = report.volume.label, heading = label ? `${label} (${report.target})` : report.target;
  document.title = `${report.health.state}: ${heading} · Nearhead`;
  at("target").textContent = heading;
  const badge = at("health");
  badge.dataset.state = report.health.state;
  if (badge.textContent !== report.health.state) badge.textContent = report.health.state;
  const served = report.served;
  const about = [`preset ${report.volume.preset}`, size(report.volume.client_bytes), report.state.phase];
  if (served) about.push(`for ${span(served.uptime_s)}`, served.read_only ? "read-only" : "");
  at("about").textContent = about.filter(Boolean).join(" · ");
  const reasons = report.health.reasons ?? [];
  at("reasons").hidden = reasons.length === 0;
  at("reasons").replaceChildren(...reasons.map((reason) => element("li", {}, reason)));
}

function now(report, moment) {
  const tiles = [
    ["durable writes, 99 of 100", time(moment.durable_p99_ms)],
    ["durable writes, half", time(moment.durable_p50_ms)],
    ["requests", short(moment.requests_per_s, "/s")],
    ["written", perSecond(moment.written_bytes_per_s)],
    ["read", perSecond(moment.read_bytes_per_s)],
    ["logs full", percent(report.state.log_fill_pct)],
    ["waiting in memory", size(report.state.staged_bytes)],
    ["clients", String(report.served?.clients.connections_open ?? "–")],
  ];
  at("now").replaceChildren(...tiles.map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value))));
}

/** Rows of moments, over how long ago they were. */
function ago(names) {
  const last = moments[moments.length - 1].at_s;
  return names.map(([field, name]) => ({ name, points: moments.map((moment) => [moment.at_s - last, moment[field]]) }));
}

function overTime() {
  const last = moments[moments.length - 1].at_s;
  const long = Math.max(60, last - moments[0].at_s);
  const x = { ticks: steps(long).filter((tick) => tick <= long).map((tick) => -tick).reverse(), words: (s) => (s === 0 ? "now" : `${-s} s`), title: "ago" };
  if (x.ticks[0] > -long) x.ticks.unshift(-long);
  x.ticks = x.ticks.map(Math.round);
  const draw = (chart, rows, y, words) => chart.draw({
    rows, x, y,
    said: (index) => `${span(-rows[0].points[index][0])} ago: ` + rows.map((row) => `${row.name} ${words(row.points[index][1])}`).join(", "),
  });
  const most = (rows) => Math.max(0, ...rows.flatMap((row) => row.points.map(([, value]) => value ?? 0)));
  const bytes = ago([["read_bytes_per_s", "read"], ["written_bytes_per_s", "written"]]);
  draw(bandwidth, bytes, { ticks: steps(most(bytes)), words: perSecond }, perSecond);
  const slow = ago([["durable_p99_ms", "durable"], ["write_p99_ms", "other writes"], ["read_p99_ms", "reads"]]);
  const values = slow.flatMap((row) => row.points.map(([, value]) => value)).filter((value) => value > 0);
  const ticks = values.length ? powers(Math.min(...values), Math.max(...values)) : [1, 10, 100];
  draw(times, slow, { ticks, log: true, words: time }, time);
  const moved = ago([["logged_bytes_per_s", "logged"], ["home_bytes_per_s", "brought home"], ["in_place_bytes_per_s", "in place"]]);
  draw(cleaning, moved, { ticks: steps(most(moved)), words: perSecond }, perSecond);
}

function distribution() {
  const newest = reports[reports.length - 1]?.served;
  if (newest) spread.draw(at("span").value === "minute" ? reports[0]?.served : undefined, newest);
}

function emptying(report) {
  const pass = report.state.pass ?? report.state.last_pass;
  let words = "Nothing was brought home since the volume was opened.";
  if (pass && report.state.pass) words = `Blocks go home for ${span(pass.took_s)}, as ${pass.reason_in_words}: ${size(pass.copied_bytes)} so far.`;
  else if (pass) words = `The last pass ended ${span(pass.ended_age_s ?? 0)} ago: ${size(pass.copied_bytes)} in ${span(pass.took_s)}, as ${pass.reason_in_words}.`;
  at("pass").textContent = words;
  const counters = report.counters;
  const rows = [
    ["logged", size(counters.logged_bytes)],
    ["written in place", size(counters.in_place_bytes)],
    ["brought home", size(counters.checkpointed_bytes)],
    ["times a log had no room", String(counters.spills)],
    ["newest snapshot", `number ${report.state.snapshot_number}`],
  ];
  at("written").tBodies[0].replaceChildren(...rows.map(([name, value]) =>
    element("tr", {}, element("th", { scope: "row" }, name), element("td", { class: "number" }, value))));
}

function damage(report) {
  const errors = report.disk_errors ?? {};
  const found = [...(report.state.failure ? [`The volume failed: ${report.state.failure}`] : []), ...(report.state.damage ?? [])];
  if (errors.total > 0) found.push(`${errors.total} commands of the disk failed` + (errors.last ? `, the last: ${errors.last}` : ""));
  for (const note of [report.served?.disk_trouble, report.served?.losses?.last_problem]) if (note) found.push(note);
  if (!found.length) found.push("None found.");
  at("damage").replaceChildren(...found.map((what) => element("li", {}, what)));
}

function devices(report) {
  at("devices").tBodies[0].replaceChildren(...(report.devices ?? []).map((device) =>
    element("tr", {}, element("td", {}, device.role), element("td", {}, device.path), element("td", { class: "number" }, size(device.size_bytes)))));
}

async function begin() {
  try {
    const kept = await (await fetch("/moments.json")).json();
    moments = kept.slice(0, -1);
  } catch { /* Without what was before it begins with what comes. */ }
  const events = new EventSource("/events");
  events.addEventListener("message", (event) => show(JSON.parse(event.data)));
  events.addEventListener("error", () => link("lost", "the daemon does not answer; trying again"));
  at("span").addEventListener("change", distribution);
  setInterval(() => {
    if (toldAt && Date.now() - toldAt > SILENT_MS) link("lost", `no news for ${span((Date.now() - toldAt) / 1000)}`);
  }, 1000);
}

begin();
