/** A local time in ms, as if the wall clock were UTC: a label. Some never show (spring), some show twice (autumn). */
type LocalMs = number;

/** A time zone: how instants and the labels of its wall clock belong together. */
export interface Zone {
  /** The label of an instant minus the instant, in ms. */
  offsetAt(atMs: number): number;
  /** The first change of the offset in (afterMs, untilMs]. */
  transitionWithin(afterMs: number, untilMs: number): number | undefined;
  /** The first instant at which the clock shows the label or, when it skips it, the first instant after the gap. */
  instantOf(label: LocalMs): number;
  /** The highest label the clock has shown or skipped up to the instant; after an autumn change more than it shows now. */
  highestLabelAt(atMs: number): LocalMs;
}

/** A sentence saying that there is no such zone and which are near; `undefined` when there is. */
export function zoneProblem(tz: string): string | undefined {
  if (zonesFound.has(tz)) return undefined;
  if (isZone(tz)) {
    if (zonesFound.size === ZONES_KEPT) zonesFound.clear();
    zonesFound.add(tz);
    return undefined;
  }
  const near = nearestZones(tz);
  return `Time zone "${tz}" is not known; nearest: ${near.join(", ")}. Use a name of the IANA time zone database.`;
}

// Asking the platform takes 50 microseconds, and every limit with a calendar asks. It takes names in any case: there is a bound.
const ZONES_KEPT = 1_000;
const zonesFound = new Set<string>();

// No change of a clock, the skipped days of islands at the date line included, is larger than this.
export const SHIFT_MAX_MS = 2 * 86_400_000;

/** The zone with that name, on the platform's own time zone data. The name must be known. */
export function createZone(tz: string): Zone {
  const format = new Intl.DateTimeFormat("en-US", { timeZone: tz, year: "numeric", timeZoneName: "longOffset" });
  const offsetOf = (atMs: number): number => parsedOffset(format.format(atMs));
  const stretches = new Map<number, Stretch>();

  const stretchOf = (index: number): Stretch => {
    const known = stretches.get(index);
    if (known !== undefined) return known;
    const made = surveyed(offsetOf, index * STRETCH_MS);
    if (stretches.size >= STRETCHES_MAX) stretches.clear();
    stretches.set(index, made);
    return made;
  };

  const offsetAt = (atMs: number): number => {
    const { offsetMs, transitions } = stretchOf(Math.floor(atMs / STRETCH_MS));
    return transitions.findLast((transition) => transition.atMs <= atMs)?.offsetMs ?? offsetMs;
  };

  const transitionWithin = (afterMs: number, untilMs: number): number | undefined => {
    for (let index = Math.floor(afterMs / STRETCH_MS); index * STRETCH_MS <= untilMs; index += 1) {
      const found = stretchOf(index).transitions.find(({ atMs }) => atMs > afterMs);
      if (found !== undefined) return found.atMs <= untilMs ? found.atMs : undefined;
    }
    return undefined;
  };

  const instantOf = (label: LocalMs): number => {
    let fromMs = label - SHIFT_MAX_MS;
    for (;;) {
      // A label that lies before the time at which its offset begins was jumped over by the change to that offset.
      const instant = Math.max(fromMs, label - offsetAt(fromMs));
      const transition = transitionWithin(fromMs, instant);
      if (transition === undefined) return instant;
      fromMs = transition;
    }
  };

  const highestLabelAt = (atMs: number): LocalMs => {
    let highest = atMs + offsetAt(atMs);
    let fromMs = atMs - SHIFT_MAX_MS;
    for (;;) {
      const transition = transitionWithin(fromMs, atMs);
      if (transition === undefined) return highest;
      highest = Math.max(highest, transition - 1 + offsetAt(fromMs));
      fromMs = transition;
    }
  };

  return { offsetAt, transitionWithin, instantOf, highestLabelAt };
}

/** A stretch of time: the offset at its beginning and the changes within it, the beginning itself included. */
interface Stretch {
  readonly offsetMs: number;
  readonly transitions: readonly { readonly atMs: number; readonly offsetMs: number }[];
}

// The platform tells the offset of an instant, not where it changes. Two changes of one zone were never closer since 1970
// than seven days less an hour (Recife, October 2000), so a look every four days sees each.
const STEP_MS = 4 * 86_400_000;
const STRETCH_MS = 8 * STEP_MS;
const STRETCHES_MAX = 1_024;

function surveyed(offsetOf: (atMs: number) => number, startMs: number): Stretch {
  // One step back, so that a change at the very beginning is seen.
  let seen = offsetOf(startMs - 1000);
  const transitions: { atMs: number; offsetMs: number }[] = [];
  const first = offsetOf(startMs);
  if (first !== seen) transitions.push({ atMs: startMs, offsetMs: first });
  seen = first;
  for (let fromMs = startMs; fromMs < startMs + STRETCH_MS; fromMs += STEP_MS) {
    // The last step stops short of the next stretch, which has its own beginning.
    const untilMs = Math.min(fromMs + STEP_MS, startMs + STRETCH_MS - 1000);
    const offsetMs = offsetOf(untilMs);
    if (offsetMs === seen) continue;
    transitions.push({ atMs: changeBetween(offsetOf, fromMs, untilMs, seen), offsetMs });
    seen = offsetMs;
  }
  return { offsetMs: first, transitions };
}

// Clocks change at whole seconds.
function changeBetween(offsetOf: (atMs: number) => number, fromMs: number, untilMs: number, before: number): number {
  let old = fromMs / 1000;
  let changed = untilMs / 1000;
  while (changed - old > 1) {
    const middle = Math.floor((old + changed) / 2);
    if (offsetOf(middle * 1000) === before) old = middle;
    else changed = middle;
  }
  return changed * 1000;
}

// "2026, GMT-03:30", "1970, GMT-00:44:30" (Monrovia had seconds until 1972), or "2026, GMT".
function parsedOffset(text: string): number {
  const sign = text.lastIndexOf("-") > 0 ? -1 : 1;
  const digits = text.slice(text.indexOf("GMT") + 4);
  if (digits === "") return 0;
  const [hours = "0", minutes = "0", seconds = "0"] = digits.split(":");
  return sign * (Number(hours) * 3600 + Number(minutes) * 60 + Number(seconds)) * 1000;
}

// Names that the platform takes but does not list, because it lists them under an older one.
const RENAMED = ["Asia/Kolkata", "Asia/Kathmandu", "Asia/Ho_Chi_Minh", "Asia/Yangon", "Europe/Kyiv", "America/Nuuk"];

// Only these three-letter names of the platform are in the IANA database; IST could be three countries.
const SHORT_NAMES = /^(?:CET|EET|EST|GMT|HST|MET|MST|PRC|ROC|ROK|UCT|UTC|WET)$/;

function isZone(tz: string): boolean {
  // Offsets (+05:30) and names in the wrong case would work here, but not where the configuration is shared.
  if (!/^[A-Z]/.test(tz) || /\/[a-z]/.test(tz) || tz.startsWith("SystemV/")) return false;
  if (/^[A-Z]{3}$/.test(tz) && !SHORT_NAMES.test(tz)) return false;
  try {
    new Intl.DateTimeFormat("en-US", { timeZone: tz });
  } catch {
    return false;
  }
  const known = knownZones().get(tz.toLowerCase());
  return known === undefined || known === tz;
}

let zonesByLowerCase: ReadonlyMap<string, string> | undefined;

function knownZones(): ReadonlyMap<string, string> {
  zonesByLowerCase ??= new Map(
    ["UTC", ...Intl.supportedValuesOf("timeZone"), ...RENAMED].map((name) => [name.toLowerCase(), name]),
  );
  return zonesByLowerCase;
}

// The nearest by the whole name or by its city: people write "Berlin", and "Europe/Berln".
function nearestZones(tz: string): readonly string[] {
  const wanted = tz.slice(0, 40).toLowerCase();
  return [...knownZones()]
    .map(([lower, name]) => {
      const city = lower.slice(lower.lastIndexOf("/") + 1);
      return { name, distance: Math.min(editDistance(wanted, lower), editDistance(wanted, city) + 0.5) };
    })
    .sort((a, b) => a.distance - b.distance)
    .slice(0, 3)
    .map(({ name }) => name);
}

function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (let i = 1; i <= a.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const replaced = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(replaced, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[b.length] ?? 0;
}
