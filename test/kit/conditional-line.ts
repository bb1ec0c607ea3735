import type { Stamp } from "../../src/clock/disciplined-clock.ts";
import type { BucketKey } from "../../src/domain/bucket/bucket-key.ts";
import type { AuditEvent } from "../../src/domain/config/audit.ts";
import { RateLimiterUnavailable } from "../../src/domain/names/errors.ts";
import type { Page, PageRequest } from "../../src/domain/names/paging.ts";
import type { BucketOwner, MaybePromise } from "../../src/ports/bucket-store.ts";
import type {
  Item,
  ItemAnswer,
  ItemCall,
  ItemKey,
  ItemStore,
  ItemWrite,
  TransactionAnswer,
  Undecided,
} from "../../src/ports/item-store.ts";
import type { SeededRandom } from "../../src/testing/random.ts";
import { checkTransaction, checkWrite } from "./conditional-write.ts";

/** Kinds of calls: `read` reads items or lists buckets. */
export type LineCall = "write" | "transact" | "read";

/**
 * What goes wrong with a call.
 * - `refused`: nothing was written, and the answer says so.
 * - `lostBefore`: nothing was written, but the caller cannot know.
 * - `lostAfter`: it reached the table, and the answer was lost.
 * - `late`: the answer is `unknown` at once, and then the write reaches the table.
 *
 * A read has no answer for any of them: it throws.
 */
export type LineFault = "refused" | "lostBefore" | "lostAfter" | "late";

/** Also: the answer did not come within the time of the call. It may come later. */
export type LineMishap = LineFault | "timedOut";

/** How a line behaves. */
export interface LineOptions {
  /** Awaited at each stage of a call. Other calls can run meanwhile. Default: calls are answered without a promise. */
  readonly pause?: (call: LineCall, before: "applying" | "answering" | "landing late") => Promise<void>;
  /** The source of chance on this line. Default: another source that follows from that of the table. */
  readonly random?: SeededRandom;
  /** How likely a fault is for each kind of call, from 0 to 1. Default: only faults that `failNext` orders. */
  readonly rates?: Partial<Record<LineCall, number>>;
  /**
   * How likely a transaction is refused because of another one, from 0 to 1; and a write, while a transaction on its
   * item waits. Default: 0.
   */
  readonly conflicts?: number;
  /** Called with every fault. Default: nothing is called. */
  readonly onFault?: (call: LineCall, fault: LineMishap) => void;
  /** The client's own clocks, read before a call is sent. Default: those of the table. */
  readonly stamp?: () => Stamp;
  /** Whether a call that lands late is answered after all. Default: `false`, the answer is lost. */
  readonly answersLate?: boolean;
  /**
   * Lets time pass. With it, and a `pause`, a call without an answer within its `timeoutMs` is answered as lost, and
   * its answer comes late. Default: a call takes as long as it takes.
   */
  readonly sleep?: (ms: number, signal: AbortSignal) => Promise<void>;
  /**
   * Called with the store's time for every call that it answered, before the caller has the answer. Default: nothing
   * is called.
   */
  readonly onDate?: (seen: DateSeen) => void;
}

/** What the `Date` of an answer said, in ms, and when the client sent the call, by its own clocks. */
export interface DateSeen {
  readonly dateMs: number;
  readonly sent: Stamp;
}

/** What a line leads to: the items of one namespace. Everything is decided at once. */
export interface LineEnd {
  now(): number;
  dateMs(): number;
  write(write: ItemWrite, conflicts: () => boolean): ItemAnswer;
  transact(
    writes: readonly ItemWrite[],
    options: { readonly token: string; readonly event: AuditEvent | undefined },
    conflicts: () => boolean,
  ): TransactionAnswer;
  read(keys: readonly ItemKey[], consistent: boolean): readonly (Item | undefined)[];
  listKeys(owner: BucketOwner, page: PageRequest): Page<BucketKey>;
  listBuckets(resource: string, page: PageRequest): Page<BucketKey>;
  /** A transaction on these items is under way until the function is called that this returns. */
  begin(writes: readonly ItemWrite[]): () => void;
}

/**
 * One client's line to a `ConditionalTable`. By seed, or when told with `failNext`, calls fail on their way there or back;
 * `crash` stops the client between two calls.
 */
export class ConditionalLine implements ItemStore {
  readonly #end: LineEnd;
  readonly #options: LineOptions;
  readonly #random: SeededRandom;
  readonly #conflicts: () => boolean;
  readonly #ordered: Order[] = [];
  /** Transactions that wait to be applied, as functions that end them. */
  readonly #underWay = new Set<() => void>();
  /** On the wire, where there is no pause to wait for: they land after the next call. */
  readonly #late: (() => void)[] = [];
  #crashed = false;

  constructor(end: LineEnd, options: LineOptions, random: SeededRandom) {
    this.#end = end;
    this.#options = options;
    this.#random = random;
    const { conflicts = 0 } = options;
    this.#conflicts = () => conflicts > 0 && random.chance(conflicts);
  }

  /** The next call of this kind fails in this way, after `passing` others of the kind came through. */
  failNext(call: LineCall, fault: LineFault, passing = 0): void {
    this.#ordered.push({ call, fault, passing });
  }

  /**
   * The client is gone: none of its further calls reaches the table, none of its open ones is answered. What is late has
   * left it already, and still lands.
   */
  crash(): void {
    this.#crashed = true;
    for (const end of this.#underWay) end();
    this.#underWay.clear();
  }

  write(write: ItemWrite, { timeoutMs }: ItemCall): MaybePromise<ItemAnswer> {
    checkWrite(write);
    return this.#send<ItemAnswer>({
      call: "write",
      timeoutMs,
      transaction: undefined,
      apply: () => this.#end.write(write, this.#conflicts),
      fail: (undecided, later) =>
        later === undefined || undecided.kind !== "unknown" ? undecided : { ...undecided, later },
    });
  }

  transact(
    writes: readonly ItemWrite[],
    options: { readonly token: string; readonly event: AuditEvent | undefined },
    { timeoutMs }: ItemCall,
  ): MaybePromise<TransactionAnswer> {
    checkTransaction(writes, options);
    return this.#send<TransactionAnswer>({
      call: "transact",
      timeoutMs,
      transaction: writes,
      apply: () => this.#end.transact(writes, options, this.#conflicts),
      fail: (undecided) => undecided,
    });
  }

  read(
    keys: readonly ItemKey[],
    { consistent }: { readonly consistent: boolean },
    { timeoutMs }: ItemCall,
  ): MaybePromise<readonly (Item | undefined)[]> {
    return this.#look(() => this.#end.read(keys, consistent), timeoutMs);
  }

  listKeys(owner: BucketOwner, page: PageRequest): MaybePromise<Page<BucketKey>> {
    return this.#look(() => this.#end.listKeys(owner, page), Number.POSITIVE_INFINITY);
  }

  listBuckets(resource: string, page: PageRequest): MaybePromise<Page<BucketKey>> {
    return this.#look(() => this.#end.listBuckets(resource, page), Number.POSITIVE_INFINITY);
  }

  #look<Reply>(apply: () => Reply, timeoutMs: number): MaybePromise<Reply> {
    return this.#send({
      call: "read",
      timeoutMs,
      transaction: undefined,
      apply,
      fail: ({ cause }) => {
        throw new RateLimiterUnavailable("The store did not answer (read).", { cause });
      },
    });
  }

  #send<Reply>(sent: Sent<Reply>): MaybePromise<Reply> {
    const { pause } = this.#options;
    if (pause !== undefined) return this.#crashed ? never() : this.#inTime(sent, this.#paused(sent, pause));
    if (this.#late.length === 0) return this.#crashed ? never() : this.#atOnce(sent);
    // Only what was on the wire before this call: it may be late itself.
    const due = this.#late.splice(0);
    try {
      return this.#crashed ? never() : this.#atOnce(sent);
    } finally {
      for (const land of due) land();
    }
  }

  #atOnce<Reply>(sent: Sent<Reply>): Reply {
    const sentAt = this.#stamp();
    const fault = this.#drawn(sent.call);
    if (fault === "late") {
      this.#late.push(() => sent.apply());
      return sent.fail(unknown(sent.call, fault), undefined);
    }
    return this.#received(this.#outcome(sent, fault), sentAt);
  }

  /** The reply within the time of the call; or that it is not known, and the reply later. */
  #inTime<Reply>(sent: Sent<Reply>, reply: Promise<Reply>): Promise<Reply> {
    const { sleep } = this.#options;
    const { call, timeoutMs } = sent;
    if (sleep === undefined || timeoutMs === Number.POSITIVE_INFINITY) return reply;
    const answered = new AbortController();
    const inVain = sleep(timeoutMs, answered.signal).then(
      () => {
        if (this.#crashed) return never();
        // Of a read that failed too late nobody wants to know.
        reply.catch(() => {});
        this.#options.onFault?.(call, "timedOut");
        return sent.fail(unknown(call, "timedOut"), reply);
      },
      () => reply,
    );
    return Promise.race([reply, inVain]).finally(() => answered.abort());
  }

  async #paused<Reply>(sent: Sent<Reply>, pause: NonNullable<LineOptions["pause"]>): Promise<Reply> {
    const sentAt = this.#stamp();
    await this.#applying(sent, pause);
    // Dead before it was sent.
    if (this.#crashed) return never();
    const fault = this.#drawn(sent.call);
    if (fault === "late") {
      // An error of ours in it ends the process where nothing awaits it: that is loud enough.
      const landed = pause(sent.call, "landing late").then(() => sent.apply());
      return sent.fail(unknown(sent.call, fault), this.#options.answersLate ? landed : undefined);
    }
    const outcome = this.#outcome(sent, fault);
    await pause(sent.call, "answering");
    if (this.#crashed) return never();
    return this.#received(outcome, sentAt);
  }

  async #applying<Reply>({ call, transaction }: Sent<Reply>, pause: NonNullable<LineOptions["pause"]>): Promise<void> {
    if (transaction === undefined) return pause(call, "applying");
    const end = this.#end.begin(transaction);
    this.#underWay.add(end);
    try {
      await pause(call, "applying");
    } finally {
      // A crash has ended it before.
      if (this.#underWay.delete(end)) end();
    }
  }

  #outcome<Reply>(sent: Sent<Reply>, fault: Exclude<LineFault, "late"> | undefined): Outcome<Reply> {
    switch (fault) {
      case undefined: {
        const dateMs = this.#end.dateMs();
        const reply = sent.apply();
        return { dateMs, tell: () => reply };
      }
      case "refused": {
        const why = this.#random.pick(["throttled", "unreachable"] as const);
        const refused: Undecided = { kind: "refused", why, cause: simulated(sent.call, fault) };
        // What was not reached has no date to tell.
        return {
          dateMs: why === "throttled" ? this.#end.dateMs() : undefined,
          tell: () => sent.fail(refused, undefined),
        };
      }
      case "lostAfter":
        sent.apply();
        return { dateMs: undefined, tell: () => sent.fail(unknown(sent.call, fault), undefined) };
      case "lostBefore":
        return { dateMs: undefined, tell: () => sent.fail(unknown(sent.call, fault), undefined) };
    }
  }

  #received<Reply>({ dateMs, tell }: Outcome<Reply>, sent: Stamp): Reply {
    if (dateMs !== undefined) this.#options.onDate?.({ dateMs, sent });
    return tell();
  }

  #stamp(): Stamp {
    const nowMs = this.#end.now();
    return this.#options.stamp?.() ?? { localMs: nowMs, steadyMs: nowMs };
  }

  #drawn(call: LineCall): LineFault | undefined {
    const fault = this.#orderedFor(call) ?? this.#chosen(call);
    if (fault !== undefined) this.#options.onFault?.(call, fault);
    return fault;
  }

  #orderedFor(call: LineCall): LineFault | undefined {
    if (this.#ordered.length === 0) return undefined;
    const index = this.#ordered.findIndex((order) => order.call === call);
    const order = this.#ordered[index];
    if (order === undefined || order.passing-- > 0) return undefined;
    this.#ordered.splice(index, 1);
    return order.fault;
  }

  #chosen(call: LineCall): LineFault | undefined {
    const rate = this.#options.rates?.[call] ?? 0;
    if (rate === 0 || !this.#random.chance(rate)) return undefined;
    return this.#random.pick(["refused", "lostBefore", "lostAfter", "late"]);
  }
}

interface Order {
  readonly call: LineCall;
  readonly fault: LineFault;
  passing: number;
}

interface Sent<Reply> {
  readonly call: LineCall;
  readonly timeoutMs: number;
  /** The writes of a transaction, which stands in the way of others until it is applied. */
  readonly transaction: readonly ItemWrite[] | undefined;
  apply(): Reply;
  /** `later`: the reply that comes after all. */
  fail(undecided: Undecided, later: Promise<Reply> | undefined): Reply;
}

/** The outcome of a call, kept until its answer is due. */
interface Outcome<Reply> {
  /** The date of the store's answer; undefined where none came. */
  readonly dateMs: number | undefined;
  tell(): Reply;
}

function unknown(call: LineCall, fault: LineMishap): Undecided {
  return { kind: "unknown", cause: simulated(call, fault) };
}

function simulated(call: LineCall, fault: LineMishap): Error {
  return new Error(`simulated fault: ${call} ${fault}`);
}

/** The answer to a client that is gone. A new one each time: what waits for it can be forgotten with it. */
function never(): Promise<never> {
  return new Promise(() => {});
}
