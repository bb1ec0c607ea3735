import { Limit } from "../../src/entry/index.ts";
import { afterNoon, entityId, type FormGroup, resource } from "./writes-scenes.ts";
import { MINUTE_MS, SECOND_MS, take } from "./writes-stage.ts";

const parallel = Limit.concurrent("parallel", 10, { holdMs: MINUTE_MS });

const REASONS: readonly (readonly [RegExp, string])[] = [
  [/^b_.+_h\d >= /, "the slots that leave the slice are still held in it"],
  [/^b_.+_h\d = /, "what the slice held that has ended, as it was seen: so much becomes free"],
  [/^b_.+_e\d = /, "the slice of the ticket, by its end: a later one may have its place"],
  [/^b_.+_rn = /, "the bucket has not begun anew since: its slots are still those of the take"],
  [/^SET b_.+_e\d = /, "the slice that is opened: when it ends"],
  [/^SET b_.+_h\d = /, "what is held in it"],
  [/^ADD b_.+_h\d -/, "they are held there no more"],
  [/^ADD b_.+_h\d /, "they are held until the slice ends"],
  [/^REMOVE b_.+_[eh]\d/, "it has ended"],
  [/^SET b_.+_rn = /, "another beginning: tickets of before find nothing of theirs"],
  [/^ADD b_.+_hu /, "usage: how long slots were held"],
];

const TAKEN: readonly (readonly [RegExp, string])[] = [
  [/_tk >= /, "enough slots are free. There is no brim: free slots never stand above the capacity"],
  [/^ADD b_.+_tk -/, "they are free no more"],
  [/^ADD b_.+_tk /, "what the ended slice held is free, less what is taken"],
];

export const SLOTS: FormGroup = {
  title: "At most N at once",
  forms: [
    {
      title: "Take of slots",
      when: "A request on a limit with a hold. The slice of its end is open.",
      story:
        "2 of 10 slots were taken at 12:00:00, for a minute: their slice ends at 12:01:00. At 12:00:00 ada takes 1 more.",
      play: () => afterNoon(parallel, 2, 0, ({ limiter }) => take(limiter, { parallel: 1 })),
      why: [...REASONS, ...TAKEN],
    },
    {
      title: "Take of slots that opens a slice",
      when: "The first request of a quarter of the hold: a rebase.",
      story: "2 of 10 slots were taken at 12:00:00. At 12:00:05 ada takes 1; it is held until 12:01:15.",
      play: () => afterNoon(parallel, 2, 5 * SECOND_MS, ({ limiter }) => take(limiter, { parallel: 1 })),
      why: [...REASONS, ...TAKEN],
    },
    {
      title: "Take of slots where a slice has ended",
      when: "The first request after holders have died, or have forgotten to give back.",
      story: "2 of 10 slots were taken at 12:00:00, and not given back. At 12:01:05 ada takes 1.",
      play: () => afterNoon(parallel, 2, 65 * SECOND_MS, ({ limiter }) => take(limiter, { parallel: 1 })),
      why: [...REASONS, ...TAKEN],
    },
    {
      title: "Slots given back",
      when: "A lease that ends. Rates are kept, so there is nothing else to write; no epoch matters, and no boundary.",
      story: "2 of 10 slots were taken at 12:00:00. At 12:00:05 the lease is settled.",
      play: () => afterNoon(parallel, 2, 5 * SECOND_MS, ({ lease }) => lease.settle()),
      why: [...REASONS, [/^ADD b_.+_tk /, "they are free again"]],
    },
    {
      title: "Renewal",
      when: "A lease that goes on: its slots move to a slice that ends later.",
      story: "2 of 10 slots were taken at 12:00:00. At 12:00:20 the lease is renewed, until 12:01:30.",
      play: () => afterNoon(parallel, 2, 20 * SECOND_MS, ({ lease }) => lease.renew()),
      why: REASONS,
    },
    {
      title: "Reset of slots",
      when: "An operator forgets all holds of a limit, by its name.",
      story: "2 of 10 slots were taken at 12:00:00. At 12:00:05 the limit is reset.",
      play: () =>
        afterNoon(parallel, 2, 5 * SECOND_MS, ({ limiter }) =>
          limiter.resetBucket({ entityId, resource, limits: ["parallel"], idempotencyKey: "reset-1" }),
        ),
      why: [...REASONS, [/^ADD b_.+_tk /, "all slots are free"]],
    },
  ],
};
