import { execFile } from "node:child_process";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { keptFolder } from "../src/local/kept-folder.ts";

const VERSION = "8.7.4";

/** Whether the request was let through. */
export type ExpressLimit = (key: string) => Promise<boolean>;

/** Makes one. */
export type ExpressLimits = (options: { readonly windowMs: number; readonly limit: number }) => ExpressLimit;

/** The part of express-rate-limit that is used here. */
interface ExpressRateLimit {
  rateLimit(options: {
    readonly windowMs: number;
    readonly limit: number;
    readonly keyGenerator: (request: Asked) => string;
    readonly standardHeaders: false;
    readonly legacyHeaders: false;
    readonly validate: false;
    readonly handler: () => void;
  }): (request: Asked, response: object, next: () => void) => Promise<void>;
}

interface Asked {
  readonly key: string;
}

/**
 * Makes limits of express-rate-limit, on its memory store. It is fetched by npm the first time, and is no dependency: it would bring
 * Express with it, which its limiter does not need. Says loudly why not, where it cannot be had.
 */
export async function expressLimits(): Promise<ExpressLimits | undefined> {
  try {
    const folder = await keptFolder(`express-rate-limit-${VERSION}`, async (empty) => {
      process.stderr.write(`Fetching express-rate-limit ${VERSION} for the bench (once) ...\n`);
      const wanted = ["install", "--prefix", empty, "--legacy-peer-deps", `express-rate-limit@${VERSION}`];
      await promisify(execFile)("npm", wanted);
    });
    const file = join(folder, "node_modules/express-rate-limit/dist/index.mjs");
    const { rateLimit } = (await import(pathToFileURL(file).href)) as ExpressRateLimit;
    return ({ windowMs, limit }) => limitOf(rateLimit, windowMs, limit);
  } catch (error) {
    process.stderr.write(
      `SKIPPED. express-rate-limit is not measured: ${error instanceof Error ? error.message : error}\n`,
    );
    return undefined;
  }
}

/** Its middleware without Express: header fields are off, so that only the count is measured. */
function limitOf(rateLimit: ExpressRateLimit["rateLimit"], windowMs: number, limit: number): ExpressLimit {
  let isGranted = false;
  const middleware = rateLimit({
    ...{ windowMs, limit, keyGenerator: ({ key }) => key },
    ...{ standardHeaders: false, legacyHeaders: false, validate: false },
    handler: () => {
      isGranted = false;
    },
  });
  const granted = () => {
    isGranted = true;
  };
  return async (key) => {
    await middleware({ key }, {}, granted);
    return isGranted;
  };
}
