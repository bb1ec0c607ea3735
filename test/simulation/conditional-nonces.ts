import type { Item, ItemKey, WriteTrace } from "../../src/ports/item-store.ts";
import { type Part, slotWritten } from "./conditional-item-rules.ts";
import type { Process } from "./conditional-process.ts";
import type { Journal } from "./journal.ts";

/** One sending of a write: when it was sent, and when its answer was lost, in the order of such happenings. */
interface Sending {
  readonly sentAt: number;
  lostAt: number;
}

const UNSEEN: Sending = { sentAt: Number.NEGATIVE_INFINITY, lostAt: Number.POSITIVE_INFINITY };

/**
 * A write that was lost is known by its nonce. Where another process has written its own there in the meantime, the same
 * write may land twice: then it was paid for twice, and nobody can know. By writes of its own no process forgets that: it sends
 * another one to an item only when it has an answer, or has given up. What it gave up, and is still on its way, may land after that.
 */
export class Nonces {
  readonly #journal: Journal;
  readonly #sendings = new WeakMap<WriteTrace, Sending>();
  /** Who wrote each nonce, with which sending. */
  readonly #writers = new Map<unknown, { readonly process: Process; readonly sending: Sending }>();
  /** The sending of each nonce that landed first, by shard. */
  readonly #landed = new Map<string, Sending>();
  #happenings = 0;

  constructor(journal: Journal) {
    this.#journal = journal;
  }

  sent(trace: WriteTrace): void {
    this.#sendings.set(trace, { sentAt: ++this.#happenings, lostAt: Number.POSITIVE_INFINITY });
  }

  lost(trace: WriteTrace): void {
    const sending = this.#sendings.get(trace);
    if (sending !== undefined) sending.lostAt = ++this.#happenings;
  }

  /** What is wrong with the nonce of a write that takes or debits. */
  problems(
    key: ItemKey,
    { trace, parts }: { readonly trace: WriteTrace; readonly parts: readonly Part[] },
    before: Item | undefined,
    after: Item,
  ): string[] {
    // A write for nobody only closes an hour or brings limits: the epoch that it moves on is enough to know it by.
    const isForNobody = parts.every(({ amounts, passed = [] }) => amounts.length + passed.length === 0);
    if (isForNobody || parts.some(({ kind }) => kind === "credit")) return [];
    const slot = slotWritten(before, after);
    if (slot === undefined) return ["it was written with a nonce that was there already"];
    const asked = parts.flatMap((part) => part.asked ?? []);
    const [first] = asked;
    if (first === undefined) return [];
    const { process } = first;
    const sending = this.#sendings.get(trace) ?? UNSEEN;
    const over = this.#writers.get(before?.[slot]);
    this.#writers.set(after[slot], { process, sending });
    const signature = `${key.bucket.id}#${key.shard} ${after[slot]}`;
    const landed = this.#landed.get(signature);
    this.#landed.set(signature, landed ?? sending);
    if (landed === undefined) return [];
    this.#journal.count("paid twice");
    for (const { operation } of asked) operation?.uncertain.add(key.bucket.id);
    if (over?.process !== process) return [];
    const hadGivenUpThis = sending.lostAt < over.sending.sentAt;
    const hadGivenUpOther = over.sending.lostAt < landed.sentAt;
    return hadGivenUpThis || hadGivenUpOther
      ? []
      : [`${process.id} paid twice, and wrote over its own nonce in between`];
  }
}
