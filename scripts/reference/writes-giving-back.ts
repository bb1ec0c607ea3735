import { Limit } from "../../src/entry/index.ts";
import { afterNoon, day, entityId, type FormGroup, inShards, resource, rpm, session } from "./writes-scenes.ts";
import { BUCKET, HOUR_MS, SECOND_MS, Stage, take } from "./writes-stage.ts";

const SIDE_OVER = "the limit stands over its brim: what becomes of it is different on the other side";

export const GIVING_BACK: FormGroup = {
  title: "Giving back",
  forms: [
    {
      title: "Give-back to a limit that drips",
      when: "A lease cost less than was taken, or its work failed.",
      story: "40 of 60 a minute were taken at 12:00:00. At 12:00:05 the lease gives back 30.",
      play: () => afterNoon(rpm, 40, 5 * SECOND_MS, ({ lease }) => lease.release({ rpm: 30 })),
    },
    {
      title: "Give-back to a quota",
      when: "The same, pinned to the period of the take: what was taken today is not given back tomorrow.",
      story: "400 of 1,000 a day were taken at 12:00:00. At 12:00:05 the lease gives back 30.",
      play: () => afterNoon(day, 400, 5 * SECOND_MS, ({ lease }) => lease.release({ day: 30 })),
    },
    {
      title: "Give-back to a session",
      when: "The same, pinned to the window of the take.",
      story: "40 of 50 of a session were taken at 12:00:00. At 12:00:05 the lease gives back 30.",
      play: () => afterNoon(session, 40, 5 * SECOND_MS, ({ lease }) => lease.release({ session: 30 })),
    },
    {
      title: "Give-back that undoes a request",
      when: "A request of several levels was refused at another level: everything is as if it had never been.",
      story:
        "At 12:00:00.100 ada takes 1 of 60 a minute. Its parent has nothing left, so the request is refused, and ada gets it back.",
      play: async () => {
        const stage = new Stage();
        const { limiter } = await stage.with(rpm);
        await limiter.createEntity({ id: "org" });
        await limiter.createEntity({ id: entityId, parentId: "org" });
        await limiter.acquire({ entityId: "org", resource, consume: { rpm: 59 } });
        await take(limiter, { rpm: 1 });
        await stage.until(100);
        const sent = await stage.sentBy(() => limiter.tryAcquire({ entityId, resource, consume: { rpm: 1 } }));
        return sent.filter(({ writes }) => writes.every(({ trace }) => trace?.form === "credit"));
      },
    },
    {
      title: "Give-back after the hour",
      when: "The open hour is over, or a boundary was passed: the give-back rebases, as a take would. An hour that is over is final.",
      story: "40 of 60 a minute were taken at 12:00:00. At 13:00:05 the lease gives back 30.",
      play: () => afterNoon(rpm, 40, HOUR_MS + 5 * SECOND_MS, ({ lease }) => lease.release({ rpm: 30 })),
      why: [
        [/_tk >= /, SIDE_OVER],
        [/^SET b_.+_tk = /, "full at the new epoch, and what comes back on top: the next take cuts it off"],
        [/^SET b_.+_tc = /, "the new hour begins with what comes back"],
        [/^SET b_rq = /, "the new hour has no request yet"],
      ],
    },
    {
      title: "Give-back that closes a session",
      when: "A refused request had opened the window of a session, and no other request has used it.",
      story: "Ada's request at 12:00:05 opens the window; its parent has nothing left, so the request is refused.",
      play: async () => {
        const stage = new Stage();
        const { limiter } = await stage.process().then(async (process) => {
          await process.limiter.createEntity({ id: "org" });
          await process.limiter.createEntity({ id: entityId, parentId: "org" });
          await process.limiter.setLimits("org", [Limit.perMinute("rpm", 1)], { resource });
          await process.limiter.setLimits(entityId, [session], { resource });
          return process;
        });
        await limiter.acquire({ entityId: "org", resource, consume: { rpm: 1 } });
        await stage.until(5 * SECOND_MS);
        const sent = await stage.sentBy(() =>
          limiter.tryAcquire({ entityId, resource, consume: { rpm: 1, session: 1 } }),
        );
        return sent.slice(1);
      },
      why: [
        [/_tk >= /, "no other request has taken from the window"],
        [/^SET b_session_tk = /, "all of it is there again"],
      ],
    },
    {
      title: "Give-back to a bucket with a stamp",
      when: "A change of configuration was announced, and no request has read it yet: the mark stays, and the epoch, so that the change counts from its own instant.",
      story:
        "40 of 60 a minute were taken at 12:00:00. At 12:00:05 a change is announced, and the lease gives back 30.",
      play: () =>
        afterNoon(rpm, 40, 5 * SECOND_MS, async ({ buckets, stage, lease }) => {
          await buckets.announce(BUCKET, stage.clock.now());
          await lease.release({ rpm: 30 });
        }).then((sent) => sent.slice(-1)),
      why: [[/^vu = 0$/, "still the announcement that was seen: no boundary was passed by what the item says"]],
    },
    {
      title: "Give-back of a bypass",
      when: "A lease that was let through gives back: only its usage is taken back.",
      story: "10 were taken at 12:00:00 and let through. At 12:00:05 the lease gives back 4.",
      play: async () => {
        const stage = new Stage();
        const { limiter } = await stage.with(rpm);
        await limiter.setAccess({ entityId }, "bypass");
        const lease = await take(limiter, { rpm: 10 });
        await stage.until(5 * SECOND_MS);
        return stage.sentBy(() => lease.release({ rpm: 4 }));
      },
    },
    {
      title: "Give-back to one of several shards",
      when: "The bucket is split: the shard with the most room gets it, and must still have that room.",
      story: "60 a minute in two shards of 13 each. At 12:00:06 the lease gives back 10.",
      play: () => inShards(({ lease }) => lease.release({ rpm: 10 })),
    },
  ],
};
