import { Limit } from "../../src/entry/index.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import {
  afterNoon,
  day,
  entityId,
  type FormGroup,
  inShards,
  KEPT_FOR_EVER,
  resource,
  rpm,
  session,
  soft,
  tpm,
} from "./writes-scenes.ts";
import { HOUR_MS, MINUTE_MS, NOON_MS, SECOND_MS, Stage, take } from "./writes-stage.ts";

export const TAKING: FormGroup = {
  title: "Taking",
  forms: [
    {
      title: "Create",
      when: "The first request of an entity on a resource, or the first after its item expired.",
      story: "At 12:00:00 ada takes 40 of 60 a minute; there is no item yet.",
      play: async () => {
        const stage = new Stage();
        const { limiter } = await stage.with(rpm);
        return stage.sentBy(() => take(limiter, { rpm: 40 }));
      },
    },
    {
      title: "Take below the brim",
      when: "Nearly every request: the limit is not full.",
      story:
        "40 of 60 a minute were taken at 12:00:00. At 12:00:05 ada takes 1; 5 have dripped in, so the brim is at 55.",
      play: () => afterNoon(rpm, 40, 5 * SECOND_MS, ({ limiter }) => take(limiter, { rpm: 1 })),
    },
    {
      title: "Take of several limits",
      when: "A request that takes of several limits of one bucket: one write, a pair of bounds for each limit. The bucket holds all of it, or nothing is taken.",
      story:
        "40 requests and 4,000 tokens were taken at 12:00:00. At 12:00:05 ada takes 1 and 100; 5 and 500 have dripped in.",
      play: async () => {
        const stage = new Stage();
        const { limiter } = await stage.with(rpm, tpm);
        await take(limiter, { rpm: 40, tpm: 4_000 });
        await stage.until(5 * SECOND_MS);
        return stage.sentBy(() => take(limiter, { rpm: 1, tpm: 100 }));
      },
    },
    {
      title: "Take over the brim",
      when: "A request after a quiet time: the limit has been full, and what dripped in since then must not count.",
      story:
        "40 of 60 a minute were taken at 12:00:00. At 12:05:00 ada takes 1; 300 would have dripped in, so the brim is at -240.",
      play: () => afterNoon(rpm, 40, 5 * MINUTE_MS, ({ limiter }) => take(limiter, { rpm: 1 })),
      why: [
        [/_tk >= /, "the limit stands at its brim or above it: it is full"],
        [/SET b_.+_tk = /, "the brim, less what is taken: whatever stood above it is cut off in the same write"],
      ],
    },
    {
      title: "Take from a soft limit",
      when: "A request on a limit that measures and never refuses.",
      story: "60 of 60 a minute were taken at 12:00:00. At 12:00:05 ada takes 10, and 5 have dripped in.",
      play: () => afterNoon(soft, 60, 5 * SECOND_MS, ({ limiter }) => take(limiter, { rpm: 10 })),
      why: [
        [/_tk < 5000$/, "the request leaves the limit below zero, as the write counts it"],
        [
          /_tk >= /,
          "no deeper in debt than was seen, by a capacity: `ttl` covers the time until the limit is full again",
        ],
      ],
    },
    {
      title: "Take with a bypass",
      when: "A request of a caller that is let through: it is counted, and nothing is debited.",
      story: "At 12:00:05 ada takes 10 and is let through.",
      play: async () => {
        const stage = new Stage();
        const { limiter } = await stage.with(rpm);
        await limiter.setAccess({ entityId }, "bypass");
        await take(limiter, { rpm: 1 });
        await stage.until(5 * SECOND_MS);
        return stage.sentBy(() => take(limiter, { rpm: 10 }));
      },
    },
    {
      title: "Debit",
      when: "A lease turns out to cost more than was taken (`adjust`): the work is done, so it is never refused.",
      story: "40 of 60 a minute were taken at 12:00:00. At 12:00:05 the lease is charged 30 more.",
      play: () => afterNoon(rpm, 40, 5 * SECOND_MS, ({ lease }) => lease.adjust({ rpm: 30 })),
      why: [
        [
          /_tk >= /,
          "it may go into debt, but not unseen: no deeper than a capacity below what was seen, which `ttl` covers",
        ],
      ],
    },
    {
      title: "Take from several items",
      when: "A request with `atomic` on several levels, or one that no single shard can pay: one transaction. Each item has the write that it would have alone, but no nonce: the store knows a transaction again by its token.",
      story: "60 a minute in two shards of 13 each. At 12:00:06 ada takes 20.",
      play: () => inShards(({ limiter }) => take(limiter, { rpm: 20 })),
      why: [[/^attribute_not_exists\(ttl\)/, KEPT_FOR_EVER]],
    },
  ],
};

export const REBASES: FormGroup = {
  title: "Moving the epoch",
  forms: [
    {
      title: "Take across a reset",
      when: "A request after a boundary: a reset, the edge of a window, the end of a session.",
      story: "400 of 1,000 a day were taken at 12:00:00. At 01:00:00 of the next day ada takes 1.",
      play: () => afterNoon(day, 400, 13 * HOUR_MS, ({ limiter }) => take(limiter, { day: 1 })),
    },
    {
      title: "Take that opens a session",
      when: "The first request on a session quota, or the first after its window ended.",
      story:
        "Ada has a limit of 60 a minute and a session quota of 50 in 5 hours. At 12:00:00 only the first was used. At 12:00:05 ada takes 1 of both.",
      play: async () => {
        const stage = new Stage();
        const { limiter } = await stage.with(rpm, session);
        await take(limiter, { rpm: 1 });
        await stage.until(5 * SECOND_MS);
        return stage.sentBy(() => take(limiter, { rpm: 1, session: 1 }));
      },
      why: [[/^SET b_session_tk = /, "the window opens full, less what is taken"]],
    },
    {
      title: "Take by changed limits",
      when: "The first request that knows of a change of stored limits: it counts from the instant of the change.",
      story:
        "40 of 60 a minute were taken at 12:00:00. At 12:00:10 the limit becomes 120 a minute. At 12:00:15 ada takes 1.",
      play: async () => {
        const stage = new Stage();
        const { limiter } = await stage.with(rpm);
        await take(limiter, { rpm: 40 });
        await stage.until(10 * SECOND_MS);
        await limiter.setResourceDefaults(resource, [Limit.perMinute("rpm", 120)]);
        await stage.until(15 * SECOND_MS);
        return stage.sentBy(() => take(limiter, { rpm: 1 }));
      },
      why: [
        [
          /^ADD b_rpm_tk /,
          "what drips in by the old limit up to the change, and by the new one since; less what is taken",
        ],
      ],
    },
    {
      title: "Take that closes an hour",
      when: "The first request of another hour: the counters of the hour before are moved aside in the same write.",
      story: "40 of 60 a minute were taken at 12:00:00. At 13:00:05 ada takes 1.",
      play: () => afterNoon(rpm, 40, HOUR_MS + 5 * SECOND_MS, ({ limiter }) => take(limiter, { rpm: 1 })),
    },
    {
      title: "Install limits without a take",
      when: "Limits that must not wait for the next request, as those of a refused one: every shard gets them.",
      story:
        "60 of 60 a minute were taken at 12:00:00. At 12:00:05 the limit becomes 10 a minute, and 5 are there. At 12:00:11 a request for 8 is refused: 6 are there.",
      play: async () => {
        const stage = new Stage();
        const { limiter } = await stage.with(rpm);
        await take(limiter, { rpm: 60 });
        await stage.until(5 * SECOND_MS);
        await limiter.setResourceDefaults(resource, [Limit.perMinute("rpm", 10)]);
        await stage.until(11 * SECOND_MS);
        return stage.sentBy(() => limiter.tryAcquire({ entityId, resource, consume: { rpm: 8 } }));
      },
      why: [[/^ADD b_rpm_tk /, "what drips in by the old limit up to the change, and by the new one since"]],
    },
    {
      title: "Repair of an epoch",
      when: "The epoch is further ahead than the server's clock can be: a client with a wrong clock wrote it, and nothing would drip until then.",
      story:
        "A client whose clock shows 13:00:00 has made the bucket. At 12:00:05 another client takes 1: this is the write before its take.",
      play: async () => {
        const stage = new Stage();
        const ahead = await stage.process({ clock: new SimulatedClock(NOON_MS + HOUR_MS) });
        await ahead.limiter.setResourceDefaults(resource, [rpm]);
        await take(ahead.limiter, { rpm: 40 });
        await stage.until(5 * SECOND_MS);
        const serverTime = { latestMs: () => stage.clock.now(), isKnown: () => true };
        const { limiter } = await stage.process({ serverTime });
        const sent = await stage.sentBy(() => limiter.tryAcquire({ entityId, resource, consume: { rpm: 1 } }));
        return sent.slice(0, 1);
      },
      why: [
        [/^SET rf = /, "back to the reading, or a moment before: no other write moves an epoch back"],
        [/^ADD b_rpm_tk /, "less what the jump had credited, at most a capacity"],
      ],
    },
  ],
};
