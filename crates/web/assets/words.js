// Numbers as people read them, and elements as scripts make them. Text goes in as text: what a device is called is never taken for markup.

const STEPS = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];

/** Three digits that count, with the prefix of the unit. */
export function short(value, unit) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  for (const [step, prefix] of STEPS) {
    if (Math.abs(value) >= step) return `${digits(value / step)} ${prefix}${unit}`;
  }
  return `${digits(value)} ${unit}`.trim();
}

function digits(value) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  return value.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : 2).replace(/\.0+$/, "");
}

/** A time in the unit that suits it. */
export function time(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms < 1) return `${digits(ms * 1000)} µs`;
  return ms < 1000 ? `${digits(ms)} ms` : span(ms / 1000);
}

/** How long something is. */
export function span(seconds) {
  if (seconds < 120) return `${digits(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  return seconds < 172800 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86400)} days`;
}

/** Sizes of devices: powers of two, as the program prints them. */
export function size(bytes) {
  const steps = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let step = 0;
  while (bytes >= 1024 && step + 1 < steps.length) { bytes /= 1024; step += 1; }
  return `${digits(bytes)} ${steps[step]}`;
}

export const percent = (value) => `${digits(value)} %`;

/** An element with text or others in it. */
export function element(name, fields = {}, ...inside) {
  const made = document.createElement(name);
  for (const [field, value] of Object.entries(fields)) made.setAttribute(field, value);
  made.append(...inside);
  return made;
}

/** The same of a drawing. */
export function drawn(name, fields = {}, ...inside) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [field, value] of Object.entries(fields)) made.setAttribute(field, value);
  made.append(...inside);
  return made;
}
