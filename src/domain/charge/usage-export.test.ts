import assert from "node:assert/strict";
import { test } from "node:test";
import type { UsageSnapshot } from "./usage.ts";
import { exportedUsage, type UsageFormat } from "./usage-export.ts";

const START = Date.UTC(2026, 2, 15, 12);
const snapshot: UsageSnapshot = {
  ...{ entityId: "key-1", resource: "gpt-4", window: "hourly", windowStartMs: START, windowEndMs: START + 3_600_000 },
  ...{
    requests: 7,
    counters: { tpm: 500, rpm: 7 },
    overdrafts: { soft: 2 },
    bypassed: { rpm: 1 },
    wouldRefuse: { tpm: 3 },
    heldMs: {},
  },
};

async function text(snapshots: readonly UsageSnapshot[], format: UsageFormat): Promise<string> {
  let whole = "";
  async function* source() {
    yield* snapshots;
  }
  for await (const piece of exportedUsage(source(), format, undefined)) whole += piece;
  return whole;
}

test("CSV has a row a limit, in the order of their names, with times in ISO", async () => {
  assert.equal(
    await text([snapshot], "csv"),
    [
      "entityId,resource,window,windowStart,windowEnd,requests,limit,tokens,overdrafts,bypassed,wouldRefuse,heldMs",
      "key-1,gpt-4,hourly,2026-03-15T12:00:00.000Z,2026-03-15T13:00:00.000Z,7,rpm,7,0,1,0,0",
      "key-1,gpt-4,hourly,2026-03-15T12:00:00.000Z,2026-03-15T13:00:00.000Z,7,soft,0,2,0,0,0",
      "key-1,gpt-4,hourly,2026-03-15T12:00:00.000Z,2026-03-15T13:00:00.000Z,7,tpm,500,0,0,3,0",
      "",
    ].join("\n"),
  );
});

test("requests that took no tokens are not lost from the CSV", async () => {
  const [, row] = (
    await text([{ ...snapshot, counters: {}, overdrafts: {}, bypassed: {}, wouldRefuse: {} }], "csv")
  ).split("\n");
  assert.match(row ?? "", /,7,,0,0,0,0,0$/);
});

test("what would break a row is quoted", async () => {
  const [, row] = (await text([{ ...snapshot, entityId: 'a,"b"' }], "csv")).split("\n");
  assert.ok(row?.startsWith('"a,""b""",gpt-4,'));
});

test("NDJSON and JSON have the snapshots as they are", async () => {
  const lines = (await text([snapshot, snapshot], "ndjson")).trimEnd().split("\n");
  assert.deepEqual(
    lines.map((line) => JSON.parse(line)),
    [snapshot, snapshot],
  );
  for (const items of [[], [snapshot], [snapshot, snapshot]]) {
    assert.deepEqual(JSON.parse(await text(items, "json")), { items });
  }
});

test("an unknown format is refused before anything is read", () => {
  assert.throws(() => exportedUsage((async function* () {})(), "xml" as never, undefined), { code: "format_invalid" });
});
