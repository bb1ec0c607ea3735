import type { BucketState } from "../domain/bucket/bucket-state.ts";
import { ItemUnreadable } from "../domain/bucket/item-unreadable.ts";
import type { CronCheck } from "../domain/limits/calendar.ts";
import type { DraftedLease } from "../ports/batch-store.ts";
import type { LeaseForm } from "../ports/lease-form.ts";
import type { LeaseWrite } from "../ports/lease-write.ts";
import { LEVEL_DAMAGE } from "../stored/row-damage.ts";
import { recordOf, shadowedAt, withLevels } from "./row-codec.ts";
import { formFrom } from "./row-form.ts";

/** What a take has written down of a draft stands for this record, and this answer. */
export function draftedWrite(
  { buckets, nowMs, ...draft }: DraftedLease,
  form: LeaseForm,
  calendar: CronCheck,
): LeaseWrite {
  const foundBy = (id: string) => buckets.find(({ key }) => key.id === id) as DraftedLease["buckets"][number];
  const stateOf = (id: string): BucketState => {
    const { key, row, levels } = foundBy(id);
    const form = formFrom(row.limitsText ?? "", calendar);
    const record = form && recordOf(form, row, undefined);
    if (record === undefined) {
      throw new ItemUnreadable({ bucket: key, shard: 0 }, { ...LEVEL_DAMAGE, value: row.tokensMilli });
    }
    return withLevels(record, levels.tokensMilli, levels.windows, levels.validUntilMs);
  };
  const shadowedOf = (id: string) => shadowedAt(stateOf(id), foundBy(id).levels);
  return form.writeOf(draft, { nowMs, stateOf, shadowedOf });
}
