import type { LimitState } from "../../src/domain/bucket/bucket-state.ts";
import { markIn, markText, periodOf } from "../../src/domain/bucket/mark-keeper.ts";
import type { Crossed } from "../../src/domain/limits/thresholds.ts";
import type { TakeReply } from "../../src/ports/bucket-store.ts";
import type { Item, ItemKey, ItemStore, ItemWrite } from "../../src/ports/item-store.ts";
import { readableImage } from "../../src/protocol/item/codec.ts";
import { OWN } from "../../src/protocol/item/dialect.ts";
import { UndecidedTakes } from "../../src/protocol/marks/mark.ts";
import { calendar } from "./calendar.ts";
import { without } from "./code-mutants.ts";
import { inBuckets, type Mutant } from "./mutants.ts";
import { atOnce, overriding } from "./port.ts";

const TOLD_TWICE = /was told \d+ times, and reached \d+ times/;
const NOT_TOLD = /was reached \d+ times, and told \d+ times/;
const MARK = /^b_(.+)_th$/;

/** Deliberate bugs about what is told of limits. */
export const THRESHOLD_MUTANTS: Readonly<Record<string, Mutant>> = {
  "a threshold that is told twice": {
    layer: "store",
    caughtAs: TOLD_TWICE,
    spoil: telling((tell, crossed) => {
      tell(crossed);
      tell(crossed);
    }),
  },
  "a threshold that nobody is told of": {
    layer: "store",
    caughtAs: NOT_TOLD,
    spoil: telling((tell, crossed) => {
      if (crossed.percent !== 50) tell(crossed);
    }),
  },
  "a take that leaves no mark": {
    layer: "store",
    caughtAs: /are used, and not marked/,
    spoil: inBuckets((buckets) => ({
      take: (claims, context) => withoutMarks(atOnce(buckets.take(claims, context))),
    })),
  },
};

/** The same where a mark is a write beside the take. */
export const MARK_MUTANTS: Readonly<Record<string, Mutant>> = {
  "marks without the period": {
    layer: "items",
    caughtAs: NOT_TOLD,
    spoil: (items) =>
      overriding(items, {
        write: async (write, call) => {
          const sent = isMark(write) ? { ...write, when: clausesWithout(write, MARK) } : write;
          const answer = await items.write(sent, call);
          if (!("item" in answer) || answer.item === undefined) return answer;
          return { ...answer, item: asOfNow(write.key, answer.item) };
        },
        read: async (keys, options, call) =>
          (await items.read(keys, options, call)).map((item, i) => item && asOfNow(keys[i] as ItemKey, item)),
      }),
  },
  "a threshold that is told before the request is decided": {
    layer: "code",
    caughtAs: TOLD_TWICE,
    spoil: () => {
      const { look } = UndecidedTakes.prototype;
      return without(
        UndecidedTakes.prototype,
        "look",
        function (this: UndecidedTakes, ...take: Parameters<typeof look>) {
          look.apply(this, take);
          this.decided();
        },
      );
    },
  },
  "marks without as seen": {
    layer: "items",
    caughtAs: TOLD_TWICE,
    spoil: (items: ItemStore) =>
      overriding(items, {
        write: (write, call) => items.write(isMark(write) ? { ...write, when: [] } : write, call),
      }),
  },
};

/** Whoever listens for thresholds hears another thing. */
function telling(spoiled: (tell: (crossed: Crossed) => void, crossed: Crossed) => void) {
  return inBuckets((buckets) => ({
    watchThresholds: (listener) => buckets.watchThresholds?.((crossed) => spoiled(listener, crossed)) ?? (() => {}),
  }));
}

function withoutMarks(reply: TakeReply): TakeReply {
  if (reply === "stale") return reply;
  return reply.map((answer) => {
    if (answer.kind !== "taken") return answer;
    const limits = answer.state.limits.map(({ told: _, ...held }): LimitState => held);
    return { ...answer, state: { ...answer.state, limits } };
  });
}

function isMark({ set }: ItemWrite): boolean {
  return Object.keys(set).some((name) => MARK.test(name));
}

function clausesWithout({ when }: ItemWrite, name: RegExp): ItemWrite["when"] {
  return when.filter((clause) => !clause.some((test) => name.test(test.name)));
}

/** The item as if every mark were one of the period that the item is in. */
function asOfNow(key: ItemKey, item: Item): Item {
  if (!Object.keys(item).some((name) => MARK.test(name))) return item;
  const { state } = readableImage(key, item, { calendar, dialect: OWN, like: undefined, set: undefined });
  const marks = state.limits.flatMap((held) => {
    const name = `b_${held.name}_th`;
    const mark = markIn(item[name]);
    if (mark === undefined) return [];
    return [[name, markText({ percent: mark.percent, period: periodOf(held, state.epochMs, calendar) })] as const];
  });
  return { ...item, ...Object.fromEntries(marks) };
}
