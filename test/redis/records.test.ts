import { RedisRecords } from "../../src/adapters/redis/records.ts";
import { describeRecords } from "../records/without-takes.ts";
import { connectionTo, newPrefix } from "./kit.ts";
import { describeRedis } from "./redis-server.ts";

await describeRedis("on Redis", ({ url }) => {
  const prefix = newPrefix();
  const connection = connectionTo(url, prefix);
  describeRecords("records on Redis", async () => {
    const records = new RedisRecords(connection, 30_000, () => undefined);
    const close = async () => {
      await records.drained();
      await connection.send([["FLUSHDB"]]);
    };
    return { records, close };
  });
});
