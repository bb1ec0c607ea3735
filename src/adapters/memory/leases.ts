import type { CallContext } from "../../ports/bucket-store.ts";
import type { AppliedWrite, ChangeReply, Charged, LeaseChange } from "../../ports/lease-change.ts";
import type { LeaseStore } from "../../ports/lease-store.ts";
import { onChange } from "../../stored/lease-rules.ts";
import type { MemoryBuckets } from "./buckets.ts";
import type { MemoryData } from "./data.ts";
import { LeaseRecords } from "./lease-records.ts";

/** Leases in memory. A change of one moves its tokens and its record in one call, which nothing comes between. */
export class MemoryLeases extends LeaseRecords implements LeaseStore {
  readonly isWrittenByTake = true;
  readonly #buckets: MemoryBuckets;

  constructor(all: MemoryData, namespaceId: string, buckets: MemoryBuckets) {
    super(all, namespaceId);
    this.#buckets = buckets;
  }

  change(change: LeaseChange, { nowMs }: CallContext): ChangeReply {
    const { key, moves } = change;
    const reply = onChange(this.get(change.leaseId), change, () => this.isOurs(key));
    if (reply !== "write") return reply;
    const write = (charged: Charged) => {
      const { record, finish } = change.writeOf(charged);
      this.move(record, finish, nowMs);
    };
    if (moves.kind === "take") {
      const answers = this.#buckets.takeAll(moves.claims, "lease", nowMs, (taken) => write({ kind: "take", taken }));
      if (answers.some(({ kind }) => kind !== "taken")) return { kind: "short", answers };
      return { kind: "stored", credited: [] };
    }
    const draft = this.#buckets.draftAt(nowMs);
    if (moves.kind === "renew") {
      const renewed = moves.renewals.map(({ held, amounts }) => draft.renew(held, amounts));
      const renewal = moves.renewals.find(({ isOptional }, i) => !isOptional && renewed[i]?.kind === "lost");
      if (renewal !== undefined) return { kind: "lost", renewal };
      write({ kind: "renew", renewed });
      draft.commit();
      return { kind: "stored", credited: [] };
    }
    const debited: AppliedWrite[] = [];
    for (const debit of moves.debits) {
      const reply = draft.debit(debit.held, debit.amounts);
      if (reply.kind === "tooDeep") return { kind: "tooDeep", debit };
      debited.push(reply);
    }
    const credited = moves.credits.map((credit) => draft.credit(credit.held, credit.amounts, credit));
    write({ kind: "difference", debited });
    draft.commit();
    return { kind: "stored", credited };
  }
}
