import { CONCURRENCY, callOf, type Scene, type Stint, type Told } from "./dynamodb-ways.ts";

// One way of acquiring, in a process of its own. Told how long to go on, it tells what came of it.

const call = await callOf(JSON.parse(process.argv[2] ?? "") as Scene);
let calls = 0;
process.on("message", async (stint: Stint) => {
  const first = calls;
  const untilMs = performance.now() + stint.milliseconds;
  const caller = async (): Promise<void> => {
    while (calls - first < stint.calls || performance.now() < untilMs) await call(calls++);
  };
  const before = process.cpuUsage();
  await Promise.all(Array.from({ length: CONCURRENCY }, caller));
  const { user, system } = process.cpuUsage(before);
  const told: Told = { calls: calls - first, microseconds: (user + system) / (calls - first) };
  process.send?.(told);
});
process.on("disconnect", () => process.exit());
process.send?.("ready");
