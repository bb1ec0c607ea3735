import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type Lease, Limit, RateLimiter } from "../src/entry/index.ts";
import { type BalancePicture, type Mark, type Reading, svgOf } from "./balance-picture.ts";
import { parsedArgs, runScript } from "./script.ts";

// No balance is worked out here: a limiter lives through each story by a clock of its own, and what it answers is drawn.

const USAGE = `node scripts/draw-limits.ts [FOLDER]      draws the pictures of docs/guide/limits.md, into docs/guide/pictures
`;

/** Something done at an instant. */
interface Act {
  readonly atMs: number;
  /** Asked for; drawn as taken or as refused, whichever it was. */
  readonly take?: number;
  /** By how much the lease that was taken last is adjusted. */
  readonly adjust?: number;
  /** Where its words have room; left of it when absent. */
  readonly side?: Mark["side"];
}

interface Story extends Omit<BalancePicture, "readings" | "marks"> {
  readonly limit: Limit;
  readonly fromMs: number;
  readonly toMs: number;
  readonly acts: readonly Act[];
  /** Instants at which time acts suddenly; read just before and at each, so that a jump is upright. */
  readonly jumps: readonly number[];
}

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;

/** Readings besides those at acts and jumps: one every two pixels. */
const READINGS = 336;

await runScript(USAGE, async (args) => {
  const [given] = parsedArgs({ args: [...args], allowPositionals: true }).positionals;
  const folder = given ?? fileURLToPath(new URL("../docs/guide/pictures", import.meta.url));
  mkdirSync(folder, { recursive: true });
  for (const story of [drip(), burst(), calendarQuota(), sessionQuota(), schedule(), soft(), debt()]) {
    writeFileSync(join(folder, `${story.name}.svg`), svgOf(await played(story)));
  }
  return 0;
});

async function played(story: Story): Promise<BalancePicture> {
  const { limit, acts, jumps } = story;
  let nowMs = story.fromMs;
  const limiter = await RateLimiter.open({ store: "memory", clock: { now: () => nowMs } });
  const about = { entityId: "key-1", resource: "api" };
  await limiter.setResourceDefaults(about.resource, [limit]);

  const readings: Reading[] = [];
  const read = async (): Promise<number> => {
    const [now] = await limiter.available(about);
    if (now === undefined) throw new Error(`Nothing is known of ${limit.name}; the story has no limit.`);
    readings.push({ atMs: nowMs, available: now.available, capacity: now.capacity });
    return now.available;
  };

  const marks: Mark[] = [];
  let lease: Lease | undefined;
  const instants = instantsOf(story);
  for (let next = instants.shift(); next !== undefined; next = instants.shift()) {
    nowMs = next;
    await read();
    for (const { take = 0, adjust, side = "left" } of acts.filter(({ atMs }) => atMs === nowMs)) {
      const before = readings.at(-1)?.available ?? 0;
      let kind: Mark["kind"] = "adjusted";
      if (adjust === undefined) {
        const outcome = await limiter.tryAcquire({ ...about, consume: { [limit.name]: take } });
        if (outcome.ok) lease = outcome.lease;
        kind = outcome.ok ? "taken" : "refused";
      } else await lease?.adjust({ [limit.name]: adjust });
      const after = await read();
      if (kind === "taken" && after < 0) kind = "overdrawn";
      marks.push({ kind, atMs: nowMs, before, after, amount: adjust ?? take, side });
    }
    // The corner at which the bucket is full again is read too: between two readings it would be cut off.
    if (!acts.some(({ atMs }) => atMs === nowMs) && !jumps.includes(nowMs)) continue;
    const consume = { [limit.name]: readings.at(-1)?.capacity ?? 0 };
    const fullMs = nowMs + (await limiter.timeUntilAvailable({ ...about, consume }));
    if (fullMs === nowMs || fullMs > story.toMs || instants.includes(fullMs)) continue;
    instants.push(fullMs);
    instants.sort((a, b) => a - b);
  }
  await limiter.close();
  return { ...story, readings, marks };
}

function instantsOf({ fromMs, toMs, acts, jumps }: Story): number[] {
  const regular = Array.from({ length: READINGS + 1 }, (_, i) => fromMs + Math.round(((toMs - fromMs) * i) / READINGS));
  const all = [...regular, ...acts.map(({ atMs }) => atMs), ...jumps.flatMap((atMs) => [atMs - 1, atMs])];
  return [...new Set(all)].sort((a, b) => a - b);
}

function drip(): Story {
  const at = minutesFrom(Date.UTC(2026, 0, 12, 12));
  return {
    name: "drip",
    title: 'Limit.perMinute("rpm", 600)',
    description:
      "500 are taken from a full bucket of 600. Ten tokens drip in each second. A request for 400 is refused while " +
      "there are 300, and granted at the instant it was told. Left alone, the bucket fills up to 600 and stays there.",
    limit: Limit.perMinute("rpm", 600),
    fromMs: at(0),
    toMs: at(3),
    levels: [0, 200, 400, 600],
    ticks: clockTicks(at, { "12:00": 0, "12:01": 1, "12:02": 2, "12:03": 3 }),
    acts: [
      { atMs: at(0, 20), take: 500 },
      { atMs: at(0, 40), take: 400 },
      { atMs: at(0, 50), take: 400 },
      { atMs: at(2, 30), take: 300 },
    ],
    shades: [],
    jumps: [],
  };
}

function burst(): Story {
  const at = minutesFrom(Date.UTC(2026, 0, 12, 12));
  return {
    name: "burst",
    title: 'Limit.perMinute("tpm", 10_000, { burst: 20_000 })',
    description:
      "The bucket holds 20,000, and 10,000 drip in a minute. 18,000 are taken at once after a quiet time. What follows is " +
      "paced by the rate: 12,000 are refused at first and granted 20 seconds later. Two quiet minutes fill it again.",
    limit: Limit.perMinute("tpm", 10_000, { burst: 20_000 }),
    fromMs: at(0),
    toMs: at(4),
    levels: [0, 10_000, 20_000],
    ticks: clockTicks(at, { "12:00": 0, "12:01": 1, "12:02": 2, "12:03": 3, "12:04": 4 }),
    acts: [
      { atMs: at(0, 30), take: 18_000 },
      { atMs: at(1, 10), take: 12_000 },
      { atMs: at(1, 30), take: 12_000 },
    ],
    shades: [],
    jumps: [],
  };
}

function calendarQuota(): Story {
  // Berlin is an hour ahead of UTC until 29 March 2026, two hours after that.
  const winter = (month: number, day: number) => Date.UTC(2026, month - 1, day, -1);
  const summer = (month: number, day: number) => Date.UTC(2026, month - 1, day, -2);
  return {
    name: "calendar-quota",
    title: 'Limit.quota("month", 1_000_000, { reset })',
    description:
      "Nothing drips: the balance only falls, until midnight in Berlin on the first of the month, when it is 1,000,000 " +
      "again. A request that is too large for what is left in February is refused until then. What is left in March is lost.",
    limit: Limit.quota("month", 1_000_000, { reset: { cron: "0 0 1 * *", tz: "Europe/Berlin" } }),
    fromMs: winter(2, 8),
    toMs: summer(4, 16),
    levels: [0, 500_000, 1_000_000],
    ticks: [
      { atMs: winter(2, 15), label: "15 Feb" },
      { atMs: winter(3, 1), label: "1 Mar", line: "reset" },
      { atMs: winter(3, 15), label: "15 Mar" },
      { atMs: summer(4, 1), label: "1 Apr", line: "reset" },
      { atMs: summer(4, 15), label: "15 Apr" },
    ],
    acts: [
      { atMs: winter(2, 10), take: 300_000, side: "right" },
      { atMs: winter(2, 16), take: 350_000, side: "right" },
      { atMs: winter(2, 22), take: 200_000, side: "right" },
      { atMs: winter(2, 24), take: 250_000, side: "below" },
      { atMs: winter(3, 6), take: 250_000, side: "right" },
      { atMs: winter(3, 14), take: 400_000, side: "right" },
      { atMs: winter(3, 24), take: 150_000, side: "right" },
      { atMs: summer(4, 8), take: 350_000, side: "right" },
    ],
    shades: [],
    jumps: [winter(3, 1), summer(4, 1)],
  };
}

function sessionQuota(): Story {
  const at = hoursFrom(Date.UTC(2026, 0, 12));
  return {
    name: "session-quota",
    title: 'Limit.quota("session", 500, { resetAfterMs })',
    description:
      "The first use, at 09:30, opens a window of five hours. 500 are to be had in it; a request that is too large for what " +
      "is left is refused until 14:30, when the window ends and the balance is full. The next use, at 16:00, opens the next.",
    limit: Limit.quota("session", 500, { resetAfterMs: 5 * HOUR }),
    fromMs: at(8),
    toMs: at(22),
    levels: [0, 250, 500],
    ticks: clockTicks(at, {
      "08:00": 8,
      "10:00": 10,
      "12:00": 12,
      "14:00": 14,
      "16:00": 16,
      "18:00": 18,
      "20:00": 20,
      "22:00": 22,
    }),
    acts: [
      { atMs: at(9, 30), take: 150, side: "right" },
      { atMs: at(11), take: 200, side: "right" },
      { atMs: at(12), take: 120, side: "right" },
      { atMs: at(13, 30), take: 60, side: "above" },
      { atMs: at(16), take: 180, side: "right" },
      { atMs: at(18), take: 100, side: "right" },
    ],
    shades: [
      { fromMs: at(9, 30), toMs: at(14, 30), label: "window" },
      { fromMs: at(16), toMs: at(21), label: "window" },
    ],
    jumps: [at(14, 30), at(21)],
  };
}

function schedule(): Story {
  // A Monday; Berlin is an hour ahead of UTC in January.
  const at = hoursFrom(Date.UTC(2026, 0, 12, -1));
  const tz = "Europe/Berlin";
  return {
    name: "schedule",
    title: 'Limit.perHour("jobs", 600, { schedule })',
    description:
      "From 9 to 17 o'clock capacity and rate are halved: the balance is cut to 300 at 9 and fills at 300 an hour. At 17 " +
      "o'clock the capacity is 600 again, and the balance climbs there at 600 an hour. From 20 o'clock on it is 900.",
    limit: Limit.perHour("jobs", 600, {
      schedule: [
        { cron: "* 9-16 * * 1-5", tz, scale: 0.5 },
        { cron: "* 20-23 * * *", tz, capacity: 900, refillAmount: 900 },
      ],
    }),
    fromMs: at(7),
    toMs: at(24) - 1,
    levels: [0, 300, 600, 900],
    ticks: clockTicks(at, {
      "07:00": 7,
      "09:00": 9,
      "11:00": 11,
      "13:00": 13,
      "15:00": 15,
      "17:00": 17,
      "20:00": 20,
      "22:00": 22,
      "24:00": 24,
    }),
    acts: [
      { atMs: at(8), take: 400 },
      { atMs: at(11), take: 250 },
      { atMs: at(11, 20), take: 250, side: "right" },
      { atMs: at(14, 30), take: 300 },
      { atMs: at(18, 30), take: 600 },
      { atMs: at(21, 30), take: 700 },
    ],
    shades: [
      { fromMs: at(9), toMs: at(17), label: "scale: 0.5" },
      { fromMs: at(20), toMs: at(24) - 1, label: "capacity: 900" },
    ],
    jumps: [at(9), at(17), at(20)],
  };
}

function soft(): Story {
  const at = minutesFrom(Date.UTC(2026, 0, 12, 12));
  return {
    name: "soft",
    title: 'Limit.perMinute("tpm", 1_000, { soft: true })',
    description:
      "Nothing is refused. Takes that do not fit push the balance below zero, where it is measured; it drips back at the " +
      "same rate as ever, to zero and up to the capacity.",
    limit: Limit.perMinute("tpm", 1_000, { soft: true }),
    fromMs: at(0),
    toMs: at(4),
    levels: [-1_000, -500, 0, 500, 1_000],
    ticks: clockTicks(at, { "12:00": 0, "12:01": 1, "12:02": 2, "12:03": 3, "12:04": 4 }),
    acts: [
      { atMs: at(0, 20), take: 700 },
      { atMs: at(0, 40), take: 900 },
      { atMs: at(1, 5), take: 600 },
      { atMs: at(1, 30), take: 600 },
      { atMs: at(3, 30), take: 400 },
    ],
    shades: [],
    // Full again: a soft limit has room at once, so it cannot be asked when.
    jumps: [at(3, 8), at(3, 54)],
  };
}

function debt(): Story {
  const at = minutesFrom(Date.UTC(2026, 0, 12, 12));
  return {
    name: "debt",
    title: 'Limit.perMinute("tpm", 1_000), adjusted',
    description:
      "800 are taken as an estimate, and an adjustment by 800 more makes a debt. Until what drips in has paid it, even a " +
      "request for 0 is refused. Later an estimate of 700 is too high: an adjustment gives 400 back.",
    limit: Limit.perMinute("tpm", 1_000),
    fromMs: at(0),
    toMs: at(4),
    levels: [-500, 0, 500, 1_000],
    ticks: clockTicks(at, { "12:00": 0, "12:01": 1, "12:02": 2, "12:03": 3, "12:04": 4 }),
    acts: [
      { atMs: at(0, 20), take: 800 },
      { atMs: at(0, 36), adjust: 800 },
      { atMs: at(0, 44), take: 0, side: "right" },
      { atMs: at(2, 20), take: 700 },
      { atMs: at(2, 26), adjust: -400, side: "right" },
    ],
    shades: [],
    jumps: [],
  };
}

function minutesFrom(startMs: number): (minutes: number, seconds?: number) => number {
  return (minutes, seconds = 0) => startMs + minutes * MINUTE + seconds * SECOND;
}

function hoursFrom(startMs: number): (hours: number, minutes?: number) => number {
  return (hours, minutes = 0) => startMs + hours * HOUR + minutes * MINUTE;
}

function clockTicks(at: (count: number) => number, labels: Readonly<Record<string, number>>): BalancePicture["ticks"] {
  return Object.entries(labels).map(([label, count]) => ({ atMs: at(count), label }));
}
