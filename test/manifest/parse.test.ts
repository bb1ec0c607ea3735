import assert from "node:assert/strict";
import { test } from "node:test";
import type { Limit } from "../../src/entry/index.ts";
import { ManifestInvalid, parseManifest } from "../../src/entry/manifest.ts";

const EXAMPLE = `# yaml-language-server: $schema=./node_modules/zae-limiter/manifest.schema.json
namespace: default
owner: platform
system:
  on_unavailable: block
  limits: { rpm: 1000/min }
resources:
  gpt-4:
    limits:
      rpm: { capacity: 100 }
      tpm: { capacity: 20000, refill_amount: 10000, refill_period: 60, soft: true, notify_at: [80, 95] }
      rpd: { capacity: 500, refill_period: 86400, shadow: true }
      month: { capacity: 1000000, reset_schedule: [{ cron: "0 0 1 * *", tz: Europe/Berlin }] }
      session: "500,after=5h"
    disabled: false
entities:
  proj-1: { name: Production, metadata: { tier: gold } }
  key-1:
    parent: proj-1
    cascade: true
    resources:
      gpt-4: { limits: { rpm: 10/min } }
      _default_: { limits: { rpm: 5/min } }
`;

const drip = (name: string, capacity: number, refillAmount = capacity, refillPeriodMs = 60_000) => ({
  ...{ name, capacity, refillAmount, refillPeriodMs },
});

test("the example of the design, piece by piece", () => {
  const { namespace, owner, pieces, warnings } = parseManifest(EXAMPLE);
  assert.deepEqual([namespace, owner, warnings], ["default", "platform", []]);
  assert.deepEqual(JSON.parse(JSON.stringify(pieces)), [
    {
      piece: { what: "entity", entityId: "proj-1" },
      value: { name: "Production", cascade: false, metadata: { tier: "gold" } },
    },
    {
      piece: { what: "entity", entityId: "key-1" },
      value: { name: "key-1", parentId: "proj-1", cascade: true, metadata: {} },
    },
    { piece: { what: "limits", level: "entity", resource: "gpt-4", entityId: "key-1" }, value: [drip("rpm", 10)] },
    { piece: { what: "limits", level: "entityDefault", entityId: "key-1" }, value: [drip("rpm", 5)] },
    { piece: { what: "onUnavailable", level: "system" }, value: "block" },
    { piece: { what: "limits", level: "system" }, value: [drip("rpm", 1000)] },
    {
      piece: { what: "limits", level: "resource", resource: "gpt-4" },
      value: [
        drip("rpm", 100),
        { ...drip("tpm", 20_000, 10_000), soft: true, notifyAt: [80, 95] },
        { ...drip("rpd", 500, 500, 86_400_000), shadow: true },
        { ...drip("month", 1_000_000, 0, 1_000), reset: { cron: "0 0 1 * *", tz: "Europe/Berlin" } },
        { ...drip("session", 500, 0, 1_000), resetAfterMs: 18_000_000 },
      ],
    },
    { piece: { what: "access", level: "resource", resource: "gpt-4" }, value: "enforce" },
  ]);
});

test("slots are a map with a hold, or a text with one", () => {
  const limits =
    "{ parallel: { capacity: 10, hold_seconds: 60, soft: true, schedule: [{ cron: '* 9 * * *', capacity: 4 }] }, jobs: 4@5m }";
  const [piece] = parseManifest(`resources: { a: { limits: ${limits} } }`).pieces;
  assert.deepEqual((piece as { value: readonly Limit[] }).value, [
    {
      ...drip("parallel", 10, 0, 1_000),
      ...{ holdMs: 60_000, soft: true, schedule: [{ cron: "* 9 * * *", tz: "UTC", capacity: 4 }] },
    },
    { ...drip("jobs", 4, 0, 1_000), holdMs: 300_000 },
  ]);
});

test("a limit says what it counts, in a map as in a text, and what is no measure is told where it stands", () => {
  const limits =
    "{ rpm: { capacity: 5, counts: requests }, month: '2M,reset=monthly,counts=tpm', tpm: { capacity: 5, counts: tpm } }";
  const [piece] = parseManifest(`resources: { a: { limits: ${limits} } }`).pieces;
  assert.deepEqual(
    (piece as { value: readonly Limit[] }).value.map(({ name, counts }) => [name, counts]),
    [
      ["rpm", "requests"],
      ["month", "tpm"],
      ["tpm", undefined],
    ],
  );
  assert.throws(
    () => parseManifest("resources: { a: { limits: { rpm: { capacity: 5, counts: 9x } } } }"),
    /Invalid measure "9x"/,
  );
});

test("burst is what may be held, and the capacity is then the rate", () => {
  const [piece] = parseManifest("resources: { a: { limits: { rpm: { capacity: 100, burst: 150 } } } }").pieces;
  assert.deepEqual(JSON.parse(JSON.stringify(piece?.value)), [drip("rpm", 150, 100)]);
});

test("anchors and aliases, numbers for names, words in short, nothing owned", () => {
  const { pieces } = parseManifest(`
resources: { a: &a { limits: { rpm: 5 } }, b: *a }
entities:
  42: { create: false, limits: { rpm: 1 }, access: bypass }
  e: { parent: null }
  only-limits: { limits: { rpm: 1 } }
  nothing: {}
`);
  assert.deepEqual(
    pieces.map(({ piece, ifAbsent }) => [piece.what, piece.level, piece.entityId, piece.resource ?? ifAbsent]),
    [
      ["limits", "entityDefault", "42", undefined],
      ["access", "entityDefault", "42", undefined],
      ["entity", undefined, "e", undefined],
      ["entity", undefined, "only-limits", true],
      ["limits", "entityDefault", "only-limits", undefined],
      ["entity", undefined, "nothing", true],
      ["limits", "resource", undefined, "a"],
      ["limits", "resource", undefined, "b"],
    ],
  );
  assert.deepEqual(parseManifest("resources: {}").pieces, []);
  assert.deepEqual(parseManifest("\uFEFFresources: {}").pieces, []);
});

const level = (text: string) => `resources:\n  a:\n    ${text}\n`;
const limit = (text: string) => level(`limits:\n      rpm: ${text}`);

// Y3, Y4, Y16, Y17 of the original: each of these was stored, ignored or a traceback there.
const WRONG: readonly (readonly [
  text: string,
  code: string,
  line: number,
  column: number,
  path: string,
  what: RegExp,
])[] = [
  ["", "empty", 1, 1, "", /resources: \{\}/],
  ["# nothing\n", "empty", 1, 1, "", /declares nothing/],
  ["namespace: default\n", "empty", 1, 1, "", /declares nothing/],
  ["- a\n", "value_invalid", 1, 1, "", /a map here, not a list/],
  ["just text", "value_invalid", 1, 1, "", /a map here, not "just text"/],
  ["resource:\n  a: { limits: { rpm: 1 } }\n", "key_unknown", 1, 1, "/resource", /did you mean "resources"\?/],
  ["resources:\n", "value_invalid", 1, 11, "/resources", /not nothing/],
  ["resources: {}\nresources: {}\n", "key_duplicate", 2, 1, "/resources", /twice/],
  ["resources: {}\n---\nresources: {}\n", "yaml_syntax", 2, 1, "", /second document/],
  ["resources: {\n", "yaml_syntax", 2, 1, "", /./],
  ["resources: {}\nnamespace: a#b\n", "value_invalid", 2, 12, "/namespace", /Invalid namespace "a#b"/],
  [
    "resources: {}\nowner: my team\n",
    "value_invalid",
    2,
    8,
    "/owner",
    /Invalid owner "my team": begin with a letter or digit and use .*@\.$/,
  ],
  ["resources: {}\nowner: 5\n", "value_invalid", 2, 8, "/owner", /give a string, not 5/],
  ["system: {}\n", "empty", 1, 1, "/system", /is empty; give it/],
  [
    "system: { on_unavailable: maybe }",
    "value_invalid",
    1,
    27,
    "/system/on_unavailable",
    /allow or block, not "maybe"/,
  ],
  [
    "system: { disabled: true }",
    "key_unknown",
    1,
    11,
    "/system/disabled",
    /not allowed here: it would apply to every entity/,
  ],
  ["system: { cascade: true }", "key_unknown", 1, 11, "/system/cascade", /is not allowed here/],
  ["resources:\n  a#b: { limits: { rpm: 1 } }\n", "name_invalid", 2, 3, "/resources/a#b", /Invalid resource "a#b"/],
  ["resources:\n  a: {}\n", "empty", 2, 3, "/resources/a", /is empty; give it/],
  [
    level("limts: { rpm: 1 }"),
    "key_unknown",
    3,
    5,
    "/resources/a/limts",
    /unknown key "limts"; did you mean "limits"\?/,
  ],
  [level("limits: {}"), "empty", 3, 5, "/resources/a/limits", /no limits here/],
  [level("disabled: maybe"), "value_invalid", 3, 15, "/resources/a/disabled", /true, false or bypass/],
  [level("access: off"), "value_invalid", 3, 13, "/resources/a/access", /disabled, bypass or enforce/],
  [level("cascade: 1"), "value_invalid", 3, 14, "/resources/a/cascade", /true or false, not 1/],
  [level("{ access: bypass, disabled: true }"), "value_invalid", 3, 15, "/resources/a/access", /keep one/],
  [level("limits: { wcu: 5 }"), "name_invalid", 3, 15, "/resources/a/limits/wcu", /reserved/],
  [limit("null"), "value_invalid", 4, 12, "/resources/a/limits/rpm", /not nothing/],
  [limit("true"), "value_invalid", 4, 12, "/resources/a/limits/rpm", /not true/],
  [limit("10.5"), "value_invalid", 4, 12, "/resources/a/limits/rpm", /not 10.5/],
  [limit('"100"'), "value_invalid", 4, 12, "/resources/a/limits/rpm", /not "100"/],
  [limit("10/fortnight"), "limit_invalid", 4, 12, "/resources/a/limits/rpm", /AMOUNT/],
  [limit("[1]"), "value_invalid", 4, 12, "/resources/a/limits/rpm", /./],
  [limit("{}"), "key_missing", 4, 7, "/resources/a/limits/rpm", /no capacity/],
  [limit("{ capacity: 10.5 }"), "value_invalid", 4, 24, "/resources/a/limits/rpm/capacity", /whole tokens.*not 10.5/],
  [limit('{ capacity: "100" }'), "value_invalid", 4, 24, "/resources/a/limits/rpm/capacity", /not "100"/],
  [limit("{ capacity: true }"), "value_invalid", 4, 24, "/resources/a/limits/rpm/capacity", /not true/],
  [limit("{ capacity: 0 }"), "value_invalid", 4, 24, "/resources/a/limits/rpm/capacity", /from 1/],
  [
    limit("{ capacity: 5, refil_amount: 1 }"),
    "key_unknown",
    4,
    27,
    "/resources/a/limits/rpm/refil_amount",
    /"refill_amount"/,
  ],
  [limit("{ capacity: 5, refill_amount: 0 }"), "limit_invalid", 4, 12, "/resources/a/limits/rpm", /nothing resets it/],
  [
    limit("{ capacity: 5, refill_amount: 5, reset_after_seconds: 60 }"),
    ...(["limit_invalid", 4, 12, "/resources/a/limits/rpm", /has a reset and refill_amount 5/] as const),
  ],
  [
    limit("{ capacity: 5, hold_seconds: 60, reset_after_seconds: 60 }"),
    ...(["limit_invalid", 4, 12, "/resources/a/limits/rpm", /has hold_seconds and reset_after_seconds/] as const),
  ],
  [
    limit("{ capacity: 5, hold_seconds: 60, burst: 9 }"),
    ...(["limit_invalid", 4, 12, "/resources/a/limits/rpm", /has hold_seconds and burst/] as const),
  ],
  [
    limit('{ capacity: 5, reset_after_seconds: 60, reset_schedule: [{ cron: "0 0 1 * *" }] }'),
    ...(["limit_invalid", 4, 12, "/resources/a/limits/rpm", /not both/] as const),
  ],
  [
    limit('{ capacity: 5, reset_schedule: [{ cron: "0 0 L * *" }] }'),
    ...(["cron_invalid", 4, 52, "/resources/a/limits/rpm/reset_schedule/0/cron", /L/] as const),
  ],
  [
    limit('{ capacity: 5, reset_schedule: [{ cron: "0 0 1 * *", tz: Mars/Base }] }'),
    ...(["cron_invalid", 4, 69, "/resources/a/limits/rpm/reset_schedule/0/tz", /Mars/] as const),
  ],
  [
    limit('{ capacity: 5, reset_schedule: [{ cron: "0 0 1 * *" }, { cron: "0 0 2 * *" }] }'),
    ...(["value_invalid", 4, 43, "/resources/a/limits/rpm/reset_schedule", /exactly one/] as const),
  ],
  [
    limit("{ capacity: 5, schedule: [{ scale: 2 }] }"),
    ...(["key_missing", 4, 38, "/resources/a/limits/rpm/schedule/0", /no cron/] as const),
  ],
  [
    limit('{ capacity: 5, schedule: [{ cron: "* * * * *" }] }'),
    ...(["limit_invalid", 4, 12, "/resources/a/limits/rpm", /nothing to change/] as const),
  ],
  [
    "entities:\n  org/team: { name: x }\n",
    "name_invalid",
    2,
    3,
    "/entities/org~1team",
    /Invalid entity id "org\/team"/,
  ],
  ["entities:\n  e: { create: false }\n", "empty", 2, 3, "/entities/e", /is empty; give it/],
  ["entities:\n  e: { create: false, plan: g }\n", "value_invalid", 2, 16, "/entities/e/create", /"plan" declares e/],
  ["entities:\n  e: { metadata: { n: 5 } }\n", "value_invalid", 2, 23, "/entities/e/metadata/n", /a string, not 5/],
  ["entities:\n  e: { parent: e }\n", "value_invalid", 2, 16, "/entities/e/parent", /its own ancestor/],
  ["entities:\n  e: { disabled: true }\n", "key_unknown", 2, 8, "/entities/e/disabled", /write access: disabled/],
  [
    "entities:\n  e: { limits: { r: 1 }, resources: { _default_: { limits: { r: 2 } } } }\n",
    ...(["key_duplicate", 2, 8, "/entities/e/limits", /short for/] as const),
  ],
];

test("Y3, Y4, Y16, Y17: whatever is wrong is told with its line, its column and its place", () => {
  for (const [text, code, line, column, path, what] of WRONG) {
    const { problems } = problemsOf(text);
    assert.equal(problems.length, 1, `${JSON.stringify(text)}: ${JSON.stringify(problems)}`);
    const [problem] = problems;
    assert.deepEqual(
      { ...problem, message: "" },
      { line, column, path, code, message: "" },
      JSON.stringify([text, problem]),
    );
    assert.match(problem?.message ?? "", what);
  }
});

test("every problem is told at once, in the order of the file, as a person reads it", () => {
  const text = "namespace: x\nsystm: {}\nresources:\n  a: { limts: 1 }\n  b: { limits: { rpm: 10.5 } }\n";
  const error = problemsOf(text, "limits.yaml");
  assert.deepEqual(error.message.split("\n"), [
    'limits.yaml:2:1: unknown key "systm"; did you mean "system"?',
    'limits.yaml:4:8: unknown key "limts"; did you mean "limits"?',
    "limits.yaml:5:23: give a whole number, a string such as 1000/min, or a map with capacity, not 10.5",
  ]);
  assert.deepEqual([error.code, error.file], ["manifest_invalid", "limits.yaml"]);
});

function problemsOf(text: string, file?: string): ManifestInvalid {
  try {
    parseManifest(text, file === undefined ? {} : { file });
  } catch (error) {
    assert.ok(error instanceof ManifestInvalid, String(error));
    return error;
  }
  assert.fail(`nothing is wrong with ${JSON.stringify(text)}`);
}

test("money in a manifest is a quota in micro-dollars, and a period that it cannot have is told with its place", () => {
  const { pieces } = parseManifest(
    "entities:\n  acme:\n    totals: { usd: $50/month }\n    limits: { day_usd: '$2.50/day,counts=usd' }\n",
  );
  const limits = pieces.flatMap(({ value }) => (Array.isArray(value) ? (value as Limit[]) : []));
  const quota = { refillAmount: 0, refillPeriodMs: 1_000 };
  assert.deepEqual(
    JSON.parse(JSON.stringify(limits)).sort((a: Limit, b: Limit) => a.capacity - b.capacity),
    [
      { ...quota, name: "day_usd", counts: "usd", capacity: 2_500_000, reset: { cron: "0 0 * * *", tz: "UTC" } },
      { ...quota, name: "usd", capacity: 50_000_000, reset: { cron: "0 0 1 * *", tz: "UTC" } },
    ],
  );
  assert.throws(
    () => parseManifest("entities:\n  acme:\n    totals: { usd: $50/min }\n"),
    (error) => error instanceof ManifestInvalid && /3:.*the period of money is "min"/s.test(error.message),
  );
});
