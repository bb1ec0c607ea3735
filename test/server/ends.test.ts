import assert from "node:assert/strict";
import { test } from "node:test";
import { NS, problem, serviceOf } from "./service-kit.ts";

const MINUTE_MS = 60_000;
const GPT = `${NS}/limits?resource=gpt-4`;

test("limits with an end are set by an instant or by ISO 8601, shown with what follows, and ended early", async (t) => {
  const { call, clock } = await serviceOf(t);
  const base = (await call("GET", GPT)).body.limits;
  const untilMs = clock.now() + 10 * MINUTE_MS;
  const until = new Date(untilMs).toISOString();
  const set = await call("PUT", GPT, { body: { limits: ["rpm:500"], until } });
  assert.deepEqual(
    [set.status, set.body.untilMs, set.body.then, set.body.changed],
    [200, untilMs, { limits: base }, true],
  );
  const etag = set.headers.get("etag") ?? "";
  const same = await call("PUT", GPT, { body: { limits: ["rpm:500"], untilMs } });
  assert.deepEqual([same.body.changed, same.headers.get("etag")], [false, etag]);
  const longer = await call("PUT", GPT, { body: { limits: ["rpm:500"], untilMs: untilMs + 1 } });
  assert.notEqual(longer.headers.get("etag"), etag, "the tag is of the end, too");
  problem(await call("DELETE", `${GPT}&override=true`, { headers: { "if-match": etag } }), 412, "limits_changed");
  assert.equal((await call("DELETE", `${GPT}&override=true`)).status, 204);
  problem(await call("DELETE", `${GPT}&override=true`), 404, "override_not_found");
  assert.deepEqual((await call("GET", GPT)).body.limits, base);
});

test("resources are listed by the limits in force: an override over nothing is gone at its end", async (t) => {
  const { call, clock } = await serviceOf(t);
  await call("PUT", `${NS}/limits?resource=web`, { body: { limits: ["rpm:5"], untilMs: clock.now() + MINUTE_MS } });
  assert.deepEqual((await call("GET", `${NS}/resources`)).body.items, ["gpt-4", "web"]);
  await clock.advance(MINUTE_MS);
  assert.deepEqual((await call("GET", `${NS}/resources`)).body.items, ["gpt-4"]);
  problem(await call("GET", `${NS}/limits?resource=web`), 404, "limits_not_found");
});

test("an end that cannot be read is refused with its value and the form, and changes nothing", async (t) => {
  const { call, clock } = await serviceOf(t);
  const before = (await call("GET", GPT)).body;
  const iso = new Date(clock.now() + MINUTE_MS).toISOString();
  for (const until of ["tomorrow", "", "2027-01-15", iso.slice(0, -1), "2027-01-15T25:00Z", "15 Jan 2027 12:00 UTC"]) {
    for (const [path, body] of [
      [GPT, { limits: ["rpm:5"] }],
      [`${NS}/totals`, { limits: ["rpm:5"] }],
      [`${NS}/access?resource=gpt-4`, { access: "disabled" }],
    ] as const) {
      const refused = await call("PUT", path, { body: { ...body, until } });
      problem(refused, 400, "instant_invalid");
      assert.ok(refused.body.detail.startsWith(`until is "${until}"; give an instant in ISO 8601 with its zone`));
    }
  }
  const both = await call("PUT", GPT, { body: { limits: ["rpm:5"], until: iso, untilMs: clock.now() + MINUTE_MS } });
  problem(both, 400, "request_invalid");
  problem(await call("PUT", GPT, { body: { limits: ["rpm:5"], untilMs: clock.now() } }), 400, "until_invalid");
  assert.deepEqual((await call("GET", GPT)).body, before);
  const offset = "2027-01-15T10:00:30.5+01:00";
  const set = await call("PUT", GPT, { body: { limits: ["rpm:5"], until: offset } });
  assert.equal(set.body.untilMs, Date.UTC(2027, 0, 15, 9, 0, 30, 500));
});
