import { bucketKey } from "../../src/domain/bucket/bucket-key.ts";
import type { AuditEvent } from "../../src/domain/config/audit.ts";
import type { Clause, ItemKey, ItemValue, ItemWrite } from "../../src/ports/item-store.ts";
import { fc } from "../properties.ts";

export type Step =
  | { readonly kind: "write"; readonly write: ItemWrite }
  | {
      readonly kind: "transact";
      readonly writes: readonly ItemWrite[];
      readonly token: string;
      readonly event: AuditEvent | undefined;
    };

// Few items and few names, so that writes meet; names that need a placeholder, and one that every object has.
const KEYS: readonly ItemKey[] = [
  { bucket: bucketKey("a", "api"), shard: 0 },
  { bucket: bucketKey("a", "api"), shard: 1 },
  { bucket: bucketKey("a:b@c", "gpt-4/v1.5"), shard: 0 },
  { bucket: bucketKey("a", "api"), shard: 1, sheet: "2026-03-15" },
];
const NUMBERS = ["rf", "b_x.y-z_tk", "b_x.y-z_tc"];
const NAMES = [...NUMBERS, "n0", "size", "toString", "ttl"];
/** Never added to: what is read of it must be exact. */
const LARGE = "vu";

const small = fc.integer({ min: -3, max: 3 });
const text = fc.constantFrom("", "a", "b", "ba", "2", '"\\\n', "\u{1F600}", "\uFFEE", "N");
const value: fc.Arbitrary<ItemValue> = fc.oneof(
  { weight: 6, arbitrary: small },
  { weight: 2, arbitrary: text },
  { weight: 1, arbitrary: fc.boolean() },
);
const large = fc.constantFrom(0, 1, -(2 ** 53 - 1), 2 ** 53 - 1, 2 ** 53 - 2, 1_794_729_582_390);

/** A value that belongs to a name, mostly. */
function valuesFor(name: string): fc.Arbitrary<ItemValue> {
  if (name === LARGE) return large;
  return NUMBERS.includes(name) ? fc.oneof({ weight: 5, arbitrary: small }, { weight: 1, arbitrary: value }) : value;
}

const named = fc.constantFrom(...NAMES, LARGE).chain((name) => valuesFor(name).map((given) => [name, given] as const));
const values = fc.array(named, { maxLength: 4 }).map((pairs): Record<string, ItemValue> => Object.fromEntries(pairs));

const presence = fc.record({
  name: fc.constantFrom(...NAMES),
  is: fc.constantFrom("present" as const, "absent" as const),
});
const comparison = fc
  .tuple(named, fc.constantFrom("=" as const, "<>" as const, "<" as const, "<=" as const, ">" as const, ">=" as const))
  // Truth has no order.
  .map(([[name, given], is]) => ({
    name,
    is: typeof given === "boolean" && is !== "=" ? ("<>" as const) : is,
    value: given,
  }));
const clause: fc.Arbitrary<Clause> = fc.array(fc.oneof({ weight: 3, arbitrary: comparison }, presence), {
  minLength: 1,
  maxLength: 3,
});

const shardWrite: fc.Arbitrary<ItemWrite> = fc
  .record({
    key: fc.constantFrom(...KEYS),
    kind: fc.constantFrom(
      "update" as const,
      "update" as const,
      "update" as const,
      "put" as const,
      "delete" as const,
      "check" as const,
    ),
    item: fc.constantFrom("exists" as const, "either" as const, "either" as const, "missing" as const),
    when: fc.oneof(
      { weight: 2, arbitrary: fc.constant([]) },
      { weight: 3, arbitrary: fc.array(clause, { maxLength: 3 }) },
    ),
    set: values,
    add: fc.dictionary(fc.constantFrom(...NUMBERS), small, { maxKeys: 2 }),
    remove: fc.subarray([...NAMES], { maxLength: 2 }),
    copy: fc.dictionary(fc.constantFrom("up", "b_x.y-z_tp"), fc.constantFrom(...NAMES), { maxKeys: 2 }),
  })
  .map(({ key, kind, item, when, set, add, remove, copy }) => {
    const isUpdate = kind === "update";
    const own = isUpdate || kind === "put" ? set : {};
    const added = isUpdate
      ? Object.fromEntries(Object.entries(add).filter(([name]) => !(name in own && Object.hasOwn(own, name))))
      : {};
    const removed = isUpdate ? remove.filter((name) => !Object.hasOwn(own, name) && !Object.hasOwn(added, name)) : [];
    const copied = isUpdate && Object.keys(copy).length > 0 ? { copy } : {};
    return { key, kind, item, when, set: own, add: added, remove: removed, ...copied, trace: undefined };
  });

/** As purchases and resets are recorded; a part of a token and any order of limits too. */
const record: fc.Arbitrary<ItemWrite> = fc
  .record({
    operation: fc.constantFrom("order-1", "Bestellung/ü 2"),
    kind: fc.constantFrom("put" as const, "put" as const, "delete" as const, "check" as const),
    item: fc.constantFrom("either" as const, "missing" as const),
    writer: fc.integer({ min: 0, max: 2 ** 53 - 1 }),
    amounts: fc.uniqueArray(
      fc.record({ limit: fc.constantFrom("rpm", "tpm", "x.y-z"), milli: fc.constantFrom(0, 1000, 5_000_000, 1500, 1) }),
      { selector: ({ limit }) => limit },
    ),
    ttl: fc.nat(3),
  })
  .map(({ operation, kind, item, writer, amounts, ttl }) => ({
    key: { bucket: bucketKey("a", "api"), shard: 0, operation },
    kind,
    item,
    when: [
      [
        { name: "ttl", is: "absent" as const },
        { name: "ttl", is: "<=" as const, value: 1 },
      ],
    ],
    set: kind === "put" ? { writer, amounts: JSON.stringify(amounts), ttl } : {},
    add: {},
    remove: [],
    trace: undefined,
  }));

const anyWrite = fc.oneof({ weight: 9, arbitrary: shardWrite }, { weight: 1, arbitrary: record });

const event: fc.Arbitrary<AuditEvent> = fc.nat(99).map((n) => ({
  eventId: `event-${n}`,
  atMs: 1_794_729_582_390 + n,
  action: "bucket_topped_up",
  entityId: "a",
  details: { amounts: { rpm: n }, list: [1, null, 0.5, "ü", true], nothing: {} },
  ...(n % 2 === 0 ? { principal: "someone", resource: "api" } : {}),
}));

const transaction = fc
  .record({
    writes: fc.uniqueArray(anyWrite, { minLength: 1, maxLength: 4, selector: ({ key }) => JSON.stringify(key) }),
    token: fc.constantFrom("1", "2", "3", "4"),
    event: fc.option(event, { nil: undefined, freq: 4 }),
  })
  .map((told): Step => ({ kind: "transact", ...told }));

const step = fc.oneof(
  { weight: 7, arbitrary: anyWrite.map((write): Step => ({ kind: "write", write })) },
  { weight: 3, arbitrary: transaction },
);

/** Writes and transactions; some of these are told again, later, word for word. */
export const stories: fc.Arbitrary<readonly Step[]> = fc
  .array(fc.tuple(step, fc.option(fc.nat(3), { nil: undefined, freq: 5 })), { minLength: 2, maxLength: 8 })
  .map((pairs) =>
    pairs.flatMap(([told, again], i) => {
      const earlier = pairs.slice(0, i).flatMap(([each]) => (each.kind === "transact" ? [each] : []));
      const repeated = again === undefined ? undefined : earlier[again];
      return repeated === undefined ? [told] : [told, repeated];
    }),
  );
