import { Limit } from "../domain/limits/limit.ts";
import { ValidationError } from "../domain/names/errors.ts";
import { KnownNames, requireOption } from "../domain/names/known-names.ts";
import { checkResource, shown } from "../domain/names/names.ts";
import { entityIdOf } from "../domain/names/text-names.ts";
import type { Limiter } from "../engine/limiter/limiter.ts";
import { type LimiterParts, partsIfLimiter } from "../engine/limiter/limiter-parts.ts";
import { type Counted, type WindowCount, WindowCounts } from "../engine/refusal/window-counts.ts";

/** Options of `LimiterStore`. */
export interface LimiterStoreOptions {
  /** The limiter that `RateLimiter.open` returned, or its promise. The caller that opened it closes it. */
  readonly limiter: Limiter | Promise<Limiter>;
  /** The resource that hits are counted on. Default: `"express-rate-limit"`. */
  readonly resource?: string;
  /** Comes before every key, so that limiters of one resource count apart. Default: `"rl:"`. */
  readonly prefix?: string;
}

/** The count of a key, as express-rate-limit reads it. */
export interface LimiterStoreInfo {
  /** The number of times that the key came in its window. */
  totalHits: number;
  /** When the window ends. */
  resetTime: Date | undefined;
}

const OPTIONS = new KnownNames<LimiterStoreOptions>({ limiter: true, resource: true, prefix: true });

/** No window has more hits. Beyond this the quota goes into debt, and still counts exactly. */
const CAPACITY = 1_000_000_000;

/** This count is above every limit that it is compared with, and exact. */
const HITS_OF_A_REFUSAL = Number.MAX_SAFE_INTEGER;

/** An id that is a digest begins with this. A key that begins like it becomes a digest, too, so that no key can imitate another. */
const DIGEST = "sha256-";

/**
 * A store for express-rate-limit 7 and 8: its middleware stays as it is, and its counts are in SQLite, DynamoDB or
 * memory. A window begins with the first hit and lasts `windowMs`, which is a whole number of seconds. Hits go on
 * counting past the limit, which is the middleware's to compare.
 *
 * ```ts
 * app.use(rateLimit({ windowMs: 60_000, limit: 100, store: new LimiterStore({ limiter }) }));
 * ```
 */
export class LimiterStore {
  /** Stores with the same prefix, in this process or another, share their counts. */
  readonly localKeys: boolean = false;
  /** Comes before every key. */
  readonly prefix: string;
  readonly #limiter: Limiter | Promise<Limiter>;
  readonly #resource: string;
  #start: Start = { kind: "none" };

  constructor(options: LimiterStoreOptions) {
    const { limiter, resource = "express-rate-limit", prefix = "rl:" } = OPTIONS.check(options, "The options");
    if (!(limiter instanceof Promise)) partsIn(limiter);
    // The first hit reports a limiter that could not be opened; an application may end before.
    else limiter.catch(() => {});
    requireOption("prefix", prefix, typeof prefix === "string", 'a text, such as "login:"');
    this.#limiter = limiter;
    this.#resource = checkResource(resource);
    this.prefix = prefix;
  }

  /** Called by express-rate-limit with its options. */
  init({ windowMs }: { readonly windowMs: number }): void {
    if (!Number.isSafeInteger(windowMs) || windowMs < 1_000 || windowMs % 1_000 !== 0) {
      const error = new ValidationError(
        "option_invalid",
        `windowMs is ${shown(windowMs)}; LimiterStore counts in windows of whole seconds: give 1000, 60000 or the like.`,
      );
      // Version 8 only logs what is thrown here.
      this.#start = { kind: "failed", error };
      throw error;
    }
    this.#start = { kind: "window", windowMs };
  }

  /** Counts how often the key came in the window that is open; undefined where none is. */
  async get(key: string): Promise<LimiterStoreInfo | undefined> {
    const { counts, parts } = await this.#opened();
    const found = await counts.read(this.#idOf(key, parts));
    return found && infoOf(found);
  }

  /** Counts a hit. It rejects in an outage, also where the limiter lets work through: `passOnStoreError` decides. */
  async increment(key: string): Promise<LimiterStoreInfo> {
    const { counts, parts, windowMs } = await this.#opened();
    const counted: Counted = await counts.add(this.#idOf(key, parts));
    switch (counted.kind) {
      case "counted":
        return infoOf(counted);
      case "bypassed":
        return { totalHits: 1, resetTime: new Date(parts.deps.clock.now() + windowMs) };
      case "refused":
        // An error would be a fault of the store, which `passOnStoreError` lets pass.
        return {
          totalHits: HITS_OF_A_REFUSAL,
          resetTime: counted.retryAtMs === undefined ? undefined : new Date(counted.retryAtMs),
        };
    }
  }

  /** Takes a hit back. Where the window in which it was counted has ended, nothing changes. */
  async decrement(key: string): Promise<void> {
    const { counts, parts } = await this.#opened();
    await counts.takeBack(this.#idOf(key, parts));
  }

  /** Ends the window of a key. */
  async resetKey(key: string): Promise<void> {
    const { counts, parts } = await this.#opened();
    await counts.reset(this.#idOf(key, parts));
  }

  /** Does nothing: counts stay for other processes, and the caller that opened the limiter closes it. */
  shutdown(): void {}

  async #opened(): Promise<Opened> {
    const start = this.#start;
    switch (start.kind) {
      case "opened":
        return start;
      case "failed":
        throw start.error;
      case "none":
        throw new ValidationError(
          "option_invalid",
          "LimiterStore has no windowMs; pass it to rateLimit({ store }), or call init({ windowMs }) first.",
        );
      case "window": {
        const { windowMs } = start;
        const parts = partsIn(await this.#limiter);
        const opened: Opened = { kind: "opened", parts, windowMs, counts: this.#countsOf(parts, windowMs) };
        if (this.#start === start) this.#start = opened;
        return opened;
      }
    }
  }

  #countsOf(parts: LimiterParts, windowMs: number): WindowCounts {
    const hits = Limit.quota("hits", CAPACITY, { resetAfterMs: windowMs, soft: true });
    return new WindowCounts(parts, this.#resource, hits);
  }

  /** Makes an id for every key, whatever its length: a key that made an error would pass with `passOnStoreError`. */
  #idOf(key: string, { deps }: LimiterParts): string {
    const text = `${this.prefix}${key}`;
    if (text !== "" && !text.startsWith(DIGEST)) {
      try {
        return entityIdOf(text);
      } catch (error) {
        if (!(error instanceof ValidationError)) throw error;
      }
    }
    return entityIdOf(`${DIGEST}${deps.digest.of(text)}`);
  }
}

/** The states of opening: `init` sets the window, the first hit needs the limiter. */
type Start =
  | { readonly kind: "none" }
  | { readonly kind: "failed"; readonly error: ValidationError }
  | { readonly kind: "window"; readonly windowMs: number }
  | Opened;

interface Opened {
  readonly kind: "opened";
  readonly parts: LimiterParts;
  readonly counts: WindowCounts;
  readonly windowMs: number;
}

/** Requires a limiter of this process: over HTTP, windows that a request brings are neither shown nor ended. */
function partsIn(limiter: Limiter): LimiterParts {
  const parts = partsIfLimiter(limiter);
  if (parts !== undefined) return parts;
  const isClient = typeof limiter?.acquire === "function";
  throw new ValidationError(
    "limiter_invalid",
    isClient
      ? "limiter is a client of the service; LimiterStore needs a RateLimiter. With a client use rateLimit of zae-limiter/express."
      : `limiter is ${shown(limiter)}; pass the result of RateLimiter.open, or its promise.`,
  );
}

function infoOf({ count, endsAtMs }: WindowCount): LimiterStoreInfo {
  return { totalHits: count, resetTime: new Date(endsAtMs) };
}
