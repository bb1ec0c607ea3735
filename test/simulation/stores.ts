import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openMemory } from "../../src/adapters/memory/store.ts";
import { openSqlite } from "../../src/adapters/sqlite/store.ts";
import { createCalendar } from "../../src/adapters/system/calendar.ts";
import type { Store } from "../../src/ports/store.ts";

/** One for all seeds: what it has worked out is remembered. */
export const calendar = createCalendar();

export type StoreKind = "memory" | "sqlite";

export interface Opened {
  /** Ways to the same data: clients on different ones are as two processes. */
  readonly handles: readonly Store[];
  /** Whether calls made at once are one step: otherwise others, such as the store's own sweeping, come between them. */
  readonly joins: boolean;
  close(): void | Promise<void>;
}

/** A new, empty store for a seed. */
export function openFor(kind: StoreKind, seed: number): Opened {
  return kind === "memory" ? { handles: [openMemory(calendar)], joins: true, close: () => {} } : openFile(seed);
}

function openFile(seed: number): Opened {
  const folder = mkdtempSync(join(tmpdir(), "zae-limiter-simulation-"));
  const file = join(folder, "limiter.db");
  const coalesce = seed % 4 !== 0;
  const open = () => openSqlite({ file, durability: "normal", coalesce, random: () => 0.5, calendar });
  const handles = seed % 2 === 0 ? [open()] : [open(), open()];
  return {
    handles,
    joins: coalesce && handles.length === 1,
    close: async () => {
      for (const handle of handles) await handle.close();
      rmSync(folder, { recursive: true });
    },
  };
}
