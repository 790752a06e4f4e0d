// How requests' times are spread: of each kind the share that took at most so long, since the start or between two reports.

import { Chart, powers } from "./charts.js";
import { percent, time } from "./words.js";

const KINDS = [["durable", "durable writes"], ["write", "other writes"], ["read", "reads"]];

/** Counts by step, less those of an earlier report; all of them if the earlier one counts more, being another daemon's. */
export function between(earlier, later) {
  const before = new Map((earlier?.steps ?? []).map((step) => [step.at_most, step.count]));
  const steps = later.steps.map((step) => ({ at_most: step.at_most, count: step.count - (before.get(step.at_most) ?? 0) }));
  return steps.some((step) => step.count < 0) ? later.steps : steps.filter((step) => step.count > 0);
}

/** Points of time in ms and percent at most that. */
export function shares(steps) {
  const all = steps.reduce((sum, step) => sum + step.count, 0);
  let seen = 0;
  return steps.map((step) => { seen += step.count; return [step.at_most / 1e6, (100 * seen) / all]; });
}

export class Spread {
  constructor(box) {
    this.chart = new Chart(box, "Share of requests by the time that they take");
  }

  draw(earlier, later) {
    const rows = KINDS.map(([kind, name]) => {
      const now = later?.latency?.[kind]?.times_ns ?? { steps: [] };
      return { name, points: shares(between(earlier?.latency?.[kind]?.times_ns, now)) };
    });
    const times = rows.flatMap((row) => row.points.map(([ms]) => ms));
    const ticks = times.length ? powers(Math.min(...times) / 1.2, Math.max(...times)) : [0.1, 1, 10, 100];
    // One row of places for the cursor: all times that any kind has.
    const places = [...new Set(times)].sort((a, b) => a - b);
    const at = (points, ms) => points.reduce((share, point) => (point[0] <= ms ? point[1] : share), 0);
    const full = rows.map((row) => ({ name: row.name, points: places.map((ms) => [ms, row.points.length ? at(row.points, ms) : null]) }));
    this.chart.draw({
      rows: full,
      x: { ticks, log: true, words: time, title: "time from request to answer" },
      y: { ticks: [0, 25, 50, 75, 100], words: percent },
      said: (index) => `Within ${time(places[index])}: ` + full.filter((row) => row.points[index][1] !== null)
        .map((row) => `${percent(row.points[index][1])} of ${row.name}`).join(", "),
    });
  }
}
