import type { BucketKey } from "../../src/domain/bucket/bucket-key.ts";
import type { Limit } from "../../src/domain/limits/limit.ts";
import type { SetOrigin } from "../../src/domain/limits/limit-set.ts";
import type { Calendar } from "../../src/domain/limits/schedule.ts";
import type { Claim, Held } from "../../src/ports/bucket-store.ts";
import type { Item, TracePart } from "../../src/ports/item-store.ts";
import { DISABLED, namesOf, RF, SHARD_COUNT, TTL, VU, WCU } from "../../src/protocol/item/attributes.ts";
import type { AppliedChange } from "../kit/conditional-table.ts";
import { itemId } from "../kit/conditional-write.ts";
import type { Journal } from "../simulation/journal.ts";
import { PromiseRuns } from "./ledger.ts";
import { limitProblems, madeProblems, splitProblems } from "./our-writes.ts";
import { QuotaPeriods } from "./periods.ts";
import { countIn, levelAt, numberIn, readingOf, readingsOf, shown, termsText } from "./readings.ts";
import type { Read, SharedAccess } from "./truth.ts";
import type { Sent, Wires } from "./wire.ts";

export interface CheckOptions {
  readonly wires: Wires;
  readonly journal: Journal;
  readonly calendar: Calendar;
  /** By how much a clock may be off. */
  readonly errorMs: number;
  /** Who is let through by now. */
  readonly accessOf: (bucket: BucketKey) => SharedAccess;
  /** How a quota of this name resets. */
  readonly resetOf: (limit: string) => Limit["reset"];
}

/** Looks at every change of the table, by whomever, and says what should not have been. */
export class SharedChecks {
  readonly runs: PromiseRuns;
  readonly #options: CheckOptions;
  readonly #periods: QuotaPeriods;
  readonly #reads = new WeakMap<SetOrigin, Read & { readonly order: number }>();
  readonly #landed = new WeakMap<object, number>();
  /** The epoch of each shard's item when something was taken from it, by claim and then by ticket. */
  readonly #epochs = new WeakMap<object, Map<number, number>>();
  /** The version of configuration that numbers on an item were last changed to. */
  readonly #changed = new Map<string, number>();
  readonly #stamped = new Map<string, number>();
  readonly #ttlBy = new Map<string, Sent["side"]>();
  readonly #sharded = new Set<string>();
  #order = 0;

  constructor(options: CheckOptions) {
    this.#options = options;
    this.runs = new PromiseRuns(options.errorMs);
    this.#periods = new QuotaPeriods(options.calendar, options.resetOf);
  }

  get order(): number {
    return this.#order;
  }

  /** Configuration was read for this origin just now. */
  read(origin: SetOrigin, read: Read): void {
    this.#reads.set(origin, { ...read, order: this.#order });
  }

  /** In how many writes that were applied this claim, debit or give-back was. */
  landed(of: object): number {
    return this.#landed.get(of) ?? 0;
  }

  /** What was taken for this is given back with that ticket. */
  ticketed(of: object, ticket: object | undefined): void {
    const epochs = this.#epochs.get(of);
    if (ticket !== undefined && epochs !== undefined) this.#epochs.set(ticket, epochs);
  }

  applied(changes: readonly AppliedChange[]): void {
    const problems: string[] = [];
    for (const change of changes) problems.push(...this.#one(change, changes.length));
    const made = changes.filter(({ trace }) => trace?.form === "share");
    if (made.length > 0) problems.push(...splitProblems(made));
    for (const problem of problems) this.#options.journal.violation(problem);
  }

  #one(change: AppliedChange, together: number): string[] {
    const { journal, wires } = this.#options;
    const { key, before, after, by, trace, order } = change;
    this.#order = order;
    const id = itemId(key);
    const sent = wires.of(trace);
    const what = by === "write" || by === "transaction" ? `${sent?.owner ?? "hand"} ${trace?.form ?? ""}` : by;
    journal.detail(() => `    ${what} ${key.bucket.entityId}/${key.shard} @${change.atMs}: ${shown(after)}`);
    if (after !== undefined && (countIn(after) > 1 || key.shard > 0)) this.#sharded.add(key.bucket.id);
    if (after === undefined) return this.#removed(change, id);
    if (sent === undefined) return [];
    const problems = sent.side === "ours" ? this.#ours(change, sent, together) : this.#theirs(change, sent);
    if (TTL in sent.write.set || sent.write.remove.includes(TTL)) this.#ttlBy.set(id, sent.side);
    // An adjustment of the original's asks nothing of the item.
    const isTake =
      sent.side === "theirs" ? sent.write.when.length > 0 : (trace?.parts ?? []).some(({ kind }) => kind === "take");
    const { atMs } = change;
    const readingMs = Number.isNaN(trace?.readingMs) ? atMs : (trace?.readingMs ?? atMs);
    const write = { side: sent.side, before, after, atMs, readingMs, isTake };
    if (!this.#sharded.has(key.bucket.id)) {
      problems.push(...this.runs.wrote(key.bucket.id, write), ...this.#periods.wrote(key.bucket.id, write));
    }
    return problems.map((problem) => `${what}: ${problem}; before ${shown(before)}; after ${shown(after)}`);
  }

  #ours(change: AppliedChange, sent: Sent, together: number): string[] {
    const { key, before, after, trace, order } = change;
    const { calendar, resetOf, journal } = this.#options;
    if (after === undefined || trace === undefined) return [];
    const parts = trace.parts;
    for (const { of, kind } of parts) {
      this.#landed.set(of, this.landed(of) + 1);
      if (kind === "credit") continue;
      const epochs = this.#epochs.get(of) ?? new Map<number, number>();
      this.#epochs.set(of, epochs.set(key.shard, numberIn(after, RF)));
    }
    journal.count(`ours ${trace.form}`);
    const problems = [...wholeNumbers(after)];
    if (DISABLED in after && !(DISABLED in (before ?? {}))) this.#stamped.set(itemId(key), order);
    if (Number.isNaN(trace.readingMs)) return problems;
    problems.push(...writesCounted(before, after), ...this.#accessProblems(change, parts));
    if (before === undefined) {
      if (trace.form !== "share") problems.push(...madeProblems(key.shard, after));
    } else {
      if (before[SHARD_COUNT] !== after[SHARD_COUNT]) problems.push("the number of shards was changed");
      problems.push(...this.#wordsProblems(change, parts), ...this.#periodProblems(change, parts));
      if (trace.form !== "share") {
        const takes = takenIn(parts);
        const given = { before, after, trace, takes, calendar, resetOf, write: sent.write, together };
        for (const limit of readingsOf(after)) problems.push(...limitProblems(limit, given));
      }
    }
    for (const limit of readingsOf(after)) {
      // A bucket that was just split stands over its new brims: that is the original's affair, until we add to it.
      const isRaised = limit.tokensMilli > (readingOf(before, limit.name)?.tokensMilli ?? Number.NEGATIVE_INFINITY);
      if (isRaised && limit.tokensMilli > limit.brimMilli && after[VU] !== 0) {
        problems.push(`${limit.name} stands over its brim and nothing says so`);
      }
    }
    if (trace.form !== "credit" && trace.form !== "share") problems.push(...this.#ttlProblems(after));
    return problems;
  }

  #theirs({ key, before, after }: AppliedChange, { write, version }: Sent): string[] {
    const { journal } = this.#options;
    journal.count(before === undefined ? "theirs create" : RF in write.set ? "theirs slow" : "theirs fast");
    for (const limit of readingsOf(after)) {
      const old = readingOf(before, limit.name);
      if (old !== undefined && termsText(old) !== termsText(limit)) {
        this.#changed.set(itemId(key), version ?? 0);
        journal.count("theirs changed in place");
      }
      if (limit.tokensMilli > limit.brimMilli && after?.[VU] !== 0) journal.count("theirs spilled");
      if (old !== undefined && limit.tokensMilli < 0 && old.tokensMilli < limit.tokensMilli)
        journal.count("debts paid");
    }
    return [];
  }

  /** Rule 8: numbers come only from configuration as new as what they replace: a change is not undone. */
  #wordsProblems({ key, before, after }: AppliedChange, parts: readonly TracePart[]): string[] {
    const isChanged = readingsOf(after).some((limit) => {
      const old = readingOf(before, limit.name);
      return old !== undefined && termsText(old) !== termsText(limit);
    });
    if (!isChanged) return [];
    this.#options.journal.count("ours brought limits");
    const read = this.#readOf(parts);
    const [version, had] = [read?.version ?? 0, this.#changed.get(itemId(key)) ?? 0];
    this.#changed.set(itemId(key), version);
    if (version < had) return [`limits of version ${version} were brought to an item that went by version ${had}`];
    if (read?.isConsistent === false) return ["limits were brought from a read that may have been old"];
    return [];
  }

  /** What was taken from a quota in a period that has ended does not come back into the next. */
  #periodProblems({ key, before, after }: AppliedChange, parts: readonly TracePart[]): string[] {
    const { calendar, resetOf } = this.#options;
    const given = new Map<string, number>();
    for (const { of, kind, amounts } of parts) {
      const { ticket } = of as Held;
      const epochs = ticket === undefined ? undefined : this.#epochs.get(ticket);
      // What was gathered from several shards goes back to each into its own period.
      const takenMs = epochs?.get(key.shard) ?? latest(epochs);
      if (kind !== "credit" || takenMs === undefined) continue;
      for (const { limit, milli } of amounts) if (milli > 0) given.set(limit, takenMs);
    }
    return readingsOf(after).flatMap((limit) => {
      const [takenMs, reset] = [given.get(limit.name), resetOf(limit.name)];
      if (takenMs === undefined || !limit.isQuota || reset === undefined) return [];
      const lastMs = calendar.previousReset(reset.cron, reset.tz ?? "UTC", numberIn(after, RF));
      if (takenMs >= lastMs) return [];
      const old = readingOf(before, limit.name);
      const isReset = numberIn(before, RF) < lastMs;
      const had = isReset || old === undefined ? limit.shareMilli : old.tokensMilli;
      if (limit.tokensMilli <= had) return [];
      return [`${limit.name} got back what was taken in an earlier period`];
    });
  }

  #accessProblems({ key, before }: AppliedChange, parts: readonly TracePart[]): string[] {
    if (before?.[DISABLED] !== true || !parts.some(({ kind, amounts }) => kind === "take" && amounts.length > 0))
      return [];
    this.#options.journal.count("ours let through again");
    // A stamp may come late, when who is let through has been changed again: configuration counts.
    if (this.#options.accessOf(key.bucket) === "enforce") return [];
    const read = this.#readOf(parts);
    const stampedAt = this.#stamped.get(itemId(key)) ?? 0;
    if (read !== undefined && read.order >= stampedAt) return [];
    return ["a take went through on a bucket that is disabled, by configuration read before it was"];
  }

  #readOf(parts: readonly TracePart[]): (Read & { readonly order: number }) | undefined {
    let newest: Claim | undefined;
    for (const { of } of parts) {
      const claim = of as Claim;
      if (newest === undefined || claim.origin.asOfMs > newest.origin.asOfMs) newest = claim;
    }
    return newest === undefined ? undefined : this.#reads.get(newest.origin);
  }

  /** An item does not expire before it is full: what it holds less would be forgotten. */
  #ttlProblems(after: Item): string[] {
    const { calendar, resetOf } = this.#options;
    if (!(TTL in after)) return [];
    const untilMs = numberIn(after, TTL) * 1000;
    return readingsOf(after).flatMap((limit) => {
      if (limit.tokensMilli >= limit.brimMilli) return [];
      const reset = resetOf(limit.name);
      const isFull =
        limit.isQuota && reset !== undefined
          ? calendar.nextReset(reset.cron, reset.tz ?? "UTC", numberIn(after, RF)) <= untilMs
          : levelAt(after, limit, untilMs) >= limit.brimMilli;
      return isFull ? [] : [`${limit.name} would be forgotten before it is full`];
    });
  }

  #removed({ key, before, by, atMs }: AppliedChange, id: string): string[] {
    const { journal, errorMs, calendar, resetOf } = this.#options;
    const isFull = readingsOf(before).every((limit) => {
      const reset = resetOf(limit.name);
      if (!limit.isQuota || reset === undefined) return levelAt(before ?? {}, limit, atMs + errorMs) >= limit.brimMilli;
      return calendar.previousReset(reset.cron, reset.tz ?? "UTC", atMs) > numberIn(before, RF);
    });
    this.runs.forget(key.bucket.id);
    if (by !== "ttl" || isFull) return [];
    journal.count("theirs forgot");
    return this.#ttlBy.get(id) === "ours" ? [`an item was swept that was not full: ${shown(before)}`] : [];
  }
}

function latest(epochs: ReadonlyMap<number, number> | undefined): number | undefined {
  return epochs === undefined ? undefined : Math.max(...epochs.values());
}

function takenIn(parts: readonly TracePart[]): ReadonlyMap<string, number> {
  const takes = new Map<string, number>();
  for (const { kind, amounts } of parts) {
    if (kind !== "take") continue;
    for (const { limit, milli } of amounts) takes.set(limit, (takes.get(limit) ?? 0) + milli);
  }
  return takes;
}

function wholeNumbers(after: Item): string[] {
  return Object.entries(after).flatMap(([name, value]) =>
    typeof value === "number" && !Number.isSafeInteger(value) ? [`${name} is ${value}`] : [],
  );
}

function writesCounted(before: Item | undefined, after: Item): string[] {
  const { tk, cp, ra, rp, tc } = namesOf(WCU);
  const missing = [tk, cp, ra, rp, tc].filter((name) => typeof after[name] !== "number");
  if (missing.length > 0) return [`${missing.join()} is missing`];
  const counted = numberIn(after, tc) - numberIn(before, tc);
  const problems = counted === 1000 ? [] : [`a write was counted as ${counted / 1000}`];
  if (numberIn(after, tk) > numberIn(after, cp) - 1000) problems.push("the counter of writes stands too high");
  const isMoved = before === undefined || before[RF] !== after[RF];
  if (!isMoved && numberIn(after, tk) !== numberIn(before, tk) - 1000) problems.push("the write was not taken off");
  return problems;
}
