import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { Limit } from "../../src/entry/limits.ts";
import { manifestSchema } from "../../src/entry/manifest.ts";
import { RateLimiter } from "../../src/entry/rate-limiter.ts";
import { tempFile } from "../sqlite/temp-store.ts";
import { here } from "./in-process.ts";

const MANIFEST = `owner: platform
resources:
  gpt-4: { limits: { rpm: 100 } }
entities:
  key-1: { parent: proj-1, resources: { gpt-4: { limits: { rpm: 10/min } } } }
  proj-1: { name: Production }
`;

async function place(t: TestContext) {
  const file = tempFile(t);
  const store = `sqlite:${file}`;
  const limiter = await RateLimiter.open({ store });
  t.after(() => limiter.close());
  const manifest = join(file, "..", "limits.yaml");
  const put = (text: string) => writeFileSync(manifest, text);
  put(MANIFEST);
  const run = async (command: string, ...more: readonly string[]) => {
    const ran = await here(["limits", command, "--store", store, ...more]);
    return { ...ran, json: ran.stdout.startsWith("{") ? JSON.parse(ran.stdout) : undefined };
  };
  return { file, store, limiter, manifest, put, run };
}

test("validate, plan, apply, plan, diff, export: the answers, and what they exit with", async (t) => {
  const { limiter, manifest, put, run, store } = await place(t);
  const named = ["-f", manifest, "--json"];
  const valid = await run("validate", ...named);
  assert.deepEqual([valid.code, valid.json], [0, { valid: true, owner: "platform", pieces: 4, warnings: [] }]);
  assert.equal((await run("diff", ...named)).code, 4);

  const plan = await run("plan", ...named);
  assert.deepEqual([plan.code, plan.stderr, plan.json.summary.create], [0, "", 4]);
  assert.deepEqual(Object.keys(plan.json), ["namespace", "owner", "changes", "conflicts", "summary", "warnings"]);
  assert.deepEqual(plan.json.changes[2], {
    ...{ action: "create", what: "limits", level: "resource", resource: "gpt-4", before: null, drift: false },
    after: [{ name: "rpm", capacity: 100, refillAmount: 100, refillPeriodMs: 60_000 }],
  });
  assert.equal((await run("plan", ...named, "--exit-code")).code, 1);
  const dry = await run("apply", ...named, "--dry-run");
  assert.deepEqual([dry.code, dry.json.dryRun, dry.json.summary.create], [0, true, 4]);
  const unasked = await run("apply", ...named);
  assert.deepEqual(
    [unasked.code, unasked.stdout, JSON.parse(unasked.stderr).error.code],
    [2, "", "confirmation_required"],
  );
  assert.deepEqual([...(await limiter.listEntities())], [], "nothing was changed so far");
  const declined = await here(["limits", "apply", "--store", store, "-f", manifest], { answer: "" });
  assert.deepEqual([declined.code, declined.stdout], [1, ""]);
  assert.match(declined.stderr, /Plan in default for platform: 4 to create.*\nApply this\? \[y\/N\] Declined/s);

  const applied = await run("apply", ...named, "--yes", "--principal", "ci");
  assert.deepEqual([applied.code, applied.stderr], [0, ""]);
  assert.ok(applied.json.changes.every(({ done }: { done: boolean }) => done));
  assert.equal((await limiter.auditEvents()).events[0]?.principal, "ci");
  assert.equal((await run("plan", ...named, "--exit-code")).code, 0);
  assert.deepEqual((await run("diff", ...named)).json.drift, []);

  await limiter.setResourceDefaults("gpt-4", [Limit.perMinute("rpm", 1)], { principal: "mallory" });
  const drift = await run("diff", "--owner", "platform");
  assert.equal(drift.code, 1);
  assert.match(
    drift.stdout,
    /^~ the limits of the resource gpt-4: rpm:100\/min -> rpm:1\/min {2}\(limits_set by mallory, /,
  );

  put("owner: platform\nresources: {}\n");
  const refused = await run("apply", ...named, "--yes");
  assert.deepEqual(
    [refused.code, refused.stdout, JSON.parse(refused.stderr).error.code],
    [1, "", "deletions_need_prune"],
  );
  const asked = await here(["limits", "apply", "--store", store, "-f", manifest], { answer: "n" });
  assert.match(asked.stderr, /Apply this, and delete 4\? \[y\/N\] /);
  assert.equal((await limiter.listEntities()).length, 2);
  const kept = await run("apply", ...named, "--yes", "--keep");
  assert.deepEqual([kept.code, kept.json.summary.release], [0, 4]);

  const exported = await run("export");
  put(exported.stdout);
  const adopted = await run("plan", "-f", manifest, "--json");
  assert.deepEqual([adopted.json.summary.adopt, adopted.json.changes.length], [4, 4]);
  assert.equal((await run("export", "--json")).json.namespace, "default");
  const file = `${manifest}.out`;
  assert.deepEqual([(await run("export", "-o", file)).stdout, readFileSync(file, "utf8")], ["", exported.stdout]);
});

test("two owners: a conflict is an answer of plan and an error of apply; --take-over takes", async (t) => {
  const { limiter, manifest, put, run } = await place(t);
  await run("apply", "-f", manifest, "--yes");
  put("owner: other\nresources: { gpt-4: { limits: { rpm: 7 } } }\n");
  const plan = await run("plan", "-f", manifest, "--json");
  assert.deepEqual([plan.code, plan.stderr, plan.json.conflicts.length], [1, "", 1]);
  const apply = await run("apply", "-f", manifest, "--json", "--yes");
  assert.deepEqual([apply.code, apply.stdout, JSON.parse(apply.stderr).error.code], [1, "", "owned_by_other"]);
  const taken = await run("apply", "-f", manifest, "--yes", "--take-over");
  assert.equal(taken.code, 0, taken.stderr);
  assert.match(taken.stdout, /^~ the limits of the resource gpt-4: rpm:100\/min -> rpm:7\/min\nApplied/);
  assert.deepEqual(await limiter.getResourceDefaults("gpt-4"), [Limit.perMinute("rpm", 7)]);
});

test("an invalid manifest is 2 for every command that reads one, with its problems, and changes nothing", async (t) => {
  const { manifest, put, run, limiter } = await place(t);
  put("resources:\n  gpt-4:\n    limts: { rpm: 1 }\n  b: { limits: { rpm: 10.5 } }\n");
  for (const command of ["validate", "plan", "apply", "diff", "cfn-template"]) {
    const { code, stdout, stderr } = await run(command, "-f", manifest, "--json");
    assert.deepEqual([code, stdout], [2, ""], command);
    const { error } = JSON.parse(stderr);
    assert.deepEqual(
      [error.code, error.exitCode, error.file, error.problems.length],
      ["manifest_invalid", 2, manifest, 2],
    );
    assert.deepEqual(error.problems[0], {
      ...{ line: 3, column: 5, path: "/resources/gpt-4/limts", code: "key_unknown" },
      message: 'unknown key "limts"; did you mean "limits"?',
    });
  }
  const people = await run("plan", "-f", manifest);
  assert.match(people.stderr, /limits\.yaml:3:5: unknown key "limts"; did you mean "limits"\?\n/);
  assert.deepEqual([...(await limiter.listResources())], []);
  assert.equal((await run("plan", "-f", `${manifest}.none`)).code, 2);
  assert.equal((await run("plan")).code, 2);
});

test("whose namespace it is: the file's, the option's, one of them, and it must be there", async (t) => {
  const { manifest, put, run, limiter } = await place(t);
  put("namespace: tenant\nresources: { a: { limits: { rpm: 1 } } }\n");
  assert.equal((await run("plan", "-f", manifest)).code, 4);
  await limiter.registerNamespace("tenant");
  assert.equal((await run("plan", "-f", manifest, "--json")).json.namespace, "tenant");
  assert.equal((await run("plan", "-f", manifest, "-N", "tenant")).code, 0);
  const both = await run("plan", "-f", manifest, "-N", "default", "--json");
  assert.deepEqual([both.code, JSON.parse(both.stderr).error.code], [2, "namespace_mismatch"]);
  put("entities: { c: { parent: nobody } }\n");
  const orphan = await run("plan", "-f", manifest, "--json");
  assert.deepEqual([orphan.code, JSON.parse(orphan.stderr).error.code], [4, "parent_not_found"]);
});

test("the schema and the template, without a store", async (t) => {
  const { manifest, put, run } = await place(t);
  assert.deepEqual((await here(["limits", "schema"])).stdout, `${JSON.stringify(manifestSchema(), undefined, 2)}\n`);
  put(
    'owner: o\nsystem: { on_unavailable: allow }\nresources: { a: { limits: { q: "5,reset=daily", r: { capacity: 5, burst: 9 } }, disabled: bypass } }\n',
  );
  const { code, stdout } = await here(["limits", "cfn-template", "-f", manifest, "-n", "stk", "--json"]);
  assert.equal(code, 0);
  const { Type, Properties } = JSON.parse(stdout).Resources.TenantLimits;
  assert.equal(Type, "Custom::ZaeLimiterLimits");
  assert.deepEqual(Properties, {
    ServiceToken: { "Fn::ImportValue": "stk-ProvisionerArn" },
    ...{ TableName: "stk", Namespace: "default", Owner: "o", System: { OnUnavailable: "allow" } },
    Resources: {
      a: {
        Limits: {
          q: { Capacity: 5, ResetSchedule: [{ Cron: "0 0 * * *", Tz: "UTC" }] },
          r: { Capacity: 9, RefillAmount: 5, RefillPeriod: 60 },
        },
        Disabled: "bypass",
      },
    },
  });
  assert.equal((await run("cfn-template", "-f", manifest)).code, 2);
});

test("a template that CloudFormation or Lambda would not take is told with its size, beside the template", async (t) => {
  const { manifest, put } = await place(t);
  const made = async (entities: number) => {
    const lines = Array.from({ length: entities }, (_, i) => `  key-${i}: { limits: { rpm: 5 } }`);
    put(`entities:\n${lines.join("\n")}\n`);
    const { code, stdout, stderr } = await here(["limits", "cfn-template", "-f", manifest, "-n", "stk", "--json"]);
    assert.equal(code, 0, stderr);
    assert.equal(JSON.parse(stdout).Resources.TenantLimits.Type, "Custom::ZaeLimiterLimits");
    return stderr;
  };
  assert.equal(await made(10), "");
  assert.match(
    await made(1_000),
    /^The template has \d{5,6} bytes, and CloudFormation accepts 51200 in a request; upload it to a bucket/,
  );
  assert.match(
    await made(4_000),
    /Lambda accepts about 250000 for a resource: it would fail\. Split it into several manifests/,
  );
});
