/** One line or one layer of bars. */
interface Series {
  readonly name: string;
  /** The class of its colour. */
  readonly className: string;
  readonly values: readonly number[];
}

interface Chart {
  readonly series: readonly Series[];
  /** What stands below each place of the horizontal axis; as many as values. */
  readonly labels: readonly string[];
  /** Of the vertical axis. */
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

/** Bars that stand on one another. */
export function barChart({ series, labels, unit }: Chart): string {
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
export function lineChart({ series, labels, unit }: Chart): string {
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
export function escaped(text: string): string {
  return text.replace(/[&<>"']/g, (found) => `&#${found.charCodeAt(0)};`);
}
