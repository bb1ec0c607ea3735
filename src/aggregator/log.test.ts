import assert from "node:assert/strict";
import { test } from "node:test";
import { checkLogLevel, createLog, faultFields, wholeFault } from "./log.ts";
import { emfLine, Metrics } from "./metrics.ts";

test("a log is one JSON object a line, from its level upwards", () => {
  const lines: string[] = [];
  const log = createLog({ level: "warn", write: (line) => lines.push(line), now: () => 0 });
  log.debug("d", { entity: "secret" });
  log.info("i", {});
  log.warn("w", { n: 1 });
  log.error("e", {});
  assert.deepEqual(
    lines.map((line) => JSON.parse(line)),
    [
      { timestamp: "1970-01-01T00:00:00.000Z", level: "warn", message: "w", n: 1 },
      { timestamp: "1970-01-01T00:00:00.000Z", level: "error", message: "e" },
    ],
  );
});

test("a level that there is not is refused, and case does not matter", () => {
  assert.equal(checkLogLevel("DEBUG"), "debug");
  assert.throws(() => checkLogLevel("chatty"), { code: "log_level_invalid" });
});

test("of a fault that may name an entity only its kind is told", () => {
  const fault = Object.assign(new RangeError("secret-key is gone"), { code: "gone" });
  assert.deepEqual(faultFields(fault), { error: "RangeError", code: "gone" });
  assert.deepEqual(wholeFault(fault), { error: "RangeError", code: "gone", reason: "secret-key is gone" });
  assert.deepEqual(faultFields("text"), { error: "string" });
});

test("metrics add up until they are told, and then begin anew", () => {
  const metrics = new Metrics();
  metrics.add("Records", 3);
  metrics.add("Records", 4);
  metrics.measure("StreamAgeMs", 50);
  metrics.measure("StreamAgeMs", 20);
  const values = metrics.take();
  assert.deepEqual(values, { Records: 7, StreamAgeMs: 50 });
  assert.deepEqual(metrics.take(), {});
  assert.deepEqual(JSON.parse(emfLine(values, { stack: "limits", nowMs: 5 })), {
    _aws: {
      Timestamp: 5,
      CloudWatchMetrics: [
        {
          Namespace: "zae-limiter",
          Dimensions: [["Stack"]],
          Metrics: [
            { Name: "Records", Unit: "Count" },
            { Name: "StreamAgeMs", Unit: "Milliseconds" },
          ],
        },
      ],
    },
    ...{ Stack: "limits", Records: 7, StreamAgeMs: 50 },
  });
});
