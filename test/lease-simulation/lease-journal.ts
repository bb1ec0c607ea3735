import type { LeaseView } from "../../src/leases/lease-view.ts";
import type { Span } from "./lease-periods.ts";

type Amounts = Readonly<Record<string, number>>;

/** Tokens by `entity/resource/limit` that a request for the key may move at most. */
export function atMost(consume: Amounts, also: Readonly<Record<string, Amounts>> = {}): ReadonlyMap<string, number> {
  const most = new Map<string, number>();
  const add = (place: string, tokens: number) => most.set(place, (most.get(place) ?? 0) + Math.abs(tokens));
  for (const [limit, tokens] of Object.entries(consume)) {
    add(`key/api/${limit}`, tokens);
    // The organisation has a limit on tokens alone.
    if (limit === "tpm") add("org/api/tpm", tokens);
  }
  for (const [limit, tokens] of Object.entries(also.gpu ?? {})) add(`key/gpu/${limit}`, tokens);
  return most;
}

/** Tokens that count on a limit, and when that began. */
export interface Lot {
  readonly place: string;
  readonly tokens: number;
  readonly span: Span;
}

/**
 * What clients were told, and by it what must be true. It knows nothing of how leases are stored: only what was asked, what was
 * answered, and what was not.
 */
export class LeaseJournal {
  readonly violations: string[] = [];
  /** Every lease that was answered, with what it was last known to be. */
  readonly answered = new Map<string, LeaseView>();
  /** What was charged at once, without a lease. */
  readonly spent: Lot[] = [];
  /** What may count as used beside that, because of calls that were never answered. */
  readonly unsure: Lot[] = [];
  readonly #byKey = new Map<string, string>();
  readonly #doneByKey = new Set<string>();
  readonly #closed = new Map<string, { readonly as: LeaseView["status"]; readonly at: number }>();
  #events = 0;

  fail(sentence: string): void {
    this.violations.push(sentence);
  }

  /** A call ended without an answer: whatever it was about may count as used. */
  unanswered(most: ReadonlyMap<string, number>, span: Span): void {
    for (const [place, tokens] of most) this.unsure.push({ place, tokens, span });
  }

  acquired(
    view: LeaseView,
    asked: { readonly key: string | undefined; readonly replayed: boolean; readonly span: Span },
  ): void {
    const { leaseId } = view;
    if (asked.key !== undefined) {
      // Without an id there is only one answer to tell by: that it was charged at once.
      const told = leaseId ?? "charged at once";
      const first = this.#byKey.get(asked.key);
      if (first !== undefined && first !== told)
        this.fail(`the key ${asked.key} was answered with ${first} and with ${told}`);
      // A repeat may be answered before the first is: what was done stands in the store by then.
      if (!asked.replayed && this.#doneByKey.has(asked.key)) {
        this.fail(`the key ${asked.key} was done twice, and both were answered`);
      }
      if (!asked.replayed) this.#doneByKey.add(asked.key);
      this.#byKey.set(asked.key, told);
    }
    if (leaseId === null) {
      if (asked.replayed) return;
      for (const [place, tokens] of atMost(view.consumed, view.also)) {
        this.spent.push({ place, tokens, span: asked.span });
      }
      return;
    }
    if (!asked.replayed || !this.answered.has(leaseId)) this.answered.set(leaseId, view);
  }

  isAnswered(key: string): boolean {
    return this.#byKey.has(key);
  }

  /** A change under a key was answered: by the first answer, each time, and as done by one of them at most. */
  changed(answer: { readonly lease: LeaseView; readonly replayed: boolean }, key: string | undefined): void {
    if (key === undefined) return;
    const told = JSON.stringify(answer.lease);
    const first = this.#byKey.get(key);
    if (first !== undefined && first !== told) this.fail(`the key ${key} was answered with ${first} and with ${told}`);
    if (!answer.replayed && this.#doneByKey.has(key))
      this.fail(`the key ${key} was done twice, and both were answered`);
    if (!answer.replayed) this.#doneByKey.add(key);
    this.#byKey.set(key, told);
  }

  /** The instant of the journal: each event has a later one. */
  get now(): number {
    return this.#events;
  }

  /**
   * A lease was shown by a call that began at `beganAt`. It ends in one way only; and whoever asks after it was told to have
   * ended is told the same. An answer to a call of before may come late.
   */
  shown(view: LeaseView, beganAt: number): void {
    this.#events++;
    const leaseId = view.leaseId as string;
    const closed = this.#closed.get(leaseId);
    if (closed !== undefined && view.status !== closed.as && (view.status !== "open" || beganAt > closed.at)) {
      this.fail(`${leaseId} was ${closed.as} and is ${view.status} now`);
    }
    if (view.status !== "open" && closed === undefined) {
      this.#closed.set(leaseId, { as: view.status, at: this.#events });
    }
    this.answered.set(leaseId, view);
  }

  settled(view: LeaseView, totals: Amounts, beganAt: number): void {
    this.shown(view, beganAt);
    for (const [limit, tokens] of Object.entries(totals)) {
      if (view.consumed[limit] !== tokens) {
        this.fail(`${view.leaseId} was settled at ${tokens} of ${limit} and shows ${view.consumed[limit]}`);
      }
    }
  }

  rolledBack(view: LeaseView, beganAt: number): void {
    this.shown(view, beganAt);
    for (const [limit, tokens] of Object.entries(view.consumed)) {
      if (tokens !== 0) this.fail(`${view.leaseId} was rolled back and still has ${tokens} of ${limit}`);
    }
  }
}
