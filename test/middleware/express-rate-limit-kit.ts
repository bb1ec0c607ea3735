import { once } from "node:events";
import { createRequire } from "node:module";
import type { AddressInfo } from "node:net";
import type { TestContext } from "node:test";
import express5 from "express";
import { rateLimit as rateLimit8 } from "express-rate-limit";
import { LimiterStore, type LimiterStoreOptions } from "../../src/entry/express-rate-limit-store.ts";
import type { RateLimiter } from "../../src/entry/index.ts";
import type { SimulatedClock } from "../../src/testing/simulated-clock.ts";

const oldest = createRequire(new URL("../oldest/package.json", import.meta.url));

/** express-rate-limit as it is installed, in the newest version with Express 5 and in the oldest with Express 4. */
export const VERSIONS: readonly Version[] = [
  { name: "express-rate-limit 8 on Express 5", major: 8, express: express5, rateLimit: rateLimit8 },
  {
    ...{ name: "express-rate-limit 7 on Express 4", major: 7 },
    express: oldest("express") as typeof express5,
    rateLimit: (oldest("express-rate-limit") as { rateLimit: typeof rateLimit8 }).rateLimit,
  },
];

export interface Version {
  readonly name: string;
  readonly major: 7 | 8;
  readonly express: typeof express5;
  readonly rateLimit: typeof rateLimit8;
}

/** A limiter on a store that other limiters can be opened on, as other processes would. */
export interface Ground {
  readonly clock: SimulatedClock;
  readonly limiter: RateLimiter;
  /** Another process on the same store. */
  readonly another: () => Promise<RateLimiter>;
}

type RateLimitOptions = Omit<NonNullable<Parameters<typeof rateLimit8>[0]>, "store">;

/** An application with one limited route, and how it answers. The key is the header `x-key`. */
export interface App {
  readonly store: LimiterStore;
  readonly handler: ReturnType<typeof rateLimit8>;
  /** What was written to the console: express-rate-limit says there what it finds wrong with a store. */
  readonly complaints: readonly unknown[];
  get(key: string, path?: string): Promise<Response>;
  /** Lets the requests to `/slow` end. */
  finishSlow(): void;
  /** Resolves once so many responses were handed over, and what follows that has begun. */
  finished(count: number): Promise<void>;
}

export async function startApp(
  t: TestContext,
  { express, rateLimit }: Version,
  options: RateLimitOptions,
  storeOptions: LimiterStoreOptions,
): Promise<App> {
  const complaints: unknown[] = [];
  if (!("mock" in console.error)) {
    t.mock.method(console, "error", (...said: unknown[]) => complaints.push(said));
    t.mock.method(console, "warn", (...said: unknown[]) => complaints.push(said));
  }
  const store = new LimiterStore(storeOptions);
  const handler = rateLimit({ keyGenerator: (req) => String(req.headers["x-key"]), ...options, store });
  const app = express();
  let ended = 0;
  const onEnd = new Set<() => void>();
  app.use((_req, res, next) => {
    // What express-rate-limit does at the end of a response, it asked for earlier than this.
    res.once("close", () => {
      ended++;
      setImmediate(() => {
        for (const look of onEnd) look();
      });
    });
    next();
  });
  app.use(handler);
  let finishSlow = () => {};
  const slow = new Promise<void>((resolve) => {
    finishSlow = resolve;
  });
  app.get("/", (_req, res) => {
    res.json("fine");
  });
  app.get("/bad", (_req, res) => {
    res.status(400).json("bad");
  });
  app.get("/slow", async (_req, res) => {
    await slow;
    res.json("fine");
  });
  app.use(((error, _req, res, _next) => {
    res.status(500).json({ code: (error as { code?: string }).code });
  }) as express5.ErrorRequestHandler);
  const server = app.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  return {
    ...{ store, handler, complaints, finishSlow },
    get: async (key, path = "/") => {
      const answer = await fetch(`http://127.0.0.1:${port}${path}`, { headers: { "x-key": key } });
      await answer.clone().text();
      return answer;
    },
    finished: async (count) => {
      while (ended < count) {
        await new Promise<void>((resolve) => {
          const look = () => {
            onEnd.delete(look);
            resolve();
          };
          onEnd.add(look);
        });
      }
    },
  };
}
