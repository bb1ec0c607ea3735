import type { BucketKey } from "../../src/domain/bucket/bucket-key.ts";
import type { Ticket } from "../../src/domain/bucket/give-back.ts";
import type { Amount } from "../../src/domain/charge/amounts.ts";
import type { Claim, Held } from "../../src/ports/bucket-store.ts";
import type { ModelBucket } from "../kit/model-bucket.ts";
import { shadowProblems, takenOf } from "../kit/model-shadow.ts";
import type { StoredBucket } from "../kit/model-stored.ts";
import type { Journal } from "./journal.ts";
import { kindIn } from "./model-questions.ts";
import { type Operation, shownKey } from "./operation.ts";
import { isShared } from "./shadow-checks.ts";

/** A take or a debit that was applied. */
export interface ShadowWrite {
  readonly kind: "take" | "debit";
  readonly held: Claim | Held;
  readonly asked: readonly Amount[];
  readonly nowMs: number;
  readonly operation: Operation | undefined;
}

/** What became of it, as far as it is known. */
interface ShadowAnswer {
  /** The bucket after it. */
  readonly state: StoredBucket;
  readonly shadowed?: readonly string[];
}

/** Judges what shadows make of takes: each holds what it would hold if it were hard, and names what it would have refused. */
export class ShadowWatch {
  readonly #journal: Journal;

  constructor(journal: Journal) {
    this.#journal = journal;
  }

  /** What is wrong with a write; empty when nothing is. `before`: the bucket by the model, with its limits, before anything is taken. */
  wrote(write: ShadowWrite, { state, shadowed = [] }: ShadowAnswer, before: ModelBucket): string[] {
    const { kind, held, asked, nowMs, operation } = write;
    const { bypass } = held;
    if (bypass || kind === "debit") {
      const problems = kind === "debit" && !bypass ? adjustedProblems(write) : [];
      return shadowed.length === 0 ? problems : [...problems, `${shadowed} passed by without being asked`];
    }
    for (const { limit, milli } of asked) {
      if (before.limit(limit)?.limit.shadow !== true || operation === undefined) continue;
      const what = shadowed.includes(limit) ? "passed by" : milli > 0 ? "taken from" : "asked for nothing of";
      this.#journal.count(`${what} shadows`);
      this.#journal.count(`${what} shadows of ${kindIn(before, limit)}`);
    }
    const { leavePercent = 0 } = held as Claim;
    return shadowProblems(before, state, { asked, shadowed, readingMs: nowMs, leavePercent });
  }

  /** Its caller is told of a take. */
  told(
    { bucket, take }: Claim,
    { shadowed, ticket }: { readonly shadowed: readonly string[]; readonly ticket: Ticket },
    operation: Operation | undefined,
  ): void {
    if (String(ticket.shadowed) !== String(shadowed)) {
      this.#found(bucket, `passed by ${shadowed}, and its ticket says ${ticket.shadowed}`);
    }
    const taken = takenOf(take, shadowed).map(({ limit }) => limit);
    operation?.passed.took(bucket.id, taken, shadowed, operation.lease !== undefined);
  }

  #found({ id }: BucketKey, problem: string): void {
    this.#journal.violation(`${shownKey(id)}: ${problem}`);
  }
}

/** What is adjusted of a lease leaves out what the lease passed by. */
function adjustedProblems({ held: { bucket }, asked, operation }: ShadowWrite): string[] {
  if (operation === undefined || isShared(operation, bucket.id)) return [];
  const odd = asked.filter(({ limit }) => operation.passed.first(bucket.id).includes(limit));
  return odd.map(({ limit, milli }) => `${milli} of ${limit} were charged to a lease that passed by it`);
}
