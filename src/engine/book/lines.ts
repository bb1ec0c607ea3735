import { OTHER } from "../../domain/charge/refusal-count.ts";
import type { RowReply } from "../../ports/usage-store.ts";

/** One sum of a line; `About` says what of. */
interface LineSum<About> {
  readonly about: About;
  /** The sum since the line was begun. */
  count: number;
  /** The part that was sent to the store, answer pending. */
  sent: number;
  /** The part that the store has confirmed. */
  stored: number;
}

/** The hour, entity and resource of a line. */
interface LinePlace {
  readonly hourMs: number;
  readonly entityId: string;
  readonly resource: string;
}

/** The sums of one entity on one resource in one hour: a row of the store. */
export interface Line<About> extends LinePlace {
  id: string;
  /** By the text of what they are of. */
  readonly sums: Map<string, LineSum<About>>;
  /** `unsure`: the row was sent, and its answer is pending or lost. */
  standing: "new" | "stored" | "unsure";
  /** True if the row was in the store: it still is, unless its entity was deleted. */
  wasStored: boolean;
  /** The number of the last pass that sent it; 0: none has. */
  sentIn: number;
}

/** A line as it is written. */
interface LineRow<About> extends LinePlace {
  readonly id: string;
  /** Grows with each write of the row. */
  readonly version: number;
  /** It was certainly stored before. */
  readonly mustExist: boolean;
  readonly sums: readonly LineSum<About>[];
}

/** Bounds of a book, and what becomes of lines beyond them. Lines without room are added to one line, the rest of the hour. */
export interface LineRules<About> {
  /** A written line can be dropped: later counts get another row. Of unwritten lines, the smallest are added to the rest. */
  readonly linesMax: number;
  /** Rows of one write. */
  readonly rowsPerWrite: number;
  /** Which lines are written first: a comparison for sorting. */
  readonly order: (a: Line<About>, b: Line<About>) => number;
  /** The lines for which a write has no room. */
  readonly beyond: "later" | "rest";
  /** Under what the rest counts a sum, and its text. */
  readonly inRest: (about: About) => { readonly text: string; readonly about: About };
}

/** The lines of a book. All methods are synchronous. */
export class Lines<About> {
  readonly #newId: () => string;
  readonly #rules: LineRules<About>;
  readonly #hours = new Map<number, Map<string, Map<string, Line<About>>>>();
  #size = 0;

  constructor(newId: () => string, rules: LineRules<About>) {
    this.#newId = newId;
    this.#rules = rules;
  }

  all(): readonly Line<About>[] {
    const all: Line<About>[] = [];
    for (const entities of this.#hours.values()) {
      for (const resources of entities.values()) for (const line of resources.values()) all.push(line);
    }
    return all;
  }

  /** Adds to a sum of a line; both are begun where they are missing. `text` names `about` among the sums of the line. */
  add({ hourMs, entityId, resource }: LinePlace, text: string, about: About, count: number): void {
    const line = this.#hours.get(hourMs)?.get(entityId)?.get(resource) ?? this.#begin({ hourMs, entityId, resource });
    const known = line.sums.get(text);
    if (known === undefined) line.sums.set(text, { about, count, sent: 0, stored: 0 });
    else known.count += count;
  }

  /** True if everything is in the store. */
  isWritten(): boolean {
    return !this.all().some(isOpen);
  }

  /** True if everything is in the store and no line is of the current hour. */
  isDone(hourMs: number): boolean {
    return !this.all().some((line) => isOpen(line) || line.hourMs >= hourMs);
  }

  /**
   * The next lines to write: unsure lines first, so that they stay few, then the others in the order of the rules. Those without room
   * wait, or are added to the rest, unless a later write can still name them.
   */
  toWrite(most: number, what: "some" | "all"): readonly Line<About>[] {
    const open = this.all().filter(isOpen);
    const named = open.filter((line) => !isRest(line));
    const unsure = named.filter(({ standing }) => standing === "unsure");
    const others = named.filter(({ standing }) => standing !== "unsure").sort(this.#rules.order);
    const room = Math.max(0, most - unsure.length);
    const isTooMuch = this.#rules.beyond === "rest" && (unsure.length === 0 || what === "all");
    if (isTooMuch) for (const line of others.slice(room)) this.#toRest(line);
    const rest = this.all().filter((line) => isRest(line) && isOpen(line));
    return [...unsure, ...others.slice(0, room), ...rest];
  }

  /** The line is on its way to the store. */
  sent(line: Line<About>, pass: number): void {
    line.standing = "unsure";
    line.sentIn = pass;
    for (const one of line.sums.values()) one.sent = one.count;
  }

  rowOf(line: Line<About>, pass: number): LineRow<About> {
    const { id, hourMs, entityId, resource, wasStored } = line;
    this.sent(line, pass);
    return { id, hourMs, entityId, resource, version: pass, mustExist: wasStored, sums: [...line.sums.values()] };
  }

  replied(line: Line<About>, reply: RowReply): void {
    if (reply === "unknown") return;
    if (reply === "stored") {
      line.standing = "stored";
      line.wasStored = true;
      for (const one of line.sums.values()) one.stored = one.sent;
      return;
    }
    // The entity was deleted with its rows: what is unconfirmed goes into another row.
    line.id = this.#newId();
    line.standing = "new";
    line.wasStored = false;
    for (const [text, one] of line.sums) {
      one.count -= one.stored;
      one.sent = 0;
      one.stored = 0;
      if (one.count === 0) line.sums.delete(text);
    }
  }

  /** Drops written lines of past hours. */
  forgetBefore(hourMs: number): void {
    for (const line of this.all()) if (line.hourMs < hourMs && !isOpen(line)) this.#drop(line);
  }

  /** Drops what was counted of an entity. */
  forget(entityId: string): void {
    for (const entities of [...this.#hours.values()]) {
      for (const line of [...(entities.get(entityId)?.values() ?? [])]) this.#drop(line);
    }
  }

  clear(): void {
    this.#hours.clear();
    this.#size = 0;
  }

  #begin(place: LinePlace): Line<About> {
    if (this.#size >= this.#rules.linesMax && place.entityId !== OTHER) this.#makeRoom();
    const { hourMs, entityId, resource } = place;
    const line: Line<About> = {
      ...place,
      ...{ id: this.#newId(), sums: new Map(), standing: "new", wasStored: false, sentIn: 0 },
    };
    const entities = this.#hours.get(hourMs) ?? new Map<string, Map<string, Line<About>>>();
    this.#hours.set(hourMs, entities);
    const resources = entities.get(entityId) ?? new Map<string, Line<About>>();
    entities.set(entityId, resources);
    resources.set(resource, line);
    this.#size++;
    return line;
  }

  #drop({ hourMs, entityId, resource }: LinePlace): void {
    const entities = this.#hours.get(hourMs);
    const resources = entities?.get(entityId);
    if (resources?.delete(resource)) this.#size--;
    if (resources?.size === 0) entities?.delete(entityId);
    if (entities?.size === 0) this.#hours.delete(hourMs);
  }

  #makeRoom(): void {
    const { linesMax } = this.#rules;
    for (const line of this.all()) if (!isOpen(line)) this.#drop(line);
    if (this.#size <= linesMax / 2) return;
    const least = this.all()
      .filter((line) => !isRest(line) && line.standing !== "unsure")
      .sort((a, b) => unsentOf(a) - unsentOf(b));
    for (const line of least.slice(0, linesMax / 2)) this.#toRest(line);
  }

  /** Adds what is unsent to the rest of the hour, and drops the line. */
  #toRest(line: Line<About>): void {
    this.#drop(line);
    for (const one of line.sums.values()) {
      const { text, about } = this.#rules.inRest(one.about);
      const place = { hourMs: line.hourMs, entityId: OTHER, resource: OTHER };
      if (one.count !== one.sent) this.add(place, text, about, one.count - one.sent);
    }
  }
}

function isRest({ entityId }: LinePlace): boolean {
  return entityId === OTHER;
}

/** True if a part of the line may not be in the store. */
function isOpen(line: Line<unknown>): boolean {
  if (line.standing === "unsure") return true;
  for (const { count, sent } of line.sums.values()) if (count !== sent) return true;
  return false;
}

/** How much of a line is not sent yet, whatever its sign. */
export function unsentOf({ sums }: Line<unknown>): number {
  let unsent = 0;
  for (const { count, sent } of sums.values()) unsent += Math.abs(count - sent);
  return unsent;
}
