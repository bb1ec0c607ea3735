import { RateLimiter } from "../../src/entry/index.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { describeDynamo } from "../dynamodb/dynamodb-local.ts";
import { OneTable } from "../dynamodb/one-table.ts";
import { tellExpressRateLimitStories } from "./express-rate-limit-stories.ts";

await describeDynamo("express-rate-limit on DynamoDB", (dynamodb) => {
  const table = new OneTable(dynamodb);
  tellExpressRateLimitStories(async (t) => {
    const { name: namespace, way } = await table.newNamespace();
    const clock = new SimulatedClock(Date.UTC(2026, 2, 15, 12));
    const another = async () => {
      const limiter = await RateLimiter.open({ store: await table.store(way, clock), namespace, clock });
      t.after(() => limiter.close());
      return limiter;
    };
    return { clock, another, limiter: await another() };
  });
});
