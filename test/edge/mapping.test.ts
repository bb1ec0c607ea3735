import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { Ajv } from "ajv";
import { isMap, parseDocument } from "yaml";
import { ENTITY_ID, isAllowed, RESOURCE } from "../../src/domain/names/names.ts";
import { type EdgeDomain, EdgeInvalid } from "../../src/edge/edge-file.ts";
import { parseEdge } from "../../src/edge/parse.ts";
import { type CallPlan, type Descriptor, planAll, planCall } from "../../src/edge/plan-call.ts";
import { edgeSchema } from "../../src/edge/schema.ts";
import { type EntryText, entityIdFrom, entryText, resourceFrom, templateOf } from "../../src/edge/template.ts";
import { here } from "../cli/in-process.ts";
import { runs } from "../depth.ts";
import { fc } from "../properties.ts";
import { EDGE_FILE, tempFile } from "./kit.ts";

function domainOf(text: string): EdgeDomain {
  return [...parseEdge(text, undefined).domains.values()][0] as EdgeDomain;
}

const ruled = (...rules: string[]) => domainOf(`domains: { default: { rules: [${rules.join(", ")}] } }`);

function descriptor(entries: Readonly<Record<string, EntryText>>, about: Partial<Descriptor> = {}): Descriptor {
  const pairs = Object.entries(entries).map(([key, value]) => ({ key, value }));
  return { entries: pairs, hits: undefined, isNegative: false, ...about };
}

/** What a plan does, in few words: each list that is not empty. */
function brief(plan: CallPlan) {
  const parts = (some: CallPlan["takes"]) =>
    some.map(({ entityId, resource, consume }) => [entityId, resource, consume]);
  const { takes, charges, peeks, refunds, unmatched, tooMuch } = plan;
  const all = {
    ...{ takes: parts(takes), charges: parts(charges), peeks: parts(peeks), refunds: parts(refunds) },
    ...{ unmatched, tooMuch: parts(tooMuch) },
  };
  return Object.fromEntries(Object.entries(all).filter(([, list]) => list.length > 0));
}

function problemsIn(text: string): string[] {
  try {
    parseEdge(text, undefined);
    return [];
  } catch (error) {
    assert.ok(error instanceof EdgeInvalid, String(error));
    return error.problems.map(({ line, column, path, code }) => `${line}:${column} ${code} ${path}`);
  }
}

test("the first rule with exactly the keys of a descriptor counts, in any order of keys", () => {
  const domain = domainOf(EDGE_FILE);
  const taken = (entries: Record<string, string>, hits = 3) => brief(planCall(domain, [descriptor(entries)], hits));
  const part = ["acme", "gpt-5", { requests: 1, tpm: 3 }];
  assert.deepEqual(taken({ tenant: "acme", model: "gpt-5" }), { takes: [part] });
  assert.deepEqual(taken({ model: "gpt-5", tenant: "acme" }), { takes: [part] });
  assert.deepEqual(taken({ remote_address: "10.0.0.1" }), { takes: [["ip-10.0.0.1", "http", { requests: 3 }]] });
  assert.deepEqual(taken({ tenant: "acme", phase: "done" }), { charges: [["acme", "tokens", { tpm: 3 }]] });
  for (const entries of [
    { tenant: "acme" },
    { tenant: "acme", model: "other" },
    { tenant: "a", model: "gpt-5", x: "y" },
  ]) {
    assert.deepEqual(taken(entries as Record<string, string>), { unmatched: [0] });
  }
  const twice = {
    ...descriptor({}),
    entries: [
      { key: "tenant", value: "a" },
      { key: "tenant", value: "b" },
    ],
  };
  assert.deepEqual(brief(planCall(domain, [twice], 1)), { unmatched: [0] });
});

test("two descriptors of one entity and resource are one part with the sum, and count a request each", () => {
  const domain = ruled(
    '{ match: { a: "*" }, entity: "{a}", resource: r, consume: { tpm: hits }, hold: 60s, on_expiry: refund }',
    '{ match: { b: "*" }, entity: "{b}", resource: r, consume: { tpm: 5 }, hold: 20s }',
  );
  const plan = planCall(domain, [descriptor({ a: "x" }), descriptor({ b: "x" }), descriptor({ b: "y" })], 7);
  assert.deepEqual(brief(plan), {
    takes: [
      ["x", "r", { requests: 2, tpm: 12 }],
      ["y", "r", { tpm: 5 }],
    ],
  });
  const [both] = plan.takes;
  assert.deepEqual([both?.descriptors, both?.holdMs, both?.onExpiry, both?.rule], [[0, 1], 20_000, "charge", 0]);
});

test("hits of a descriptor count before those of the call; 0 looks, negative ones give back, and too many are no error", () => {
  const domain = ruled('{ match: { a: "*" }, entity: "{a}", resource: r, consume: { requests: 1, tpm: hits } }');
  const asked = (about: Partial<Descriptor>) => brief(planCall(domain, [descriptor({ a: "x" }, about)], 3));
  assert.deepEqual(asked({}), { takes: [["x", "r", { requests: 1, tpm: 3 }]] });
  assert.deepEqual(asked({ hits: 5 }), { takes: [["x", "r", { requests: 1, tpm: 5 }]] });
  assert.deepEqual(asked({ hits: 0 }), { peeks: [["x", "r", { requests: 1, tpm: 0 }]] });
  assert.deepEqual(asked({ isNegative: true }), { refunds: [["x", "r", { tpm: 3 }]] });
  const most = 9_000_000_000_000;
  assert.deepEqual(asked({ hits: most + 1 }), { tooMuch: [["x", "r", { requests: 1, tpm: most }]] });
  assert.deepEqual(asked({ hits: most + 1, isNegative: true }), { refunds: [["x", "r", { tpm: most }]] });
  const all = planAll("charge", domain, [descriptor({ a: "x" }, { hits: 2 ** 64 })], 1);
  assert.deepEqual(brief(all), { charges: [["x", "r", { requests: 1, tpm: most }]] });
});

test("zael_lease beside the keys of a rule with hold settles, and beside those of another rule matches nothing", () => {
  const domain = domainOf(EDGE_FILE);
  const plan = planCall(domain, [descriptor({ tenant: "acme", zael_lease: "l_1", model: "gpt-5" }, { hits: 0 })], 1);
  assert.deepEqual(plan.settles, [
    { entityId: "acme", resource: "gpt-5", rule: 0, descriptors: [0], leaseId: "l_1", consume: { tpm: 0 } },
  ]);
  const without = planCall(domain, [descriptor({ remote_address: "a", zael_lease: "l_1" })], 1);
  assert.deepEqual(without.unmatched, [0]);
});

const anyBytes = fc.oneof(
  fc.uint8Array({ maxLength: 40 }),
  fc.string({ unit: "binary", maxLength: 12 }).map((text) => new TextEncoder().encode(text)),
  fc
    .constantFrom("", "a", "a-b", "%41", "A", "hash:", "text:a", "x".repeat(300))
    .map((text) => new TextEncoder().encode(text)),
);
const asText = (bytes: Uint8Array) => entryText(Buffer.from(bytes));

test("whatever bytes a client sends become a valid id, and two values never share one", () => {
  const templates = ["{a}", "ip-{a}", "{a}-{b}", "{a}.x:{b}"].map((text) => templateOf(text) ?? assert.fail(text));
  const values = fc.tuple(anyBytes, anyBytes);
  const property = fc.property(fc.constantFrom(...templates), values, values, (template, one, other) => {
    const isSame = [0, 1].every(
      (i) => i >= template.keys.length || Buffer.compare(one[i] ?? one[0], other[i] ?? other[0]) === 0,
    );
    for (const [from, rule] of [
      [entityIdFrom, ENTITY_ID],
      [resourceFrom, RESOURCE],
    ] as const) {
      const ids = [one, other].map(([a, b]) =>
        from(
          template,
          new Map([
            ["a", asText(a)],
            ["b", asText(b)],
          ]),
        ),
      );
      for (const id of ids) assert.ok(isAllowed(rule, id), id);
      assert.equal(ids[0] === ids[1], isSame, `${template.text}: ${JSON.stringify(ids)}`);
    }
  });
  fc.assert(property, { numRuns: runs(5_000) });
});

test("a value that is empty, too long, no UTF-8, or reads as a hash becomes the hash of its bytes", () => {
  const template = templateOf("{a}") ?? assert.fail();
  const hashed = (bytes: Uint8Array | string) =>
    `hash:${createHash("sha256").update(bytes).digest("hex").slice(0, 32)}`;
  const idOf = (value: EntryText) => entityIdFrom(template, new Map([["a", value]]));
  assert.equal(idOf(""), hashed(""));
  assert.equal(idOf("x".repeat(300)), hashed("x".repeat(300)));
  assert.equal(idOf(Buffer.from([0xff])), hashed(Buffer.from([0xff])));
  assert.equal(idOf(hashed("")), hashed(hashed("")));
  assert.equal(idOf("auth0|42"), "text:auth0_7C42");
  const two = templateOf("{a}|{b}") ?? assert.fail();
  assert.equal(
    entityIdFrom(
      two,
      new Map([
        ["a", "x|"],
        ["b", "é"],
      ]),
    ),
    "text:x_257C_7C_25C3_25A9",
  );
});

test("every problem of a file is told at once, at its line and column", () => {
  const file = `domains:
  envoy:
    namespce: default
    rules:
      - { match: { a: "*", b: "*" }, entity: "{a}{b}", resource: "{c}" }
      - { match: { a: x, b: [y] }, entity: a b, resource: api, hold: 5 }
      - { match: { a: "*" }, entity: "{a}", resource: api, mode: charge, hold: 5s, on_expiry: chrge }
      - { match: { a: "z" }, entity: "{a", resource: api, consume: { 1a: hits, tpm: 1.5 } }
      - { match: { zael_lease: "*" }, resource: api, consume: {} }
    http: { entries: { t: heder x }, descriptors: [[t, u]], hits: path, trusted_hops: 0 }
`;
  const rules = "/domains/envoy/rules";
  const http = "/domains/envoy/http";
  assert.deepEqual(problemsIn(file), [
    "3:5 key_unknown /domains/envoy/namespce",
    `5:46 template_ambiguous ${rules}/0/entity`,
    `5:66 template_unknown ${rules}/0/resource`,
    `6:9 rule_unreachable ${rules}/1`,
    `6:44 value_invalid ${rules}/1/entity`,
    `6:70 value_invalid ${rules}/1/hold`,
    `7:80 value_invalid ${rules}/2/hold`,
    `7:95 value_invalid ${rules}/2/on_expiry`,
    `8:9 rule_unreachable ${rules}/3`,
    `8:38 value_invalid ${rules}/3/entity`,
    `8:70 name_invalid ${rules}/3/consume/1a`,
    `8:85 value_invalid ${rules}/3/consume/tpm`,
    `9:9 key_missing ${rules}/4`,
    `9:20 name_invalid ${rules}/4/match/zael_lease`,
    `9:54 empty ${rules}/4/consume`,
    `10:27 value_invalid ${http}/entries/t`,
    `10:56 value_invalid ${http}/descriptors/0/1`,
    `10:67 value_invalid ${http}/hits`,
    `10:87 value_invalid ${http}/trusted_hops`,
  ]);
  assert.deepEqual(problemsIn(""), ["1:1 empty "]);
  assert.deepEqual(problemsIn("domains: {}"), ["1:1 empty /domains"]);
  assert.deepEqual(problemsIn("domains: { a b: { rules: [] } }"), [
    "1:12 name_invalid /domains/a b",
    "1:26 value_invalid /domains/a b/rules",
  ]);
  assert.deepEqual(problemsIn("domains: [\n"), ["2:1 yaml_syntax "]);
});

test("a bare key that can give an id of another rule's prefix is a warning, and one whose values cannot is none", () => {
  const other = '{ match: { ip: "*" }, entity: "ip-{ip}", resource: http }';
  const warned = (values: string) =>
    parseEdge(
      `domains: { a: { rules: [{ match: { t: ${values} }, entity: "{t}", resource: r }, ${other}] } }`,
      undefined,
    ).warnings.length;
  assert.equal(warned('"*"'), 1);
  assert.equal(warned("[acme, ip-1]"), 1);
  assert.equal(warned("[acme]"), 0);
});

test("the schema for editors is that of the package, and accepts what the parser accepts", () => {
  const file = readFileSync(new URL("../../edge.schema.json", import.meta.url), "utf8");
  assert.deepEqual(JSON.parse(file), edgeSchema(), "run node scripts/edge-schema.ts");
  const check = new Ajv({ strict: false }).compile(edgeSchema());
  const document = parseDocument(EDGE_FILE);
  assert.ok(check(document.toJS()), JSON.stringify(check.errors));
  const rule = document.getIn(["domains", "envoy", "rules", 0]);
  assert.ok(isMap(rule));
  rule.set("holds", "60s");
  assert.ok(!check(document.toJS()));
});

test("edge check and edge map say what a file says, without a store", async (t) => {
  const file = tempFile(t, "edge.yaml", EDGE_FILE);
  const checked = await here(["edge", "check", file, "--json"]);
  assert.equal(checked.code, 0);
  const { warnings, ...answer } = JSON.parse(checked.stdout);
  assert.deepEqual(answer, { valid: true, domains: ["envoy"], rules: 3 });
  assert.equal(warnings.length, 1);
  const entries = ["-d", "tenant=acme,model=gpt-5", "-d", "remote_address=1.2.3.4", "-d", "x=y"];
  const mapped = await here(["edge", "map", file, "--domain", "envoy", ...entries, "--hits", "3", "--json"]);
  assert.deepEqual(JSON.parse(mapped.stdout), {
    namespace: "default",
    parts: [
      { rule: 0, entityId: "acme", resource: "gpt-5", consume: { requests: 1, tpm: 3 }, mode: "take", hold: 60_000 },
      { rule: 1, entityId: "ip-1.2.3.4", resource: "http", consume: { requests: 3 }, mode: "take" },
    ],
    unmatched: [2],
  });
  const unknown = await here(["edge", "map", file, "--domain", "envoi", "-d", "a=b", "--json"]);
  assert.equal(unknown.code, 4);
  assert.equal(JSON.parse(unknown.stderr).error.code, "domain_unknown");
  const wrong = tempFile(t, "wrong.yaml", EDGE_FILE.replace("refunds", "refund"));
  const refused = await here(["edge", "check", wrong, "--json"]);
  assert.equal(refused.code, 2);
  const { error } = JSON.parse(refused.stderr);
  assert.deepEqual([error.code, error.file, error.problems[0].code], ["edge_invalid", wrong, "key_unknown"]);
  assert.match(error.message, /did you mean "refunds"\?/);
});
