import type { FoundRecords, RecordKey, StoredRecord } from "../../ports/record-store.ts";

/** Keys of one namespace, and whoever waits for what they name. */
interface Wanted {
  readonly scope: string;
  readonly keys: readonly RecordKey[];
  /** The changes after this generation are wanted, too. */
  readonly since: number;
  readonly resolve: (found: FoundRecords) => void;
  readonly reject: (error: unknown) => void;
}

type Read = (scope: string, keys: readonly RecordKey[], since: number) => Promise<FoundRecords>;

/** One statement asks for the keys of at most this many callers. */
const CALLERS_MAX = 128;

/** At most this many statements are under way; a second one only if it asks for as many callers as it may. */
const READS_MAX = 2;

/**
 * Reads by key, joined: those that wait while others are under way are asked for in one statement, each key once. A statement is sent
 * after the call of everybody whose keys it has, so it has every change that was confirmed before the call.
 */
export class GatheredReads {
  readonly #read: Read;
  #waiting: Wanted[] = [];
  #underWay = 0;
  #isAwaited = false;

  constructor(read: Read) {
    this.#read = read;
  }

  get(scope: string, keys: readonly RecordKey[], since: number): Promise<FoundRecords> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ scope, keys, since, resolve, reject });
      this.#awaitMore();
    });
  }

  // Calls of the same turn come in different microtasks.
  #awaitMore(): void {
    if (this.#isAwaited || !this.#maySend) return;
    this.#isAwaited = true;
    setImmediate(() => {
      this.#isAwaited = false;
      while (this.#maySend) void this.#send(this.#next());
    });
  }

  get #maySend(): boolean {
    return this.#waiting.length >= (this.#underWay === 0 ? 1 : CALLERS_MAX) && this.#underWay < READS_MAX;
  }

  /** Those of one namespace who have waited longest. */
  #next(): readonly Wanted[] {
    const [first] = this.#waiting;
    const next: Wanted[] = [];
    const later: Wanted[] = [];
    for (const one of this.#waiting) {
      (one.scope === first?.scope && next.length < CALLERS_MAX ? next : later).push(one);
    }
    this.#waiting = later;
    return next;
  }

  async #send(wanted: readonly Wanted[]): Promise<void> {
    const places = new Map<string, number>();
    const keys: RecordKey[] = [];
    const placeOf = (key: RecordKey) => {
      // No text that the server can store has this character.
      const text = `${key.kind}\0${key.key.join("\0")}`;
      const known = places.get(text);
      if (known !== undefined) return known;
      places.set(text, keys.length);
      return keys.push(key) - 1;
    };
    const placed = wanted.map((one) => one.keys.map(placeOf));
    this.#underWay++;
    try {
      const since = Math.min(...wanted.map((one) => one.since));
      const { records, ...found } = await this.#read((wanted[0] as Wanted).scope, keys, since);
      for (const [i, { resolve }] of wanted.entries()) {
        const own = placed[i] as readonly number[];
        resolve({ ...found, records: own.map((place): StoredRecord | undefined => records[place]) });
      }
    } catch (error) {
      for (const { reject } of wanted) reject(error);
    } finally {
      this.#underWay--;
      if (this.#waiting.length > 0) this.#awaitMore();
    }
  }
}
