import { type ChangeTime, numberOfGeneration } from "../domain/config/change-number.ts";
import { TOTAL_RESOURCE } from "../domain/config/totals.ts";
import type { LevelNames } from "../ports/config-store.ts";
import type { RecordDeletion, RecordPut, TouchedNames } from "../ports/record-store.ts";
import { ANY_PLAN } from "../stored/config-keys.ts";

/** The generations of namespaces. A take compares its own on the server, so that one that is out of date does no harm. */
export interface Generations {
  of(namespaceId: string): number;
  /** Every answer brings the one of its namespace. `changes`: since the one that was known; where they are not complete, all may have changed. */
  note(namespaceId: string, generation: number, changes?: TouchedNames): void;
  /** When a change is made that is decided by what was read in this generation. */
  timeAfter(generation: number, atMs: number): ChangeTime;
  /** True if nothing that the level goes by has changed since. Absent: every change may be one of every level. */
  isUnchanged?(namespaceId: string, level: LevelNames, since: number): boolean;
}

interface AnsweredBatch {
  readonly namespaceId: string;
  /** That of the store, and the newest one that the batch went by. */
  readonly generation: number;
  readonly askedGeneration: number | undefined;
  readonly changes: TouchedNames | undefined;
}

/** The change makes the next generation. */
export function timeAfter(generation: number, atMs: number): ChangeTime {
  return { atMs, number: numberOfGeneration(generation + 1) };
}

/** A process remembers at most twice as many names that changes touched, of each namespace. */
const NAMES_MAX = 5_000;

/** A commit that touches more names than this touches everything. */
const TOUCHED_MAX = 32;

/** The generations as far as this process has seen them, and what the changes between them touched. */
export class SeenGenerations implements Generations {
  readonly #seen = new Map<string, SeenChanges>();
  readonly timeAfter = timeAfter;

  of(namespaceId: string): number {
    return this.#seen.get(namespaceId)?.latest ?? 0;
  }

  note(namespaceId: string, generation: number, changes: TouchedNames = []): void {
    const seen = this.#seen.get(namespaceId);
    if (seen === undefined) this.#seen.set(namespaceId, new SeenChanges(generation));
    else seen.note(generation, changes);
  }

  /**
   * Notes what the answer to a batch shows. Where the store is behind what it was asked by, it has lost changes, as a standby may that takes over:
   * the count begins anew. A level that was read before may then be taken for one of a later change, until its time in the cache is over.
   */
  noteAnswer({ namespaceId, generation, askedGeneration = 0, changes }: AnsweredBatch): void {
    if (generation < askedGeneration) this.#seen.delete(namespaceId);
    // Where all of a batch was of the present generation, nothing was missed.
    if (changes !== undefined) this.note(namespaceId, generation, changes);
  }

  isUnchanged(namespaceId: string, level: LevelNames, since: number): boolean {
    return this.#seen.get(namespaceId)?.isUnchanged(level, since) === true;
  }
}

/** The changes of one namespace: of each name the generation that last touched it. */
class SeenChanges {
  latest: number;
  /** What changed after this generation is known. */
  #from: number;
  /** The younger names are those that were touched after this generation. */
  #youngFrom: number;
  #young = new Map<string, number>();
  #older = new Map<string, number>();

  constructor(generation: number) {
    this.latest = generation;
    this.#from = generation;
    this.#youngFrom = generation;
  }

  /** Answers may overtake each other: what was seen never goes back. */
  note(generation: number, changes: TouchedNames): void {
    const { latest } = this;
    if (generation <= latest) return;
    const missed = changes.filter(([number]) => number > latest && number <= generation);
    this.latest = generation;
    if (missed.length < generation - latest) {
      this.#from = generation;
      this.#youngFrom = generation;
      this.#young.clear();
      this.#older.clear();
      return;
    }
    for (const [number, names] of missed) for (const name of names) this.#young.set(name, number);
    if (this.#young.size < NAMES_MAX) return;
    this.#older = this.#young;
    this.#young = new Map();
    this.#from = this.#youngFrom;
    this.#youngFrom = generation;
  }

  isUnchanged({ entityId, resource, planId }: LevelNames, since: number): boolean {
    if (since === this.latest) return true;
    return (
      since >= this.#from &&
      since < this.latest &&
      this.#touchedAt(entityId) <= since &&
      this.#touchedAt(resource) <= since &&
      (planId === undefined || this.#touchedAt(planId) <= since)
    );
  }

  #touchedAt(name: string): number {
    return this.#young.get(name) ?? this.#older.get(name) ?? 0;
  }
}

/** The names whose levels may be others after these writes; undefined: all. */
export function touchedBy(
  puts: readonly RecordPut[],
  deletes: readonly RecordDeletion[],
): readonly string[] | undefined {
  const touched = new Set<string>();
  for (const write of [...puts, ...deletes]) {
    const names = namesOf(write);
    if (names === undefined) return undefined;
    for (const name of names) touched.add(name);
  }
  return touched.size > TOUCHED_MAX ? undefined : [...touched];
}

function namesOf(write: RecordPut | RecordDeletion): readonly string[] | undefined {
  switch (write.kind) {
    case "everythingOf":
      return [write.entityId];
    case "entity":
      return write.key;
    case "plan":
      return [...write.key, ANY_PLAN];
    case "config":
    case "history": {
      const [of, owner, resource] = write.key as [string, string, string];
      if (of === "plan") return [owner, ANY_PLAN];
      if (owner !== "") return [owner];
      // What the system says for any resource, and for totals, is part of every level.
      return resource === "" || resource === TOTAL_RESOURCE ? undefined : [resource];
    }
    case "owner":
    case "owned":
      return [];
    default:
      return undefined;
  }
}
