/** One reading of a limit. Whole tokens; negative in debt. */
export interface Reading {
  readonly atMs: number;
  readonly available: number;
  readonly capacity: number;
}

/** Something that happened to the limit, marked where the balance stood afterwards. */
export interface Mark {
  readonly kind: "taken" | "overdrawn" | "refused" | "adjusted";
  readonly atMs: number;
  readonly before: number;
  readonly after: number;
  /** Whole tokens that were asked for, or by which a lease was adjusted. */
  readonly amount: number;
  /** Where its words have room. */
  readonly side: "left" | "right" | "above" | "below";
}

/** A stretch of time worth seeing: a window of a schedule, an open session. */
export interface Shade {
  readonly fromMs: number;
  readonly toMs: number;
  readonly label: string;
}

/** An instant on the time axis; `line` draws it through the picture, with words at its top. */
export interface Tick {
  readonly atMs: number;
  readonly label: string;
  readonly line?: string;
}

/** A balance over time, ready to be drawn. */
export interface BalancePicture {
  /** Names the file, and the ids within it. */
  readonly name: string;
  readonly title: string;
  /** What the picture shows, for those who cannot see it. */
  readonly description: string;
  readonly readings: readonly Reading[];
  readonly marks: readonly Mark[];
  readonly shades: readonly Shade[];
  readonly ticks: readonly Tick[];
  /** Values with a line and a label on the left; the lowest and highest bound the picture. */
  readonly levels: readonly number[];
}

/** The picture as SVG. The same picture gives the same bytes. */
export function svgOf(picture: BalancePicture): string {
  const { name, title, description, readings, marks } = picture;
  const scale = scaleOf(picture);
  const body = [
    `<title id="${name}-title">${escaped(title)}</title>`,
    `<desc id="${name}-desc">${escaped(description)}</desc>`,
    // A background of its own: the page around it may be light or dark.
    `<rect x="0.5" y="0.5" width="${WIDTH - 1}" height="${HEIGHT - 1}" rx="6" fill="${PAPER}" stroke="${EDGE}"/>`,
    text({ x: PLOT.left, y: 22, words: title, extra: 'font-weight="600" font-size="13"' }),
    ...legend(picture),
    ...debtArea(scale),
    ...picture.shades.map((shade) => shadeOf(shade, scale)),
    ...levelLines(picture, scale),
    ...timeAxis(picture, scale),
    path({ d: capacityLine(readings, scale), stroke: CAPACITY, extra: 'stroke-width="1.5" stroke-dasharray="5 3"' }),
    path({ d: balanceLine(readings, scale), stroke: BALANCE, extra: 'stroke-width="2.25" stroke-linejoin="round"' }),
    ...marks.map((mark) => markOf(mark, scale)),
  ];
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" width="${WIDTH}" height="${HEIGHT}" ` +
      `role="img" aria-labelledby="${name}-title ${name}-desc" font-family="${FONTS}" font-size="11" fill="${INK}">`,
    ...body.map((line) => `  ${line}`),
    "</svg>\n",
  ].join("\n");
}

const WIDTH = 760;
const HEIGHT = 260;
const PLOT = { left: 74, right: WIDTH - 22, top: 44, bottom: HEIGHT - 32 };

const FONTS = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', Helvetica, Arial, sans-serif";
// Each at least 4.5 to 1 against the paper and the shades, and told apart by form as well as by colour.
const PAPER = "#ffffff";
const EDGE = "#d0d7de";
const INK = "#1f2328";
const QUIET = "#57606a";
const GRID = "#eaeef2";
const SHADE = "#fff4cf";
const DEBT = "#ffe9e6";
const BALANCE = "#0550ae";
const CAPACITY = "#57606a";
const COLOURS = { taken: BALANCE, overdrawn: "#953800", refused: "#b3151f", adjusted: "#6639ba" } as const;
const WORDS = { taken: "taken", overdrawn: "taken into debt", refused: "refused", adjusted: "adjusted" } as const;

/** How far the words above the plot stand over it. */
const HEADROOM = 14;

interface Scale {
  x(atMs: number): number;
  y(tokens: number): number;
  readonly lowest: number;
}

function scaleOf({ readings, levels }: BalancePicture): Scale {
  const fromMs = readings[0]?.atMs ?? 0;
  const toMs = readings.at(-1)?.atMs ?? 1;
  const lowest = Math.min(...levels);
  const highest = Math.max(...levels);
  const top = PLOT.top + HEADROOM;
  return {
    x: (atMs) => PLOT.left + ((atMs - fromMs) / (toMs - fromMs)) * (PLOT.right - PLOT.left),
    y: (tokens) => PLOT.bottom - ((tokens - lowest) / (highest - lowest)) * (PLOT.bottom - top),
    lowest,
  };
}

function legend({ marks }: BalancePicture): string[] {
  const entries: { width: number; draw: (x: number) => string }[] = [
    { width: 74, draw: (x) => sample(x, "balance", `stroke="${BALANCE}" stroke-width="2.25"`) },
    { width: 78, draw: (x) => sample(x, "capacity", `stroke="${CAPACITY}" stroke-width="1.5" stroke-dasharray="5 3"`) },
  ];
  for (const kind of ["taken", "overdrawn", "adjusted", "refused"] as const) {
    if (!marks.some((mark) => mark.kind === kind)) continue;
    const words = WORDS[kind];
    entries.push({
      width: 24 + words.length * 6,
      draw: (x) => shapeOf(kind, x + 5, LEGEND_Y - 4) + text({ x: x + 14, y: LEGEND_Y, words }),
    });
  }
  let x = PLOT.right - entries.reduce((sum, { width }) => sum + width, 0);
  return entries.map(({ width, draw }) => {
    const drawn = draw(x);
    x += width;
    return drawn;
  });
}

const LEGEND_Y = 22;

function sample(x: number, words: string, stroke: string): string {
  return `<path d="M${x} ${LEGEND_Y - 4}h18" fill="none" ${stroke}/>${text({ x: x + 23, y: LEGEND_Y, words })}`;
}

function debtArea({ y, lowest }: Scale): string[] {
  if (lowest >= 0) return [];
  return [rect({ x: PLOT.left, y: y(0), width: PLOT.right - PLOT.left, height: y(lowest) - y(0), fill: DEBT })];
}

function shadeOf({ fromMs, toMs, label }: Shade, { x }: Scale): string {
  const left = Math.max(PLOT.left, x(fromMs));
  const right = Math.min(PLOT.right, x(toMs));
  const area = rect({ x: left, y: PLOT.top, width: right - left, height: PLOT.bottom - PLOT.top, fill: SHADE });
  return area + text({ x: (left + right) / 2, y: PLOT.top + 10, words: label, extra: MIDDLE });
}

function levelLines({ levels }: BalancePicture, { y }: Scale): string[] {
  return levels.map((level) => {
    const stroke = level === 0 ? QUIET : GRID;
    const line = `<path d="M${PLOT.left} ${fixed(y(level))}H${PLOT.right}" stroke="${stroke}" fill="none"/>`;
    return line + text({ x: PLOT.left - 8, y: y(level) + 4, words: withCommas(level), extra: END });
  });
}

function timeAxis({ ticks }: BalancePicture, { x }: Scale): string[] {
  return ticks.map(({ atMs, label, line }) => {
    const at = fixed(x(atMs));
    const foot = `<path d="M${at} ${PLOT.bottom}v5" stroke="${QUIET}" fill="none"/>`;
    const words = text({ x: x(atMs), y: PLOT.bottom + 18, words: label, extra: MIDDLE });
    if (line === undefined) return foot + words;
    const through = `<path d="M${at} ${PLOT.top}V${PLOT.bottom}" stroke="${QUIET}" stroke-dasharray="2 3" fill="none"/>`;
    return foot + words + through + text({ x: x(atMs) + 5, y: PLOT.top + 10, words: line });
  });
}

function balanceLine(readings: readonly Reading[], { x, y }: Scale): string {
  // While it is full the line is flat, to the pixel; so the stretches before, during and after are told apart.
  const stretches: { readonly full: boolean; readonly points: Point[] }[] = [];
  for (const { atMs, available, capacity } of readings) {
    const full = available === capacity;
    if (stretches.at(-1)?.full !== full) stretches.push({ full, points: [] });
    stretches.at(-1)?.points.push({ x: x(atMs), y: y(available) });
  }
  // Whole tokens make stairs of a straight line: what is about one token off it is on it.
  const bends = stretches.flatMap(({ points }) => simplified(points, y(0) - y(1) + 0.05));
  return bends.map((point, i) => `${i === 0 ? "M" : "L"}${fixed(point.x)} ${fixed(point.y)}`).join("");
}

interface Point {
  readonly x: number;
  readonly y: number;
}

/** The bends of a line (Ramer, Douglas, Peucker). */
function simplified(points: readonly Point[], tolerance: number): readonly Point[] {
  const first = points[0];
  const last = points.at(-1);
  if (first === undefined || last === undefined || points.length < 3) return points;
  const offsets = points.map((point) => distance(point, first, last));
  const farthest = offsets.indexOf(Math.max(...offsets));
  if ((offsets[farthest] ?? 0) < tolerance) return [first, last];
  const before = simplified(points.slice(0, farthest + 1), tolerance);
  return [...before.slice(0, -1), ...simplified(points.slice(farthest), tolerance)];
}

/** From a point to the stretch between two others. */
function distance(point: Point, from: Point, to: Point): number {
  const [dx, dy] = [to.x - from.x, to.y - from.y];
  const square = dx * dx + dy * dy;
  const along = square === 0 ? 0 : ((point.x - from.x) * dx + (point.y - from.y) * dy) / square;
  const part = Math.min(1, Math.max(0, along));
  return Math.hypot(point.x - from.x - part * dx, point.y - from.y - part * dy);
}

function capacityLine(readings: readonly Reading[], { x, y }: Scale): string {
  let last: number | undefined;
  const parts = readings.flatMap(({ atMs, capacity }) => {
    if (capacity === last) return [];
    const step =
      last === undefined ? `M${fixed(x(atMs))} ${fixed(y(capacity))}` : `H${fixed(x(atMs))}V${fixed(y(capacity))}`;
    last = capacity;
    return [step];
  });
  return `${parts.join("")}H${fixed(PLOT.right)}`;
}

function markOf(mark: Mark, { x, y }: Scale): string {
  const { kind, atMs, before, after, amount, side } = mark;
  const at = { x: x(atMs), y: y(after) };
  // Beside the drop of a take, or beside the one point of a refusal: on a line that rises, above it to the left is free.
  const beside = kind === "refused" ? at.y + (side === "left" ? -5 : 14) : (y(before) + at.y) / 2 + 4;
  const places = {
    left: { x: at.x - 7, y: beside, anchor: END },
    right: { x: at.x + 8, y: beside, anchor: "" },
    below: { x: at.x, y: at.y + 17, anchor: MIDDLE },
    above: { x: at.x, y: at.y - 9, anchor: MIDDLE },
  };
  const place = places[side];
  const words = kind === "refused" ? `wants ${withCommas(amount)}` : signed(-amount);
  const extra = `${place.anchor} fill="${COLOURS[kind]}" font-weight="600"`.trim();
  return shapeOf(kind, at.x, at.y) + text({ x: place.x, y: place.y, words, extra });
}

function shapeOf(kind: Mark["kind"], x: number, y: number): string {
  const [cx, cy] = [fixed(x), fixed(y)];
  const fill = `fill="${COLOURS[kind]}" stroke="${PAPER}"`;
  switch (kind) {
    case "taken":
      return `<circle cx="${cx}" cy="${cy}" r="4" ${fill}/>`;
    case "overdrawn":
      return `<path d="M${cx} ${cy}m-5 -4h10l-5 9z" ${fill}/>`;
    case "adjusted":
      return `<path d="M${cx} ${cy}m0 -5.5l5.5 5.5l-5.5 5.5l-5.5 -5.5z" ${fill}/>`;
    case "refused":
      return `<path d="M${cx} ${cy}m-4 -4l8 8m0 -8l-8 8" stroke="${COLOURS[kind]}" stroke-width="2.25" fill="none"/>`;
  }
}

const MIDDLE = 'text-anchor="middle"';
const END = 'text-anchor="end"';

function text(given: { x: number; y: number; words: string; extra?: string }): string {
  const { x, y, words, extra } = given;
  return `<text x="${fixed(x)}" y="${fixed(y)}"${extra === undefined ? "" : ` ${extra}`}>${escaped(words)}</text>`;
}

function rect({
  x,
  y,
  width,
  height,
  fill,
}: {
  x: number;
  y: number;
  width: number;
  height: number;
  fill: string;
}): string {
  return `<rect x="${fixed(x)}" y="${fixed(y)}" width="${fixed(width)}" height="${fixed(height)}" fill="${fill}"/>`;
}

function path({ d, stroke, extra }: { d: string; stroke: string; extra: string }): string {
  return `<path d="${d}" fill="none" stroke="${stroke}" ${extra}/>`;
}

/** A tenth of a pixel, without zeros that say nothing. */
function fixed(value: number): string {
  return String(Math.round(value * 10) / 10);
}

// Not the platform's formatting: it may differ from one machine to the next.
function withCommas(value: number): string {
  const digits = String(Math.abs(value)).replace(/\B(?=(?:\d{3})+$)/g, ",");
  return value < 0 ? `−${digits}` : digits;
}

function signed(change: number): string {
  return change > 0 ? `+${withCommas(change)}` : withCommas(change);
}

function escaped(words: string): string {
  return words.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}
