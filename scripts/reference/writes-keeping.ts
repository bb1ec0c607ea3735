import {
  afterNoon,
  day,
  entityId,
  type FormGroup,
  inShards,
  KEPT_FOR_EVER,
  onSharedTable,
  resource,
  rpm,
} from "./writes-scenes.ts";
import { BUCKET, HOUR_MS, MINUTE_MS, SECOND_MS, type Sent, Stage, take } from "./writes-stage.ts";

export const SHARDS: FormGroup = {
  title: "Shards",
  forms: [
    {
      title: "Split",
      when: "An item gets near the writes that DynamoDB takes for one, or is throttled: each shard gives a new sibling a part.",
      story: "40 of 60 a minute were taken at 12:00:00. At 12:00:05 the bucket is split.",
      play: () =>
        afterNoon(rpm, 40, 5 * SECOND_MS, ({ buckets, stage }) => buckets.resize(BUCKET, "more", stage.clock.now())),
      why: [
        [/_tk >= -/, "no deeper in debt than a capacity below what was seen"],
        [/_tk >= /, "it still has what it gives: otherwise the sibling would spend what it owes"],
        [/_tk <= /, "it has room for what it keeps: nothing is cut off later"],
        [/^ADD b_rpm_tk /, "what drips in up to the new epoch, less the part of the sibling"],
      ],
    },
    {
      title: "Join",
      when: "The shards get few writes, or a session quota is configured: half of them go, and what they hold is added to the others.",
      story: "60 a minute in two shards of 13 each. At 12:00:06 they are joined.",
      play: () => inShards(({ buckets, stage }) => buckets.resize(BUCKET, 1, stage.clock.now())),
      why: [
        [/^ADD b_rpm_tk /, "what drips in up to the new epoch, and what the other shard holds by then"],
        [/^b_rpm_tk = /, "the tokens as they were seen: the other shard gets them"],
        [/^attribute_not_exists\(ttl\)/, KEPT_FOR_EVER],
      ],
    },
  ],
};

export const OPERATIONS: FormGroup = {
  title: "Operations",
  forms: [
    {
      title: "Top-up of a quota",
      when: "Tokens are bought. A transaction of all shards, the record that makes it happen once, and the audit event, which is not shown.",
      story: "400 of 1,000 a day were taken at 12:00:00. At 12:00:05 ada buys 500.",
      play: () =>
        afterNoon(day, 400, 5 * SECOND_MS, ({ limiter }) =>
          limiter.topUp({ entityId, resource, amounts: { day: 500 }, idempotencyKey: "order-7" }),
        ),
      why: [
        [/_tk < /, "the quota holds no more than its capacity: nothing is cut off"],
        [/^ADD b_day_tk /, "what was bought"],
      ],
    },
    {
      title: "Top-up of a limit that drips",
      when: "The same; the limit gains at most the room below its capacity.",
      story: "40 of 60 a minute were taken at 12:00:00. At 12:00:05 ada buys 10.",
      play: () =>
        afterNoon(rpm, 40, 5 * SECOND_MS, ({ limiter }) =>
          limiter.topUp({ entityId, resource, amounts: { rpm: 10 }, idempotencyKey: "order-7" }),
        ),
      why: [
        [/_tk < /, "the limit has room for all that is bought"],
        [/_tk = /, "how much room it has depends on what it holds"],
        [/^ADD b_rpm_tk /, "what drips in up to the new epoch, and what was bought"],
      ],
    },
    {
      title: "Top-up of a bucket that is not there",
      when: "The same before the first request: the bucket is made, and says that configuration has to be read. A change of access may have been announced before there was an item to announce it on.",
      story: "At 12:00:00 ada, who has taken nothing yet, buys 500 of a quota of 1,000 a day.",
      play: async () => {
        const stage = new Stage();
        const { limiter } = await stage.with(day);
        return stage.sentBy(() =>
          limiter.topUp({ entityId, resource, amounts: { day: 500 }, idempotencyKey: "order-7" }),
        );
      },
    },
    {
      title: "Reset",
      when: "An operator fills a bucket: the same transaction.",
      story: "400 of 1,000 a day were taken at 12:00:00. At 12:00:05 the bucket is reset.",
      play: () =>
        afterNoon(day, 400, 5 * SECOND_MS, ({ limiter }) =>
          limiter.resetBucket({ entityId, resource, idempotencyKey: "ticket-7" }),
        ),
      why: [
        [/^SET b_day_tk = /, "full, whatever it held"],
        [
          /^SET b_day_ru = /,
          "remembered until its period ends: forgotten, it would count its beginnings anew, and leases of before could give back",
        ],
      ],
    },
    {
      title: "Reset of an item that cannot be read",
      when: "The balance of an item is damaged: it is replaced by a full one, and what was counted stays.",
      story: "Another program has written text into the tokens. At 12:00:05 the bucket is reset.",
      play: () =>
        afterNoon(rpm, 40, 5 * SECOND_MS, async ({ line, limiter, buckets }) => {
          const key = { bucket: BUCKET, shard: 0 };
          const nothing = { when: [], add: {}, remove: [], trace: undefined };
          await line.write(
            { ...nothing, key, kind: "update", item: "exists", set: { b_rpm_tk: "many" } },
            { timeoutMs: 1_000 },
          );
          buckets.forget(BUCKET);
          await limiter.resetBucket({ entityId, resource, idempotencyKey: "ticket-7" });
        }),
    },
  ],
};

export const CONFIGURATION: FormGroup = {
  title: "Stamps of configuration",
  forms: [
    {
      title: "Switched off",
      when: '`setAccess(…, "disabled")`: every live bucket that it concerns, from the next request on.',
      story: "At 12:00:05 ada is switched off.",
      play: () => afterNoon(rpm, 40, 5 * SECOND_MS, ({ limiter }) => limiter.setAccess({ entityId }, "disabled")),
    },
    {
      title: "Let through",
      when: '`setAccess(…, "bypass")`.',
      story: "At 12:00:05 ada is let through.",
      play: () => afterNoon(rpm, 40, 5 * SECOND_MS, ({ limiter }) => limiter.setAccess({ entityId }, "bypass")),
    },
    {
      title: "Switched on again",
      when: '`setAccess(…, "enforce")` or `"inherit"`.',
      story: "Ada was switched off. At 12:00:05 ada is switched on.",
      play: () =>
        afterNoon(rpm, 40, 5 * SECOND_MS, async ({ limiter }) => {
          await limiter.setAccess({ entityId }, "disabled");
          await limiter.setAccess({ entityId }, "enforce");
        }).then((sent) => sent.slice(-1)),
    },
    {
      title: "Announcement",
      when: "A level above was switched, or the parent of an entity changed: the next request reads configuration again.",
      story: "At 12:00:05 ada gets a parent.",
      play: async () => {
        const stage = new Stage();
        const { limiter } = await stage.with(rpm);
        await limiter.createEntity({ id: "org" });
        await limiter.createEntity({ id: entityId });
        await take(limiter, { rpm: 40 });
        await stage.until(5 * SECOND_MS);
        return stage.sentBy(() => limiter.updateEntity(entityId, { parentId: "org" }));
      },
    },
    {
      title: "Take that removes a stamp",
      when: "The next request after a stamp, once it has read configuration: a rebase that removes the marks.",
      story:
        "40 of 60 a minute were taken at 12:00:00; ada was switched off, and on again at 12:00:05. At 12:00:06 ada takes 1.",
      play: () =>
        afterNoon(rpm, 40, 5 * SECOND_MS, async ({ limiter, stage }) => {
          await limiter.setAccess({ entityId }, "disabled");
          await limiter.setAccess({ entityId }, "enforce");
          await stage.until(6 * SECOND_MS);
          await take(limiter, { rpm: 1 });
        }).then((sent) => sent.slice(-1)),
    },
  ],
};

export const USAGE: FormGroup = {
  title: "Usage",
  forms: [
    {
      title: "Sheet of usage",
      when: "An hour was closed: it is put on the sheet of its day, by any process, any number of times.",
      story:
        "40 were taken at 12:00:00, and a take at 13:00:05 closed the hour. At 14:00:05 ada takes 1: this is the write before its take.",
      play: async () => {
        const stage = new Stage();
        const { limiter } = await stage.with(rpm);
        await take(limiter, { rpm: 40 });
        await stage.until(HOUR_MS + 5 * SECOND_MS);
        await take(limiter, { rpm: 1 });
        await stage.until(2 * HOUR_MS + 5 * SECOND_MS);
        const sent = await stage.sentBy(() => take(limiter, { rpm: 1 }));
        return sent.filter(({ writes }) => writes.some(({ key }) => key.sheet !== undefined));
      },
    },
    {
      title: "Close the hour of an unused bucket",
      when: "A sweep finds an hour that has been over for some time: it rolls the bucket without a take.",
      story: "40 of 60 a minute were taken at 12:00:00. At 15:00:00 a sweep comes by.",
      play: () => swept((sent) => sent.slice(0, 1)),
      why: [
        [/^SET b_rpm_tk = /, "full at the new epoch"],
        [/^SET b_rpm_tc = |^SET b_rq = /, "nothing is counted in the new hour yet"],
      ],
    },
    {
      title: "Let an unused bucket go",
      when: "The sweep has put the hour on its sheet: the item may expire as soon as it is full.",
      story: "The same sweep, after the sheet.",
      play: () => swept((sent) => sent.slice(-1)),
      why: [
        [/_tk >= /, "with fewer tokens it would be full later"],
        [/^SET ttl = /, "when it is full, and an hour more: its usage is on sheets"],
      ],
    },
  ],
};

async function swept(which: (sent: readonly Sent[]) => readonly Sent[]): Promise<readonly Sent[]> {
  const sent = await afterNoon(rpm, 40, 3 * HOUR_MS, ({ buckets, stage }) =>
    buckets.closeHours([{ bucket: BUCKET, shard: 0 }], { nowMs: stage.clock.now(), afterHours: 1 }),
  );
  return which(sent);
}

export const SHARED_TABLE: FormGroup = {
  title: "On a table shared with the original",
  forms: [
    {
      title: "Take on a shared table",
      when: "The original writes the same items, and changes terms without moving the epoch.",
      story: "40 of 60 a minute were taken at 12:00:00. At 12:00:05 ada takes 1.",
      play: () => onSharedTable(5 * SECOND_MS, ({ limiter }) => take(limiter, { rpm: 1 })),
      why: [
        [
          /_tk >= /,
          "what is taken is stored: the refill since the epoch is not spent, as a rate that the original lowers in place would count for it",
        ],
      ],
    },
    {
      title: "Take over the brim on a shared table",
      when: "The original cuts by stored tokens alone, so nothing is cut without moving the epoch.",
      story: "40 of 60 a minute were taken at 12:00:00. At 12:05:00 ada takes 1.",
      play: () => onSharedTable(5 * MINUTE_MS, ({ limiter }) => take(limiter, { rpm: 1 })),
    },
    {
      title: "Make a shard that the original has not made",
      when: "The original says how many shards there are, and makes each with the first request that comes to it: the sibling that holds its tokens meanwhile gives it half.",
      story:
        "40 of 60 a minute were taken at 12:00:00, and the original has set the number of shards to 2. At 12:00:05 ada takes 2 twice; the second take comes to shard 1, and this is the transaction before it.",
      play: () =>
        onSharedTable(5 * SECOND_MS, async ({ line, limiter, buckets }) => {
          const key = { bucket: BUCKET, shard: 0 };
          const nothing = { when: [], add: {}, remove: [], trace: undefined };
          await line.write(
            { ...nothing, key, kind: "update", item: "exists", set: { shard_count: 2 } },
            { timeoutMs: 1_000 },
          );
          buckets.forget(BUCKET);
          for (let i = 0; i < 2; i++) await take(limiter, { rpm: 2 });
        }).then((sent) => sent.filter(({ call }) => call === "transaction")),
      why: [
        [/_tk >= /, "no deeper in debt than a capacity below what was seen"],
        [/_tk = /, "the tokens as they were seen: half of what they have become is given"],
        [/^ADD b_rpm_tk /, "what drips in up to the new epoch, less the half that is given"],
        [/^attribute_not_exists\(ttl\)/, KEPT_FOR_EVER],
      ],
    },
    {
      title: "Give-back on a shared table",
      when: "The original spends whatever is stored, also above a capacity.",
      story: "40 of 60 a minute were taken at 12:00:00. At 12:00:05 the lease gives back 30.",
      play: () => onSharedTable(5 * SECOND_MS, ({ lease }) => lease.release({ rpm: 30 })),
      why: [[/_tk <= /, "it stays within the capacity: the original would spend what stands above"]],
    },
  ],
};
