import { CONCURRENCY, callOf, type Scene, type Stint, type Told } from "./dynamodb-ways.ts";

// One way of acquiring, in a process of its own. Told how long to go on, it tells what came of it.

const call = await callOf(JSON.parse(process.argv[2] ?? "") as Scene);
let calls = 0;
let failures = 0;
// DynamoDB Local stumbles over its own concurrency now and then. More than that is a fault of the bench.
const failed = (error: unknown): void => {
  if (++failures > 20 + calls / 20) throw new Error(`${failures} of ${calls} calls failed.`, { cause: error });
};
process.on("message", async (stint: Stint) => {
  const first = calls;
  const untilMs = performance.now() + stint.milliseconds;
  const caller = async (): Promise<void> => {
    while (calls - first < stint.calls || performance.now() < untilMs) await call(calls++).catch(failed);
  };
  const before = process.cpuUsage();
  await Promise.all(Array.from({ length: CONCURRENCY }, caller));
  const { user, system } = process.cpuUsage(before);
  const told: Told = { calls: calls - first, microseconds: (user + system) / (calls - first) };
  process.send?.(told);
});
process.on("disconnect", () => process.exit());
process.send?.("ready");
