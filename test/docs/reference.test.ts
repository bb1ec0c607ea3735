import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { bodyExamples, httpReference } from "../../scripts/reference/http.ts";
import { iamReference } from "../../scripts/reference/iam.ts";
import { libraryReference } from "../../scripts/reference/library.ts";
import { PAGES } from "../../scripts/reference/library-pages.ts";
import { writesReference } from "../../scripts/reference/writes.ts";
import { GROUPS } from "../../scripts/reference/writes-stories.ts";
import { whyOf } from "../../scripts/reference/writes-why.ts";
import { UNITS } from "../../src/aggregator/metrics.ts";
import { DURATIONS, FACTORS, PERIODS } from "../../src/domain/limits/durations.ts";
import { LIMIT_WORDS, limitOfText, textOfLimit } from "../../src/domain/limits/limit-text.ts";
import { RESETS } from "../../src/domain/limits/reset-names.ts";
import { HoldLost } from "../../src/domain/names/errors.ts";
import { calendar, Limit } from "../../src/entry/limits.ts";
import { LimiterMetrics } from "../../src/otel/metrics.ts";
import type { WriteTrace } from "../../src/ports/item-store.ts";
import { Metrics } from "../../src/server/metrics.ts";
import { routes } from "../../src/server/routes.ts";

// References are made from what they describe: from doc comments, schemas and tables of the source.

const root = fileURLToPath(new URL("../..", import.meta.url));

const library = libraryReference();

test("docs/reference/library*.md say what the doc comments say", () => {
  const there = globSync("library*.md", { cwd: join(root, "docs/reference") });
  assert.deepEqual(there.sort(), [...library.keys()].sort());
  for (const [path, text] of library) {
    assert.equal(read(`docs/reference/${path}`), text, `${path}: run \`node scripts/library-reference.ts\``);
    assert.doesNotMatch(text, /^type \w+ = any;$/m, path);
  }
});

test("every entry point of the package has a page", () => {
  const { exports } = JSON.parse(read("package.json")) as { exports: Readonly<Record<string, unknown>> };
  const names = Object.keys(exports).filter((name) => !name.endsWith(".json"));
  assert.deepEqual(
    PAGES.map(({ entry }) => (entry === "index" ? "." : `./${entry}`)),
    names,
  );
});

test("docs/reference/http.md says what the schemas of the service say", () => {
  assert.equal(read("docs/reference/http.md"), httpReference(), "run `node scripts/http-reference.ts`");
});

test("every body that docs/reference/http.md shows is one that its route takes", () => {
  const examples = bodyExamples();
  assert.deepEqual(
    routes.filter(({ body }) => body !== undefined).length,
    examples.length,
    "a route has a body and no example",
  );
  for (const { route, example } of examples) {
    const { error } = route.body?.safeParse(example) ?? {};
    assert.equal(error, undefined, `${route.method} ${route.path}: ${error?.message}`);
  }
});

test("no generated page has two headings of one anchor", () => {
  const others = ["http.md", "writes.md"].map((path) => [path, read(`docs/reference/${path}`)] as const);
  for (const [path, text] of [...library, ...others]) {
    const anchors = [...text.matchAll(/^#+ (.*)$/gm)].map(([, heading = ""]) => heading.toLowerCase());
    assert.deepEqual(
      anchors.filter((anchor, i) => anchors.indexOf(anchor) !== i),
      [],
      path,
    );
  }
});

test("docs/reference/errors.md names the class that each code is thrown with", () => {
  const rows = new Map(
    [...read("docs/reference/errors.md").matchAll(/^\| `([a-z_]+)` \| ([^|]*`[A-Z][^|]*) \|/gm)].map(
      ([, code = "", classes = ""]) => [code, classes],
    ),
  );
  assert.ok(rows.size > 100, `only ${rows.size} rows were found`);
  const wrong: string[] = [];
  for (const file of globSync("src/**/*.ts", { cwd: root })) {
    if (file.endsWith(".test.ts") || file.startsWith("src/testing/") || file.startsWith("src/cli/")) continue;
    for (const [, name = "", code = ""] of read(file).matchAll(/new ([A-Z]\w*Error|LeaseClosed)\(\s*"([a-z_]+)"/g)) {
      const classes = rows.get(code);
      // Codes of the command line have an exit status in that place.
      if (classes !== undefined && !classes.includes(`\`${name}\``))
        wrong.push(`${code}: ${file} throws a ${name}, not ${classes}`);
    }
  }
  assert.deepEqual(wrong, []);
});

test("every code of a problem in a manifest is explained", () => {
  const declared = library.get("library-manifest.md")?.split("### ProblemCode")[1]?.split("```")[1] ?? "";
  const codes = [...declared.matchAll(/"([a-z_]+)"/g)].map(([, code = ""]) => code);
  assert.ok(codes.length > 5);
  const [, list = ""] = read("docs/reference/errors.md").split("has a code of its own:");
  const explained = [...(list.split("\n## ")[0] ?? "").matchAll(/`([a-z_]+)`/g)].map(([, code = ""]) => code);
  assert.deepEqual(explained.sort(), codes.sort());
});

test("docs/reference/iam.md says what the policies say", () => {
  assert.equal(read("docs/reference/iam.md"), iamReference(), "run `node scripts/iam-reference.ts`");
});

test("docs/reference/writes.md says what DynamoDB gets", async () => {
  assert.equal(read("docs/reference/writes.md"), await writesReference(), "run `node scripts/writes-reference.ts`");
});

test("docs/reference/writes.md has every form of write that the protocol knows", async () => {
  const forms: Readonly<Record<WriteTrace["form"], true>> = {
    ...{ take: true, rebase: true, create: true, credit: true, share: true, operation: true },
  };
  const played = await Promise.all(GROUPS.flatMap((group) => group.forms.map((form) => form.play())));
  const writes = played.flat().flatMap((sent) => sent.writes);
  const found = new Set(writes.flatMap(({ trace }) => trace?.form ?? []));
  assert.deepEqual([...found].sort(), Object.keys(forms).sort());
  assert.deepEqual([...new Set(writes.map(({ kind }) => kind))].sort(), ["delete", "put", "update"]);
});

test("a clause that nobody has explained is an error, not a row without a reason", () => {
  const write = { operation: "UpdateItem", shard: 0, what: "shard", clauses: [], effects: [], item: [] } as const;
  assert.match(whyOf("rf = 12:00:00", [], write), /epoch/);
  assert.throws(() => whyOf("xy = 1", [], write), /no reason for: xy = 1/);
});

test("every text in docs/reference/limits.md is the limit that it shows, and is printed so that it can be read again", () => {
  const rows = [...read("docs/reference/limits.md").matchAll(/^\| `([^`]+)` \| `(Limit\.[^`]+)` \|$/gm)];
  assert.ok(rows.length > 15, `only ${rows.length} limits were found`);
  for (const [, text = "", made = ""] of rows) {
    const limit = limitOfText(text, calendar);
    assert.deepEqual(limit, withZone(new Function("Limit", `return ${made};`)(Limit) as Limit), text);
    assert.deepEqual(limitOfText(textOfLimit(limit), calendar), limit, text);
  }
});

/** A text always says a zone; UTC where it names none. */
function withZone(limit: Limit): Limit {
  return limit.reset === undefined ? limit : { ...limit, reset: { tz: "UTC", ...limit.reset } };
}

test("every text that docs/reference/limits.md calls refused is refused", () => {
  const [, table = ""] = read("docs/reference/limits.md").split("## Texts that are refused");
  const rows = [...table.matchAll(/^\| `([^`]+)` \|/gm)];
  assert.ok(rows.length > 5);
  for (const [, text = ""] of rows) assert.throws(() => limitOfText(text, calendar), { code: "limit_invalid" }, text);
});

test("docs/reference/limits.md has every word, unit and reset, and no other", () => {
  const markdown = read("docs/reference/limits.md");
  const row = (part: string) => new RegExp(`^\\| ${part} \\| (.*) \\|$`, "m").exec(markdown)?.[1] ?? "";
  const quoted = (text: string) => [...text.matchAll(/`([A-Za-z]+)`/g)].map(([, word = ""]) => word).sort();
  assert.deepEqual(quoted(row("`PERIOD`")), Object.keys(PERIODS).sort());
  assert.deepEqual(quoted(row("`DURATION`")), Object.keys(DURATIONS).sort());
  assert.deepEqual(quoted(row("`AMOUNT`, `BURST`")), Object.keys(FACTORS).sort());
  const words = [...markdown.matchAll(/^\| `([a-z]+)(?:=[A-Z]|` \| The limit)/gm)].map(([, word = ""]) => word);
  assert.deepEqual([...new Set(words)].sort(), [...LIMIT_WORDS, "soft", "shadow", "strict"].sort());
  const resets = [...markdown.matchAll(/^\| `([a-z]+ly)` \| `([^`]+)` \|$/gm)].map(([, name, cron]) => [name, cron]);
  assert.deepEqual(resets, RESETS);
});

test("docs/reference/metrics.md has every metric of the service with its type and labels, and no other", () => {
  const [, table = ""] = read("docs/reference/metrics.md").split("## Prometheus");
  const documented = [...table.matchAll(/^\| `(zael?_\w+)` \| (\w+) \| ([^|]+) \|/gm)].map(
    ([, name = "", type = "", labels = ""]) => ({
      name,
      type,
      labels: [...labels.matchAll(/`(\w+)`/g)].map(([, label = ""]) => label).sort(),
    }),
  );
  assert.deepEqual(documented, metricsOf(exercised().text("*", { ready: 1 })));
});

/** Metrics of which each has been counted at least once. */
function exercised(): Metrics {
  const metrics = new Metrics({ version: "1.0.0", store: "memory" });
  const at = { namespace: "default", entityId: "key-1", resource: "api" };
  const status = { ...at, limit: "rpm", counts: "rpm", available: 0, capacity: 1, requested: 1, exceeded: true };
  const primary = { ...status, kind: "drip", soft: false, shadow: false, retryAfterMs: 1 } as const;
  metrics.heard(["acquired", { ...at, consumed: { rpm: 1 }, role: "entity", shadowed: ["tpm"] }]);
  metrics.heard([
    "refused",
    { ...at, asked: { rpm: 1 }, statuses: [primary], primary, retryAfterMs: 1, remembered: false },
  ]);
  metrics.heard([
    "degraded",
    { ...at, kind: "store_unavailable", reason: "the store was unavailable", cause: undefined },
  ]);
  metrics.heard([
    "degraded",
    { ...at, kind: "other", reason: "slots", cause: new HoldLost("The slots are held no more.") },
  ]);
  metrics.heard(["acquireEnded", { ...at, result: "acquired", durationMs: 1_000, store: "memory" }]);
  metrics.heard(["waitBegan", at]);
  metrics.heard(["waitEnded", { ...at, waitedMs: 1_000 }]);
  metrics.heard(["threshold", { ...at, limit: "rpm", percent: 80, used: 8, capacity: 10, atMs: 0 }]);
  metrics.webhookEnded("default", "delivered");
  metrics.grpcEnded("ShouldRateLimit", "OK");
  metrics.edgeIgnored("limit", 1);
  metrics.leaseOpened("api", "default");
  metrics.leaseEnded("api", "default", "settled", 1);
  return metrics;
}

function metricsOf(text: string) {
  const types = [...text.matchAll(/^# TYPE (\w+) (\w+)$/gm)];
  return types.map(([, name = "", type = ""]) => {
    const series = [...text.matchAll(new RegExp(`^${name}(?:_count)?\\{([^}]*)\\}`, "gm"))];
    const labels = series.flatMap(([, pairs = ""]) => [...pairs.matchAll(/(\w+)="/g)].map(([, label = ""]) => label));
    return { name, type, labels: [...new Set(labels)].sort() };
  });
}

test("docs/reference/metrics.md has every instrument of OpenTelemetry with its kind, unit and attributes, and no other", () => {
  const [, section = ""] = read("docs/reference/metrics.md").split("## OpenTelemetry");
  const [table = ""] = section.split("## CloudWatch");
  const documented = [...table.matchAll(/^\| `([\w.]+)` \| ([\w -]+) \| `(\S+)` \| ([^|]+) \|/gm)].map(
    ([, name, kind, unit, attributes = ""]) => ({
      ...{ name, kind, unit },
      attributes: [...attributes.matchAll(/`([a-z][\w.]*)`/g)].map(([, attribute]) => attribute).sort(),
    }),
  );
  assert.deepEqual(documented, instrumentsMade());
});

/** What a meter was asked to make, in the order of the table, with the attributes that each got. */
function instrumentsMade() {
  const made: { name: string; kind: string; unit: string; attributes: string[] }[] = [];
  const maker = (kind: string) => (name: string, options: { unit: string }) => {
    const attributes = new Set<string>();
    const add = (_: number, given: object) => {
      for (const attribute of Object.keys(given)) attributes.add(attribute);
    };
    const instrument = {
      ...{ name, kind, unit: options.unit },
      get attributes() {
        return [...attributes].sort();
      },
    };
    made.push(instrument);
    return { add, record: add };
  };
  const meter = {
    createCounter: maker("counter"),
    createUpDownCounter: maker("up-down counter"),
    createHistogram: maker("histogram"),
  };
  const metrics = new LimiterMetrics(meter as never, { entityId: false });
  const at = { namespace: "default", entityId: "key-1", resource: "api" };
  const status = { ...at, limit: "rpm", counts: "rpm", available: 0, capacity: 1, requested: 1, exceeded: true };
  const primary = { ...status, kind: "drip", soft: false, shadow: false, retryAfterMs: 1 } as const;
  metrics.acquired({ ...at, consumed: { rpm: 1 }, role: "entity" });
  metrics.refused({ ...at, asked: { rpm: 1 }, statuses: [primary], primary, retryAfterMs: 1, remembered: false });
  metrics.acquireEnded({ ...at, result: "acquired", durationMs: 1, store: "memory" });
  metrics.waitBegan(at);
  metrics.waitEnded({ ...at, waitedMs: 1 });
  metrics.leaseOpened({ ...at, lease: "l_1" });
  metrics.leaseEnded({ ...at, lease: "l_1", status: "settled", heldMs: 1 });
  metrics.degraded({ ...at, kind: "store_unavailable", reason: "the store was unavailable", cause: undefined });
  metrics.consumedCapacity({ operation: "UpdateItem", table: "limits", units: 1 });
  return made.map(({ name, kind, unit, attributes }) => ({ name, kind, unit, attributes }));
}

test("docs/reference/metrics.md has every metric of the aggregator with its unit, and no other", () => {
  const [, table = ""] = read("docs/reference/metrics.md").split("## CloudWatch");
  const rows = [...table.matchAll(/^\| `(\w+)` \| (\w+) \|/gm)].map(([, name, unit]) => [name, unit]);
  assert.deepEqual(rows, Object.entries(UNITS));
});

function read(path: string): string {
  return readFileSync(join(root, path), "utf8");
}
