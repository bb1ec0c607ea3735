import { test } from "node:test";
import { judgedWorlds } from "../straight/judged-worlds.ts";
import { judgedWorld } from "./judged-world.ts";
import { describeRedis } from "./redis-server.ts";

await describeRedis("worlds of the simulation on Redis", ({ url }) => {
  test("what the server stores is what the model says, write by write, in worlds of every kind", async () => {
    await judgedWorlds(() => judgedWorld(url));
  });
});
