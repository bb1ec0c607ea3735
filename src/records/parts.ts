import type { RecordStore } from "../ports/record-store.ts";
import { Changes } from "./changes.ts";
import { type Generations, SeenGenerations } from "./generations.ts";
import { Lists } from "./lists.ts";

/** What everything on a record store shares. */
export interface RecordParts {
  readonly store: RecordStore;
  readonly generations: Generations;
  readonly lists: Lists;
  readonly changes: Changes;
}

export function recordParts(store: RecordStore, generations: Generations = new SeenGenerations()): RecordParts {
  return { store, generations, lists: new Lists(store, generations), changes: new Changes(store, generations) };
}
