import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openMemory } from "../../src/adapters/memory/store.ts";
import { openSqlite } from "../../src/adapters/sqlite/store.ts";
import { FILE_RETENTION } from "../../src/domain/config/retention.ts";
import type { Store } from "../../src/ports/store.ts";
import { NO_TURNS } from "../../src/testing/simulated-clock.ts";
import { calendar } from "./calendar.ts";
import { conditionalGround } from "./conditional-ground.ts";
import { type Ground, type GroundContext, groundOn } from "./ground.ts";
import { straightGround } from "./straight-ground.ts";

export const STORE_KINDS = ["memory", "sqlite", "conditional", "straight"] as const;

export type StoreKind = (typeof STORE_KINDS)[number];

export interface Opened {
  /** The store, in the world that a simulation has made. */
  ground(context: GroundContext): Ground;
  /** Whether all limits of the world go by one zone. */
  readonly oneZone?: boolean;
  /** Whether it counts changes of configuration, so that those of different levels come one after the other as they were made. */
  readonly countsChanges?: boolean;
  /** Whether its limits may tell (`notifyAt`). */
  readonly tells?: boolean;
  /** Whether its limits may be shadows. */
  readonly shadows?: boolean;
  /** Whether its limits may be on how many are at once. */
  readonly holds?: boolean;
  /** Whether its clients' clocks may be kept to its time, and be off by up to an hour before. */
  readonly correctsClocks?: boolean;
  close(): void | Promise<void>;
}

/** What limits of every store may say besides rates. */
export const BEYOND_RATES = { tells: true, holds: true, shadows: true } as const;

/** A new, empty store for a seed. */
export function openFor(kind: StoreKind, seed: number): Opened {
  switch (kind) {
    case "memory":
      return {
        ground: (context) => groundOn([openMemory(calendar, FILE_RETENTION, NO_TURNS)], true, context),
        countsChanges: true,
        ...BEYOND_RATES,
        close: () => {},
      };
    case "sqlite":
      return openFile(seed);
    case "conditional":
      // An item has one zone for all its limits, also for those that are only remembered.
      return { ground: conditionalGround, oneZone: true, correctsClocks: true, ...BEYOND_RATES, close: () => {} };
    case "straight":
      return { ground: straightGround, countsChanges: true, ...BEYOND_RATES, close: () => {} };
  }
}

function openFile(seed: number): Opened {
  const folder = mkdtempSync(join(tmpdir(), "zae-limiter-simulation-"));
  const file = join(folder, "limiter.db");
  const coalesce = seed % 4 !== 0;
  const handles: Store[] = [];
  return {
    ...BEYOND_RATES,
    countsChanges: true,
    ground: (context) => {
      const steadyMs = () => context.clock.now();
      const open = () =>
        openSqlite({
          file,
          durability: "normal",
          coalesce,
          retention: FILE_RETENTION,
          random: () => 0.5,
          steadyMs,
          calendar,
        });
      handles.push(open(), ...(seed % 2 === 0 ? [] : [open()]));
      // Otherwise others, such as the store's own sweeping, come between calls that are made at once.
      return groundOn(handles, coalesce && handles.length === 1, context);
    },
    close: async () => {
      for (const handle of handles) await handle.close();
      rmSync(folder, { recursive: true });
    },
  };
}
