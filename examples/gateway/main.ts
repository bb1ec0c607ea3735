import { performance } from "node:perf_hooks";
import { setTimeout as pause } from "node:timers/promises";
import { parseArgs } from "node:util";
import { LimiterError, RateLimiter } from "../../src/entry/index.ts";
import { dayLines } from "./day.ts";
import { type CallEvent, levelsOf, PROJECT, runGateway, setUp } from "./gateway.ts";
import { startProxy } from "./proxy.ts";
import { draw, type LoggedEvent, logged } from "./screen.ts";
import { changedByHand, startService } from "./service.ts";
import { runStudio, setUpStudio } from "./studio.ts";
import { storedUsage, Tally, type Usage, usageSince } from "./tally.ts";
import { Terminal } from "./terminal.ts";
import { dashboardLine, eventLine, INTRODUCTION, levelsLines, type Proof, proxyLine, summaryLines } from "./words.ts";

const FILE = ".zae-limiter/gateway.db";
const SECONDS = 20;
const FRAME_MS = 100;
const LEVELS_EVERY_MS = 5_000;

/** Shows what happens while it happens. */
interface View {
  event(event: CallEvent, atMs: number): void;
  tick(elapsedMs: number): Promise<void>;
  close(): void;
}

/** Of the dashboard, and of the proxy. */
interface Addresses {
  readonly url: string;
  readonly proxyUrl: string;
}

/** `totalMs` undefined: until it is ended from outside. */
interface DemoOptions {
  readonly totalMs: number | undefined;
  readonly port: number | undefined;
}

async function main({ totalMs, port }: DemoOptions): Promise<void> {
  const ending = new AbortController();
  endOnSignals(ending);
  // Strict but for one thing: the callers of the demo leave out the dollars on purpose.
  await using limiter = await RateLimiter.open({ store: `sqlite:${FILE}`, strict: true, unnamedLimits: "allow" });
  await setUp(limiter);
  await setUpStudio(limiter);
  const service = await startService(limiter, port);
  const proxy = await startProxy(limiter, port === undefined ? undefined : 0);
  try {
    await showGateway(limiter, { url: service.url, proxyUrl: proxy.url }, totalMs, ending);
  } finally {
    await proxy.close();
    await service.close();
  }
}

async function showGateway(
  limiter: RateLimiter,
  at: Addresses,
  totalMs: number | undefined,
  ending: AbortController,
): Promise<void> {
  const openedAtMs = Date.now();
  const before = await storedUsage(limiter, openedAtMs);

  const tally = new Tally();
  const view = isTerminal() ? liveView(limiter, tally, at, totalMs) : plainView(limiter, at);
  const startMs = performance.now();
  const elapsedMs = () => performance.now() - startMs;
  const over = totalMs === undefined ? undefined : setTimeout(() => ending.abort(), totalMs);
  try {
    const world = {
      random: Math.random,
      clock: {
        now: () => performance.now(),
        sleep: (ms: number, signal: AbortSignal) => pause(ms, undefined, { signal }),
      },
      signal: ending.signal,
    };
    const ran = runGateway(limiter, {
      ...world,
      onEvent: (event) => {
        tally.add(event);
        view.event(event, elapsedMs());
      },
    });
    await Promise.all([ran, runStudio(limiter, world), keepShowing(view, elapsedMs, ending.signal)]);
  } finally {
    clearTimeout(over);
    view.close();
  }

  const ranMs = elapsedMs();
  const usage = usageSince(before, await storedUsage(limiter, openedAtMs));
  const proof = await proofOf(limiter, usage, openedAtMs);
  print(["", ...(await dayLines())]);
  print(["", ...summaryLines({ elapsedMs: ranMs, tally, usage, file: FILE, proof })]);
}

/** By the clock that the limiter goes by, from before the first call until after the balance was read. */
async function proofOf(limiter: RateLimiter, usage: ReadonlyMap<string, Usage>, openedAtMs: number): Promise<Proof> {
  const levels = await levelsOf(limiter);
  const left = levels.find(({ entityId, limit }) => entityId === PROJECT && limit === "tpm")?.available ?? 0;
  const isChanged = await changedByHand(limiter, openedAtMs);
  return { used: usage.get(PROJECT)?.tpm ?? 0, elapsedMs: Date.now() + 1 - openedAtMs, left, isChanged };
}

async function keepShowing(view: View, elapsedMs: () => number, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    await view.tick(elapsedMs());
    await new Promise((resolve) => setTimeout(resolve, FRAME_MS));
  }
}

function liveView(limiter: RateLimiter, tally: Tally, at: Addresses, totalMs: number | undefined): View {
  const terminal = new Terminal(process.stdout);
  const colour = !process.env.NO_COLOR;
  let events: readonly LoggedEvent[] = [];
  terminal.open();
  return {
    event: (event, atMs) => {
      events = logged(events, event, atMs);
    },
    tick: async (elapsedMs) => {
      const levels = await levelsOf(limiter);
      const { columns, rows } = terminal;
      terminal.show(draw({ elapsedMs, totalMs, ...at, levels, tally, events }, { columns, rows, colour }));
    },
    close: () => terminal.close(),
  };
}

function plainView(limiter: RateLimiter, { url, proxyUrl }: Addresses): View {
  let levelsDueMs = 0;
  print(["zae-limiter: an LLM gateway", ...INTRODUCTION, dashboardLine(url), proxyLine(proxyUrl), ""]);
  return {
    event: (event, atMs) => print([eventLine(event, atMs)]),
    tick: async (elapsedMs) => {
      if (elapsedMs < levelsDueMs) return;
      levelsDueMs += LEVELS_EVERY_MS;
      print(levelsLines(await levelsOf(limiter), elapsedMs));
    },
    close: () => {},
  };
}

function isTerminal(): boolean {
  return process.stdout.isTTY === true && process.env.TERM !== "dumb";
}

function endOnSignals(ending: AbortController): void {
  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    // The second one is for somebody who does not want to wait for the summary.
    process.on(signal, () => (ending.signal.aborted ? process.exit(130) : ending.abort()));
  }
  // Whoever reads the lines may stop reading: `npm start | head`.
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code !== "EPIPE") throw error;
    process.exit(0);
  });
}

function print(lines: readonly string[]): void {
  process.stdout.write(`${lines.join("\n")}\n`);
}

/** What the arguments ask for; "help" for help, or undefined when they cannot be understood. */
function runGiven(): DemoOptions | "help" | undefined {
  try {
    const { values } = parseArgs({
      options: { seconds: { type: "string" }, port: { type: "string" }, help: { type: "boolean", short: "h" } },
    });
    if (values.help === true) return "help";
    // On a terminal somebody watches, and ends it; elsewhere it ends by itself.
    const whole = isTerminal() ? undefined : SECONDS * 1000;
    const totalMs = values.seconds === undefined ? whole : Number(values.seconds) * 1000;
    const port = values.port === undefined ? undefined : Number(values.port);
    const isTime = totalMs === undefined || (totalMs > 0 && totalMs <= 3_600_000);
    const isPort = port === undefined || (values.port !== "" && Number.isInteger(port) && port >= 0 && port <= 65_535);
    return isTime && isPort ? { totalMs, port } : undefined;
  } catch {
    return undefined;
  }
}

const USAGE =
  "Usage: npm start [-- --seconds N] [--port P], with N up to 3600. Without N it runs until Ctrl-C on a terminal, and for " +
  `${SECONDS} s elsewhere.\n`;

const given = runGiven();
if (given === "help") {
  process.stdout.write(USAGE);
} else if (given === undefined) {
  process.stderr.write(USAGE);
  process.exitCode = 2;
} else {
  try {
    await main(given);
  } catch (error) {
    // Errors of the limiter say what to do; anything else is a defect, and its stack is wanted.
    if (!(error instanceof LimiterError)) throw error;
    process.stderr.write(`${error.message}\n`);
    process.exitCode = 1;
  }
}
