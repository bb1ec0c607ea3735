import type { BucketKey } from "../../src/domain/bucket/bucket-key.ts";
import type { Limit } from "../../src/domain/limits/limit.ts";

export type SharedAccess = "enforce" | "disabled";

/** What configuration says of a bucket, as one reading found it. */
export interface Config {
  readonly limits: readonly Limit[];
  readonly access: SharedAccess;
  /** Grows by 1 with each change of the bucket's configuration. */
  readonly version: number;
}

/** One reading of it. */
export interface Read {
  readonly version: number;
  readonly isConsistent: boolean;
}

/** The one configuration that both sides read and change. */
export class Truth {
  readonly #versions = new Map<string, { readonly config: Config; readonly sinceMs: number }[]>();
  readonly #now: () => number;

  constructor(now: () => number) {
    this.#now = now;
  }

  set(bucket: BucketKey, change: Partial<Omit<Config, "version">>): Config {
    const versions = this.#versions.get(bucket.id) ?? [];
    const last = versions.at(-1)?.config ?? { limits: [], access: "enforce", version: 0 };
    const config: Config = { ...last, ...change, version: last.version + 1 };
    versions.push({ config, sinceMs: this.#now() });
    this.#versions.set(bucket.id, versions.slice(-KEPT));
    return config;
  }

  get(bucket: BucketKey): Config {
    const last = this.#versions.get(bucket.id)?.at(-1);
    if (last === undefined) throw new Error(`nothing is configured for ${bucket.id}`);
    return last.config;
  }

  /** What an inconsistent read may find: how it was, up to so long ago. */
  seen(bucket: BucketKey, staleMs: number, draw: () => number): Config {
    const versions = this.#versions.get(bucket.id) ?? [];
    const fromMs = this.#now() - Math.floor(draw() * staleMs);
    for (let i = versions.length - 1; i > 0; i--) {
      const { config, sinceMs } = versions[i] as { readonly config: Config; readonly sinceMs: number };
      if (sinceMs <= fromMs) return config;
    }
    return (versions[0] as { readonly config: Config }).config;
  }
}

const KEPT = 8;
