import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { type TestContext, test } from "node:test";
import { Limit, RateLimiter } from "../../src/entry/index.ts";
import { createService } from "../../src/entry/server.ts";
import { tokenOf } from "../server/service-kit.ts";
import { tempFile } from "../sqlite/temp-store.ts";
import { here } from "./in-process.ts";
import { limitsStory } from "./limits-story.ts";

// `limits` over a service: the same answers, questions and exit codes as on a store.

async function served(t: TestContext, store: string) {
  const file = tempFile(t);
  const ci = tokenOf("ci");
  const reader = tokenOf("reader", { namespaces: ["default"], scopes: ["read"] });
  const limiter = await RateLimiter.open({ store: store === "memory" ? store : `sqlite:${file}` });
  const service = await createService({ limiter, tokens: [ci.entry, reader.entry], log: () => {} });
  const { url, close } = await service.listen({ port: 0 });
  t.after(async () => {
    await close();
    await limiter.close();
  });
  const tokenFile = `${file}.token`;
  writeFileSync(tokenFile, `${ci.token}\n`);
  const where = ["--url", url, "--token-file", tokenFile];
  const manifest = `${file}.yaml`;
  const put = (text: string) => writeFileSync(manifest, text);
  const run = async (line: string, options: Parameters<typeof here>[1] = {}) => {
    const words = line.split(" ").map((word) => (word === "FILE" ? manifest : word));
    return here(["limits", ...words, ...where], options);
  };
  return { file, url, where, limiter, manifest, put, run, reader: reader.token };
}

const errorOf = (stderr: string) => JSON.parse(stderr).error;
const rpm = (rate: number) => [Limit.perMinute("rpm", rate)];

for (const store of ["memory", "SQLite"]) {
  test(`declared limits over a service on ${store}: validate, plan, apply, diff, export, and their exit codes`, async (t) => {
    const { where, limiter } = await served(t, store);
    await limitsStory(t, where);
    const { events } = await limiter.auditEvents();
    assert.deepEqual([...new Set(events.map(({ principal }) => principal))], ["ci"], "the audit log names the token");
  });
}

test("limits apply over a service asks, and what is changed while the question stands there is not overwritten", async (t) => {
  const { run, put, limiter } = await served(t, "memory");
  put("owner: o\nresources: { a: { limits: { rpm: 120 } }, b: { limits: { rpm: 1 } } }\n");
  const unasked = await run("apply -f FILE --json");
  assert.deepEqual([unasked.code, errorOf(unasked.stderr).code], [2, "confirmation_required"]);
  const declined = await run("apply -f FILE", { answer: "n" });
  assert.match(declined.stderr, /Plan in default for o: 2 to create, 0 unchanged\.\nApply this\? \[y\/N\] Declined/);
  const whileAsked = () => limiter.setResourceDefaults("a", rpm(5), { principal: "incident-commander" });
  const outdated = await run("apply -f FILE", { answer: "y", whileAsked });
  assert.deepEqual([outdated.code, outdated.stdout], [1, ""]);
  assert.match(outdated.stderr, /The plan is outdated: it would now update the limits of the resource a/);
  assert.deepEqual([await limiter.getResourceDefaults("a"), await limiter.getResourceDefaults("b")], [rpm(5), []]);
  assert.equal((await run("apply -f FILE", { answer: "y" })).code, 0);
  put("owner: o\nresources: { a: { limits: { rpm: 120 } } }\n");
  const pruned = await run("apply -f FILE", { answer: "y" });
  assert.match(pruned.stderr, /Apply this, and delete 1\? \[y\/N\] /);
  assert.deepEqual([pruned.code, await limiter.getResourceDefaults("b")], [0, []]);
});

test("limits apply over a service that fails half-way prints what was done, and the error", async (t) => {
  const { run, put, limiter } = await served(t, "memory");
  put("owner: o\nentities: { a: { name: A } }\nresources: { z: { limits: { rpm: 9 } } }\n");
  const create = limiter.createEntity.bind(limiter);
  t.mock.method(limiter, "createEntity", async (...given: Parameters<typeof create>) => {
    await limiter.setResourceDefaults("z", rpm(3));
    return create(...given);
  });
  const ran = await run("apply -f FILE --yes --json");
  const { changes } = JSON.parse(ran.stdout);
  assert.deepEqual(
    [ran.code, changes.map(({ done }: { done: boolean }) => done), errorOf(ran.stderr).code],
    [1, [true, false], "plan_outdated"],
  );
  assert.match(errorOf(ran.stderr).message, /1 change was made before; plan again/);
});

test("a plan that was saved over a service is applied there as shown, and nowhere else", async (t) => {
  const { run, put, manifest, file, url, limiter } = await served(t, "memory");
  put("owner: o\nresources: { a: { limits: { rpm: 120 } } }\n");
  assert.equal((await run(`plan -f FILE -o ${file}.plan --quiet`)).code, 0);
  assert.equal(JSON.parse(readFileSync(`${file}.plan`, "utf8")).store, url.replace(/\/$/, ""));
  const there = ["--store", `sqlite:${file}`];
  await here(["init", ...there]);
  const elsewhere = await here(["limits", "apply", `${file}.plan`, ...there]);
  assert.match(elsewhere.stderr, /plan was made on http:.*and this is sqlite:/);
  writeFileSync(manifest, "owner: o\nresources: {}\n");
  await limiter.setResourceDefaults("a", rpm(5));
  const stale = await run(`apply ${file}.plan --json`);
  assert.deepEqual([stale.code, errorOf(stale.stderr).code], [1, "plan_outdated"]);
  await limiter.deleteResourceDefaults("a");
  const dry = await run(`apply ${file}.plan --json --dry-run`);
  assert.deepEqual([dry.code, JSON.parse(dry.stdout).dryRun], [0, true]);
  assert.equal((await run(`apply ${file}.plan --json`)).code, 0);
  assert.deepEqual(await limiter.getResourceDefaults("a"), rpm(120));
});

test("what is wrong is told over a service as on a store: the file, the owner, the namespace, the token", async (t) => {
  const { run, put, manifest, url, limiter, reader } = await served(t, "memory");
  put("resources:\n  gpt-4:\n    limts: { rpm: 1 }\n");
  for (const command of ["validate", "plan", "apply", "diff"]) {
    const { code, stdout, stderr } = await run(`${command} -f FILE --json`);
    assert.deepEqual([code, stdout, errorOf(stderr).code], [2, "", "manifest_invalid"], command);
    const [problem] = errorOf(stderr).problems;
    assert.deepEqual([problem.line, problem.column, problem.path], [3, 5, "/resources/gpt-4/limts"]);
  }
  put("owner: a\nresources: { a: { limits: { rpm: 1 } } }\n");
  const never = await run("diff -f FILE --json");
  assert.deepEqual([never.code, errorOf(never.stderr).code], [4, "manifest_not_applied"]);
  assert.equal((await run("apply -f FILE --yes")).code, 0);
  put("owner: b\nresources: { a: { limits: { rpm: 1 } }, b: { limits: { rpm: 1 } } }\n");
  const conflict = await run("plan -f FILE --json");
  assert.deepEqual([conflict.code, JSON.parse(conflict.stdout).conflicts.length], [1, 1]);
  assert.ok(!conflict.stdout.includes("refusal"), "the same keys as on a store");
  const taken = await run("apply -f FILE --yes --json");
  assert.deepEqual([taken.code, errorOf(taken.stderr).code], [1, "owned_by_other"]);
  put("owner: b\nresources: { b: { limits: { rpm: 1 } } }\n");
  assert.equal((await run("apply -f FILE --yes")).code, 0);
  const several = await run("export --json");
  assert.deepEqual([several.code, several.stdout, errorOf(several.stderr).code], [1, "", "owners_several"]);
  assert.match((await run("export --owner b")).stdout, /^owner: b\nresources:\n {2}b:/m);
  const nobody = await run("export --owner c --json");
  assert.deepEqual([nobody.code, errorOf(nobody.stderr).code], [4, "manifest_not_applied"]);
  await limiter.registerNamespace("tenant");
  const missing = await run("plan -f FILE -N tenan --json");
  assert.deepEqual([missing.code, errorOf(missing.stderr).code], [4, "namespace_not_found"]);
  assert.match(errorOf(missing.stderr).message, /did you mean tenant/);
  put("namespace: tenant\nresources: { c: { limits: { rpm: 1 } } }\n");
  assert.equal(JSON.parse((await run("plan -f FILE --json")).stdout).namespace, "tenant");
  const both = await run("plan -f FILE -N default --json");
  assert.deepEqual([both.code, errorOf(both.stderr).code], [2, "namespace_mismatch"]);
  const named = await run("apply -f FILE --yes --principal me --json");
  assert.deepEqual([named.code, errorOf(named.stderr).code], [2, "usage"]);
  put("resources: { c: { limits: { rpm: 1 } } }\n");
  const env = { ZAEL_URL: url, ZAEL_TOKEN: reader };
  const refused = await here(["limits", "plan", "-f", manifest, "--json"], { env });
  assert.deepEqual([refused.code, errorOf(refused.stderr).code], [3, "insufficient_scope"]);
  assert.equal((await here(["limits", "diff", "--owner", "b"], { env })).code, 0, "by the environment, to read");
  const gone = await here(["limits", "plan", "-f", manifest, "--url", "http://127.0.0.1:1", "--json"]);
  assert.deepEqual([gone.code, errorOf(gone.stderr).code], [3, "unavailable"]);
});
