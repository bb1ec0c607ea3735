import type { BucketKey } from "../../domain/bucket/bucket-key.ts";
import { fits } from "../../domain/bucket/bucket-questions.ts";
import { advanced, type BucketState } from "../../domain/bucket/bucket-state.ts";
import type { Calendar } from "../../domain/limits/schedule.ts";
import type { WantedRoom, WatchRoom } from "../../ports/bucket-store.ts";
import type { Clock } from "../../ports/system.ts";
import type { Connection, Statement } from "./connection.ts";
import { faultOf, thrownFor } from "./faults.ts";

/**
 * Notices what other connections did to the file. `PRAGMA data_version` changes when any of them has committed: as long as it
 * does not, everything remembered about the file still holds, the generation of configuration among it.
 */
export class Watch {
  readonly #connection: Connection;
  readonly #dataVersion: Statement;
  readonly #read: Statement;
  readonly #bump: Statement;
  readonly #onForeignWrite: () => void;
  #seenVersion: number | undefined;
  #generation = 0;
  #turn: "none" | "open" | "checked" = "none";

  constructor(connection: Connection, onForeignWrite: () => void) {
    this.#connection = connection;
    this.#dataVersion = connection.prepare("PRAGMA data_version");
    this.#read = connection.prepare("SELECT value FROM generation");
    this.#bump = connection.prepare("UPDATE generation SET value = value + 1 RETURNING value");
    this.#onForeignWrite = onForeignWrite;
    connection.read(() => this.refresh());
  }

  /** The generation as of the last look. Inside a transaction, after `refresh`, it is exact. */
  get generation(): number {
    return this.#generation;
  }

  /** Looks whether anything was written elsewhere; inside a transaction the answer holds until its end. */
  refresh(): void {
    const version = this.#dataVersion.get()?.[0] as number;
    if (version === this.#seenVersion) return;
    // In this order: a write between the two reads shows at the next look, and is never missed.
    this.#seenVersion = version;
    this.#onForeignWrite();
    this.#generation = this.#read.get()?.[0] as number;
  }

  /**
   * The generation for a caller outside a transaction. While a flush is due in this very turn one look is enough for all:
   * what they go on to take is checked against the generation again, inside the transaction.
   */
  lookedUp(): number {
    this.#connection.requireOpen();
    if (this.#turn === "checked") return this.#generation;
    try {
      this.refresh();
    } catch (error) {
      // Another process is recovering the log. The number last seen will do: takes compare it again.
      if (faultOf(error) === "other") throw thrownFor(error, this.#connection.file);
    }
    if (this.#turn === "open") this.#turn = "checked";
    return this.#generation;
  }

  /** Another number once another connection has committed. While another process recovers the log: the one that was seen last. */
  foreignWrites(): number {
    this.#connection.requireOpen();
    try {
      return this.#dataVersion.get()?.[0] as number;
    } catch (error) {
      if (faultOf(error) === "other") throw thrownFor(error, this.#connection.file);
      return this.#seenVersion ?? 0;
    }
  }

  /** A flush was put off to the end of this turn. */
  openTurn(): void {
    this.#turn = "open";
  }

  closeTurn(): void {
    this.#turn = "none";
  }

  /** The next generation, written in the transaction under way; `adopt` it once that is committed. */
  bump(): number {
    return this.#bump.get()?.[0] as number;
  }

  adopt(generation: number): void {
    this.#generation = generation;
  }
}

/** While a caller waits, the file is looked at this often for writes of other processes. */
const LOOK_MS = 20;

/** A request that was refused, and sleeps. */
interface Sleeping {
  readonly by: readonly WantedRoom[];
  readonly wake: () => void;
  /** The number of foreign writes when its buckets were last looked at. */
  seen: number;
}

type Read = (keys: readonly BucketKey[]) => readonly (BucketState | undefined)[];

/**
 * Room that other processes make in buckets. A number is compared while somebody waits; the buckets are read only when it has
 * changed, and who would not fit sleeps on: a busy file wakes nobody for the writes of strangers.
 */
export class ForeignRoom {
  readonly #watch: Watch;
  readonly #calendar: Calendar;
  readonly #read: Read;
  readonly #sleeping = new Set<Sleeping>();
  #end: AbortController | undefined;

  constructor(parts: { readonly watch: Watch; readonly calendar: Calendar }, read: Read) {
    this.#watch = parts.watch;
    this.#calendar = parts.calendar;
    this.#read = read;
  }

  /** From now on: what is written while the caller asks is not missed. */
  since(clock: Clock): WatchRoom {
    const writes = this.#watch.foreignWrites();
    return (by, wake) => this.#begin({ by, wake, seen: writes }, clock);
  }

  #begin(sleeping: Sleeping, clock: Clock): () => void {
    if (sleeping.by.length === 0) return () => {};
    this.#sleeping.add(sleeping);
    if (this.#end === undefined) {
      this.#end = new AbortController();
      void this.#look(clock, this.#end.signal);
    }
    return () => {
      this.#sleeping.delete(sleeping);
      if (this.#sleeping.size > 0) return;
      this.#end?.abort();
      this.#end = undefined;
    };
  }

  async #look(clock: Clock, end: AbortSignal): Promise<void> {
    while (!end.aborted) {
      try {
        await (clock.sleepInBackground?.(LOOK_MS, end) ?? clock.sleep(LOOK_MS, end));
        const writes = this.#watch.foreignWrites();
        for (const sleeping of this.#sleeping) {
          if (sleeping.seen === writes) continue;
          sleeping.seen = writes;
          if (this.#isRoomFor(sleeping, clock.now())) sleeping.wake();
        }
      } catch {
        // Nobody waits any more; or the file cannot be read just now, and who waits asks again in any case.
      }
    }
  }

  #isRoomFor({ by }: Sleeping, nowMs: number): boolean {
    const states = this.#read(by.map(({ bucket }) => bucket));
    return by.every(({ state: seen, take, leavePercent, bypass }, i) => {
      const state = states[i];
      // A bucket that is gone is full. By other limits only a take can tell.
      if (bypass || state === undefined || state.signature !== seen.signature) return true;
      return fits(advanced(state, Math.max(nowMs, state.epochMs), this.#calendar), take, nowMs, leavePercent);
    });
  }
}
