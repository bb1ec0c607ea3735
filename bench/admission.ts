import { mock } from "node:test";
import { RateLimiterMemory, RateLimiterRes } from "rate-limiter-flexible";
import { Limit, RateLimiter } from "../src/entry/index.ts";
import { type ExpressLimits, expressLimits } from "./express.ts";

interface Rows {
  readonly title: string;
  readonly rows: readonly object[];
}

const MINUTE_MS = 60_000;
/** Within a minute of the clock, not at its beginning: windows begin with the first request all the same. */
const START_MS = Date.UTC(2026, 0, 1, 12, 0, 17);

/** What limiters admit, on a simulated clock: the same figures on every machine. */
export async function benchAdmission(): Promise<Rows[]> {
  const { edges, minutes, refusals } = await admission(await expressLimits());
  return [
    { title: "100 a minute: the most within any minute, asked for as much as possible", rows: minutes },
    { title: "100 a minute: the most within one second, asked for as much as possible", rows: edges },
    { title: "100 requests and 10,000 tokens a minute, ten requests of 3,000 tokens", rows: refusals },
  ];
}

/** Without express-rate-limit where that is not given. */
export async function admission(express: ExpressLimits | undefined): Promise<{
  readonly edges: readonly Edge[];
  readonly minutes: readonly MinuteEdge[];
  readonly refusals: readonly Refused[];
}> {
  // Peers read the clock and set timers by themselves.
  mock.timers.enable({ apis: ["Date", "setTimeout", "setInterval"], now: START_MS });
  try {
    const edges = [await ofOurs(edgeOf, "ours", {}), await ofFlexible(edgeOf)];
    const minutes = [
      await ofOurs(minuteOf, "ours", {}),
      await ofOurs(minuteOf, "ours, strictWindow", { strictWindow: true }),
      await ofFlexible(minuteOf),
    ];
    if (express !== undefined) {
      const options = { windowMs: MINUTE_MS, limit: 100 };
      const [one, other] = [express(options), express(options)];
      edges.push(await edgeOf("express-rate-limit", () => one("key-1")));
      minutes.push(await minuteOf("express-rate-limit", () => other("key-1")));
    }
    return { edges, minutes, refusals: [await refusedByOurs(), await refusedByFlexible()] };
  } finally {
    mock.timers.reset();
  }
}

interface Edge {
  readonly name: string;
  readonly grantedWithinOneSecond: number;
}

/** A request opens the window or takes from the bucket. A minute later, everything that can be had just before that and just after. */
async function edgeOf(name: string, ask: () => Promise<boolean>): Promise<Edge> {
  await ask();
  mock.timers.tick(MINUTE_MS - 500);
  let granted = await untilRefused(ask);
  mock.timers.tick(999);
  granted += await untilRefused(ask);
  return { name, grantedWithinOneSecond: granted };
}

interface MinuteEdge {
  readonly name: string;
  readonly grantedWithinOneMinute: number;
}

/** A request opens the window or takes from the bucket. From half a second before its end on, everything that a minute has. */
async function minuteOf(name: string, ask: () => Promise<boolean>): Promise<MinuteEdge> {
  await ask();
  mock.timers.tick(MINUTE_MS - 500);
  let granted = await untilRefused(ask);
  for (let ms = STEP_MS; ms < MINUTE_MS; ms += STEP_MS) {
    mock.timers.tick(STEP_MS);
    granted += await untilRefused(ask);
  }
  return { name, grantedWithinOneMinute: granted };
}

const STEP_MS = 100;

async function untilRefused(ask: () => Promise<boolean>): Promise<number> {
  for (let granted = 0; ; granted++) {
    if (!(await ask())) return granted;
  }
}

type Measure<Row> = (name: string, ask: () => Promise<boolean>) => Promise<Row>;

async function ofOurs<Row>(measure: Measure<Row>, name: string, options: { strictWindow?: true }): Promise<Row> {
  const limiter = await ours([Limit.perMinute("rpm", 100, options)]);
  const row = await measure(name, async () => {
    return (await limiter.tryAcquire({ entityId: "key-1", resource: "api", consume: { rpm: 1 } })).ok;
  });
  await limiter.close();
  return row;
}

function ofFlexible<Row>(measure: Measure<Row>): Promise<Row> {
  const requests = new RateLimiterMemory({ points: 100, duration: 60, keyPrefix: measure.name });
  return measure("rate-limiter-flexible", () => isConsumed(requests, 1));
}

interface Refused {
  readonly name: string;
  readonly granted: number;
  /** Of the requests a minute. */
  readonly requestsTaken: number;
  /** Whether a request of 1,000 tokens, which is what is left of them, is granted afterwards. */
  readonly restIsGranted: boolean;
}

async function refusedByOurs(): Promise<Refused> {
  const limiter = await ours([Limit.perMinute("rpm", 100), Limit.perMinute("tpm", 10_000)]);
  const about = { entityId: "key-1", resource: "api" };
  let granted = 0;
  for (let i = 0; i < 10; i++) {
    if ((await limiter.tryAcquire({ ...about, consume: { rpm: 1, tpm: 3_000 } })).ok) granted++;
  }
  const left = (await limiter.available(about)).find(({ limit }) => limit === "rpm")?.available ?? Number.NaN;
  const { ok } = await limiter.tryAcquire({ ...about, consume: { rpm: 1, tpm: 1_000 } });
  await limiter.close();
  return { name: "ours", granted, requestsTaken: 100 - left, restIsGranted: ok };
}

/** Two limits are two of its limiters, one after the other, as its documentation says. */
async function refusedByFlexible(): Promise<Refused> {
  const requests = new RateLimiterMemory({ points: 100, duration: 60, keyPrefix: "rpm" });
  const tokens = new RateLimiterMemory({ points: 10_000, duration: 60, keyPrefix: "tpm" });
  const both = async (amount: number) => (await isConsumed(requests, 1)) && (await isConsumed(tokens, amount));
  let granted = 0;
  for (let i = 0; i < 10; i++) if (await both(3_000)) granted++;
  const requestsTaken = (await requests.get("key-1"))?.consumedPoints ?? 0;
  return { name: "rate-limiter-flexible", granted, requestsTaken, restIsGranted: await both(1_000) };
}

function ours(limits: readonly Limit[]): Promise<RateLimiter> {
  const opened = RateLimiter.open({ store: "memory", clock: { now: () => Date.now() } });
  return opened.then(async (limiter) => {
    await limiter.setResourceDefaults("api", limits);
    return limiter;
  });
}

async function isConsumed(limiter: RateLimiterMemory, points: number): Promise<boolean> {
  try {
    await limiter.consume("key-1", points);
    return true;
  } catch (refused) {
    if (refused instanceof RateLimiterRes) return false;
    throw refused;
  }
}
