import assert from "node:assert/strict";
import { test } from "node:test";
import { scriptOf } from "../../src/adapters/redis/connection.ts";
import { connectionTo, newPrefix } from "./kit.ts";
import { describeRedis } from "./redis-server.ts";

await describeRedis("a connection", (server) => {
  const ECHO = scriptOf("echo", "return {KEYS[1], ARGV[1]}");

  test("runs a script that the server does not know, and again when it was forgotten", async () => {
    const connection = connectionTo(server.url, newPrefix());
    for (let round = 0; round < 2; round++) {
      const { reply } = await connection.run(ECHO, ["k"], [Buffer.from([0, 255])], { answerMs: 5_000 });
      assert.deepEqual(reply, [Buffer.from("k"), Buffer.from([0, 255])]);
      await connection.send([["SCRIPT", "FLUSH"]]);
    }
  });

  test("a command that fails beside a script does not change what became of the script", async () => {
    const connection = connectionTo(server.url, newPrefix());
    const beside = { ahead: [["NO_SUCH_COMMAND"]], behind: [["ECHO", "x"], ["NO_SUCH_COMMAND"]] };
    const ran = await connection.run(ECHO, ["k"], ["a"], { answerMs: 5_000 }, beside);
    assert.deepEqual(ran.reply, [Buffer.from("k"), Buffer.from("a")]);
    assert.deepEqual(ran.behind, [Buffer.from("x"), undefined]);
    assert.match(String(ran.aheadError), /unknown command/);
  });
});
