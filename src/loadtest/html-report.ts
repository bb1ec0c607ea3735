import { Histogram, lastOf } from "./histogram.ts";
import type { LoadtestDetail, LoadtestReport } from "./report.ts";

/** One line or one layer of bars. */
interface Series {
  readonly name: string;
  /** The class of its colour. */
  readonly className: string;
  readonly values: readonly number[];
}

interface Chart {
  readonly series: readonly Series[];
  /** The text below each place of the horizontal axis; as many as values. */
  readonly labels: readonly string[];
  /** The unit of the vertical axis. */
  readonly unit: string;
}

const WIDTH = 720;
const HEIGHT = 240;
const LEFT = 64;
const RIGHT = 12;
const TOP = 14;
const BOTTOM = 30;
const PLOT_WIDTH = WIDTH - LEFT - RIGHT;
const PLOT_HEIGHT = HEIGHT - TOP - BOTTOM;

function barChart({ series, labels, unit }: Chart): string {
  const totals = labels.map((_, i) => series.reduce((total, { values }) => total + (values[i] ?? 0), 0));
  const top = niceTop(Math.max(0, ...totals));
  const step = PLOT_WIDTH / Math.max(1, labels.length);
  const bars = labels.flatMap((label, i) => {
    let below = 0;
    return series.map(({ name, className, values }) => {
      const value = values[i] ?? 0;
      const height = (PLOT_HEIGHT * value) / top;
      const y = TOP + PLOT_HEIGHT - (PLOT_HEIGHT * below) / top - height;
      below += value;
      if (value === 0) return "";
      const at = `x="${round(LEFT + i * step + step * 0.1)}" y="${round(y)}"`;
      const size = `width="${round(step * 0.8)}" height="${round(height)}"`;
      return `<rect class="${className}" ${at} ${size}><title>${escaped(`${label}: ${shownNumber(value)} ${name}`)}</title></rect>`;
    });
  });
  return framed({ top, unit, labels, body: bars.join(""), series });
}

/** Lines over one another; a place without a value breaks them. */
function lineChart({ series, labels, unit }: Chart): string {
  const top = niceTop(Math.max(0, ...series.flatMap(({ values }) => values.filter(Number.isFinite))));
  const step = PLOT_WIDTH / Math.max(1, labels.length);
  const lines = series.map(({ className, values }) => {
    const points = values.map((value, i) =>
      Number.isFinite(value)
        ? `${round(LEFT + (i + 0.5) * step)},${round(TOP + PLOT_HEIGHT * (1 - value / top))}`
        : undefined,
    );
    return runsOf(points)
      .map((run) => `<polyline class="${className}" points="${run.join(" ")}"/>`)
      .join("");
  });
  return framed({ top, unit, labels, body: lines.join(""), series });
}

interface Frame extends Chart {
  readonly top: number;
  readonly body: string;
}

function framed({ top, unit, labels, body, series }: Frame): string {
  const ticks = [0, 0.25, 0.5, 0.75, 1].map((share) => {
    const y = round(TOP + PLOT_HEIGHT * (1 - share));
    const text = `<text x="${LEFT - 8}" y="${y + 4}" text-anchor="end">${escaped(shownNumber(top * share))}</text>`;
    return `<line class="grid" x1="${LEFT}" x2="${WIDTH - RIGHT}" y1="${y}" y2="${y}"/>${text}`;
  });
  const every = Math.max(1, Math.ceil(labels.length / 8));
  const step = PLOT_WIDTH / Math.max(1, labels.length);
  const names = labels.map((label, i) =>
    i % every === 0
      ? `<text x="${round(LEFT + (i + 0.5) * step)}" y="${HEIGHT - 10}" text-anchor="middle">${escaped(label)}</text>`
      : "",
  );
  const legend = series.map(({ name, className }) => `<span><i class="${className}"></i>${escaped(name)}</span>`);
  const label = escaped(`${series.map(({ name }) => name).join(", ")} in ${unit}`);
  return (
    `<p class="legend">${legend.join("")}<span class="unit">${escaped(unit)}</span></p>` +
    `<svg viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label="${label}">${ticks.join("")}${names.join("")}${body}</svg>`
  );
}

/** The parts between gaps. */
function runsOf(points: readonly (string | undefined)[]): readonly string[][] {
  const runs: string[][] = [[]];
  for (const point of points) {
    if (point === undefined) runs.push([]);
    else runs.at(-1)?.push(point);
  }
  return runs.filter((run) => run.length > 0);
}

/** The next of 1, 2 and 5 times a power of ten, so that the ticks can be read. */
function niceTop(value: number): number {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return ([1, 2, 4, 5, 8, 10].find((times) => times * power >= value) ?? 10) * power;
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}

const NUMBER = new Intl.NumberFormat("en-US", { maximumSignificantDigits: 3, notation: "compact" });

function shownNumber(value: number): string {
  return NUMBER.format(value);
}

/** Text that is safe anywhere in a page. */
function escaped(text: string): string {
  return text.replace(/[&<>"']/g, (found) => `&#${found.charCodeAt(0)};`);
}

/** A page that needs nothing but itself: no script, no font and no picture from elsewhere. */
export function htmlReport(report: LoadtestReport, detail: LoadtestDetail): string {
  const { scenario, store, seed, processes, concurrency, durationMs, latencyMs, admission } = report;
  const isWell = admission.excessTokens === 0 && report.errors === 0;
  const figures: readonly (readonly [string, string])[] = [
    ["requests", whole(report.requests)],
    ["granted", whole(report.granted)],
    ["refused", whole(report.refused)],
    ["errors", whole(report.errors)],
    ["granted a second", String(report.grantedPerSecond)],
    ["p50", ms(latencyMs.p50)],
    ["p90", ms(latencyMs.p90)],
    ["p99", ms(latencyMs.p99)],
    ["longest", ms(latencyMs.max)],
    ...(report.units === undefined
      ? []
      : ([
          ["write units", whole(report.units.writes)],
          ["read units", whole(report.units.reads)],
        ] as const)),
  ];
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Load test: ${escaped(scenario)} on ${escaped(store)}</title>
<style>${STYLE}</style>
</head>
<body>
<main>
<h1>Load test: ${escaped(scenario)}</h1>
<p class="terms">${escaped(store)} · ${processes} processes with ${concurrency} callers each · ${(durationMs / 1_000).toFixed(1)} s · seed ${seed}${report.interrupted === true ? " · interrupted" : ""}</p>
<p class="verdict ${isWell ? "well" : "ill"}">${escaped(verdictOf(report))}</p>
<dl>${figures.map(([name, value]) => `<div><dt>${escaped(name)}</dt><dd>${escaped(value)}</dd></div>`).join("")}</dl>
<section><h2>Requests over time</h2>${requestsChart(detail)}</section>
<section><h2>Latency over time</h2>${latencyChart(detail)}</section>
<section><h2>Latency of all requests</h2>${distributionChart(detail)}</section>
<section><h2>Granted, and what arithmetic allows</h2>
<p>For every limit of every entity, parents included: capacity and refill for the time of the test.</p>
${admissionTable(detail)}</section>
</main>
</body>
</html>
`;
}

function verdictOf({ admission, errors, errorCodes = {} }: LoadtestReport): string {
  if (admission.excessTokens > 0) return `Over-admitted by ${whole(admission.excessTokens)} tokens.`;
  if (errors > 0) {
    return `Nothing was over-admitted, but ${whole(errors)} requests failed: ${Object.keys(errorCodes).join(", ")}.`;
  }
  return "Nothing was over-admitted, and no request failed.";
}

function secondsOf({ slices, sliceMs }: LoadtestDetail): readonly string[] {
  return slices.map((_, i) => `${Number(((i * sliceMs) / 1_000).toFixed(1))} s`);
}

function requestsChart(detail: LoadtestDetail): string {
  const { slices, sliceMs } = detail;
  const perSecond = (count: number) => (1_000 * count) / sliceMs;
  return barChart({
    series: [
      { name: "granted", className: "one", values: slices.map(({ granted }) => perSecond(granted)) },
      { name: "refused", className: "two", values: slices.map(({ refused }) => perSecond(refused)) },
      { name: "errors", className: "three", values: slices.map(({ errors }) => perSecond(errors)) },
    ],
    labels: secondsOf(detail),
    unit: "requests a second",
  });
}

function latencyChart(detail: LoadtestDetail): string {
  const histograms = detail.slices.map(({ latency }) => {
    const histogram = new Histogram();
    histogram.add(latency);
    return histogram;
  });
  const at = (share: number) =>
    histograms.map((each) => (each.total === 0 ? Number.NaN : each.percentileMicros(share) / 1_000));
  return lineChart({
    series: [
      { name: "p50", className: "one", values: at(0.5) },
      { name: "p90", className: "two", values: at(0.9) },
      { name: "p99", className: "three", values: at(0.99) },
    ],
    labels: secondsOf(detail),
    unit: "ms",
  });
}

/** Each bar reaches to twice where the one before it ends. */
function distributionChart({ latency }: LoadtestDetail): string {
  const counts = new Map<number, number>();
  for (const [bucket, count] of latency.counts) {
    const doubling = Math.ceil(Math.log2(Math.max(1, lastOf(bucket))));
    counts.set(doubling, (counts.get(doubling) ?? 0) + count);
  }
  const [from = 0, to = from] = [[...counts.keys()].sort((a, b) => a - b)].flatMap((all) => [all.at(0), all.at(-1)]);
  const doublings = Array.from({ length: to - from + 1 }, (_, i) => from + i);
  return barChart({
    series: [{ name: "requests", className: "one", values: doublings.map((each) => counts.get(each) ?? 0) }],
    labels: doublings.map((each) => `≤ ${ms(2 ** each / 1_000)}`),
    unit: "requests, by how long they took",
  });
}

function admissionTable({ checks }: LoadtestDetail): string {
  const rows = checks.map(({ entityId, limit, grantedTokens, boundTokens, excessTokens }) => {
    const share = Math.min(100, (100 * grantedTokens) / boundTokens);
    const bar = `<svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true"><rect class="rest" width="100" height="8"/><rect class="${excessTokens > 0 ? "three" : "one"}" width="${share.toFixed(1)}" height="8"/></svg>`;
    const cells = [whole(grantedTokens), whole(boundTokens), whole(excessTokens)];
    return `<tr><td>${escaped(entityId)}</td><td>${escaped(limit)}</td>${cells.map((cell) => `<td class="number">${cell}</td>`).join("")}<td>${bar}</td></tr>`;
  });
  return `<div class="wide"><table><thead><tr><th>entity</th><th>limit</th><th class="number">granted</th><th class="number">allowed</th><th class="number">excess</th><th>share of what is allowed</th></tr></thead><tbody>${rows.join("")}</tbody></table></div>`;
}

const WHOLE = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

function whole(value: number): string {
  return WHOLE.format(value);
}

function ms(value: number): string {
  if (value >= 10_000) return `${(value / 1_000).toFixed(0)} s`;
  return `${value < 10 ? Number(value.toFixed(2)) : value.toFixed(0)} ms`;
}

const STYLE = `
:root { color-scheme: light dark; --ground: #ffffff; --card: #f6f7f9; --text: #1c2430; --faint: #5b6675; --grid: #dde2e8;
  --one: #2166ac; --two: #e08a1e; --three: #b2182b; --well: #14693a; }
@media (prefers-color-scheme: dark) { :root { --ground: #14181e; --card: #1d232b; --text: #e6eaf0; --faint: #9aa6b5; --grid: #333c47;
  --one: #6aaee8; --two: #f0b35a; --three: #f0707c; --well: #6fcf97; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--text); font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 60rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; }
h1 { margin: 0; font-size: 1.6rem; } h2 { margin: 0 0 .25rem; font-size: 1.1rem; }
.terms, section > p { color: var(--faint); margin: .25rem 0 1rem; }
.verdict { padding: .6rem .9rem; border-left: 4px solid; background: var(--card); font-weight: 600; }
.well { color: var(--well); } .ill { color: var(--three); }
dl { display: grid; grid-template-columns: repeat(auto-fill, minmax(8rem, 1fr)); gap: .75rem; margin: 1rem 0 1.5rem; }
dl div { background: var(--card); padding: .5rem .75rem; border-radius: 6px; }
dt { color: var(--faint); font-size: .8rem; } dd { margin: 0; font-size: 1.2rem; font-variant-numeric: tabular-nums; }
section { margin: 1.5rem 0; padding: 1rem; background: var(--card); border-radius: 8px; }
svg { display: block; width: 100%; height: auto; } svg text { fill: var(--faint); font-size: 11px; }
.grid { stroke: var(--grid); stroke-width: 1; }
rect.one { fill: var(--one); } rect.two { fill: var(--two); } rect.three { fill: var(--three); } rect.rest { fill: var(--grid); }
polyline { fill: none; stroke-width: 2; stroke-linejoin: round; stroke-linecap: round; }
polyline.one { stroke: var(--one); } polyline.two { stroke: var(--two); } polyline.three { stroke: var(--three); }
.legend { display: flex; flex-wrap: wrap; gap: 1rem; font-size: .85rem; } .unit { margin-left: auto; }
.legend i { display: inline-block; width: .8em; height: .8em; margin-right: .4em; border-radius: 2px; }
i.one { background: var(--one); } i.two { background: var(--two); } i.three { background: var(--three); }
.wide { overflow-x: auto; } table { width: 100%; border-collapse: collapse; font-size: .9rem; }
th, td { padding: .25rem .6rem; text-align: left; border-bottom: 1px solid var(--grid); white-space: nowrap; }
.number { text-align: right; font-variant-numeric: tabular-nums; } .bar { width: 100%; min-width: 8rem; height: 8px; }
`;
