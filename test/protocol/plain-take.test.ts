import assert from "node:assert/strict";
import { Session } from "node:inspector/promises";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { limitMakers } from "../../src/domain/limits/limit.ts";
import { claim, kinds, T0 } from "../kit/contract-kit.ts";
import { calendar } from "../limits/kind-arbitraries.ts";
import { Cluster } from "./kit.ts";

const folder = fileURLToPath(new URL("../../src/protocol/", import.meta.url));

/** The files of the protocol of which a function was entered while `work` ran. */
async function entered(work: () => Promise<void>): Promise<readonly string[]> {
  const session = new Session();
  session.connect();
  await session.post("Profiler.enable");
  await session.post("Profiler.startPreciseCoverage", { callCount: true, detailed: false });
  await work();
  const { result } = await session.post("Profiler.takePreciseCoverage");
  session.disconnect();
  const files = result.filter(({ functions }) => functions.some(({ ranges }) => (ranges[0]?.count ?? 0) > 0));
  return files
    .flatMap(({ url }) => (url.startsWith("file:") ? [fileURLToPath(url)] : []))
    .flatMap((path) => (path.startsWith(folder) ? [path.slice(folder.length)] : []))
    .sort();
}

test("a plain take enters at most 32 files of the protocol", async () => {
  const { place } = await new Cluster().open();
  const Kinds = limitMakers(calendar);
  const one = claim("ada", [Kinds.perMinute("rpm", 100), Kinds.perMinute("tpm", 10_000)], { rpm: 1, tpm: 50 });
  const takeAt = async (nowMs: number) => assert.deepEqual(kinds(await place.take([one], nowMs)), ["taken"]);
  for (let i = 0; i < 3; i++) await takeAt(T0 + i);
  const files = await entered(() => takeAt(T0 + 10));
  assert.ok(files.includes("decide/take.ts"), "nothing was traced");
  assert.ok(files.length <= 32, `${files.length} files: ${files.join(" ")}`);
});
