import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { type TestContext, test } from "node:test";
import { parse } from "yaml";
import { inShadow } from "../../src/engine/refusal/refused.ts";
import { Limit, RateLimiter } from "../../src/entry/index.ts";
import { openMemory } from "../../src/entry/memory.ts";
import { createService } from "../../src/entry/server.ts";
import type { BackgroundFault, Store } from "../../src/ports/store.ts";
import { Metrics } from "../../src/server/metrics.ts";
import { FaultStore } from "../../src/testing/fault-store.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";

const read = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), "utf8");

interface Dashboard {
  readonly panels: readonly {
    readonly id: number;
    readonly title: string;
    readonly targets: readonly { readonly expr: string; readonly legendFormat: string }[];
  }[];
  readonly templating: { readonly list: readonly { readonly name: string; readonly query: string }[] };
}

interface Rules {
  readonly groups: readonly { readonly rules: readonly Rule[] }[];
}

interface Rule {
  readonly alert: string;
  readonly expr: string;
  readonly annotations: { readonly summary: string };
}

const dashboard = JSON.parse(read("monitoring/grafana-dashboard.json")) as Dashboard;
const rules = (parse(read("monitoring/prometheus-rules.yaml")) as Rules).groups.flatMap((group) => group.rules);

/** The metrics that `/metrics` answers, each with the values of each of its labels. */
type Families = ReadonlyMap<string, ReadonlyMap<string, ReadonlySet<string>>>;

/** One query of the files: where it stands, and what it shows labels by. */
interface Query {
  readonly at: string;
  readonly expr: string;
  readonly shown: readonly string[];
}

const queries: readonly Query[] = [
  ...dashboard.panels.flatMap(({ title, targets }) =>
    targets.map(({ expr, legendFormat }) => ({
      at: `panel ${title}`,
      expr,
      shown: labelsIn(legendFormat, /{{(\w+)}}/g),
    })),
  ),
  ...dashboard.templating.list
    .filter(({ query }) => query !== "prometheus")
    .map(({ name, query }) => {
      const [, expr = "", label = ""] = /^label_values\((.+), (\w+)\)$/s.exec(query) ?? [];
      return { at: `variable ${name}`, expr, shown: [label] };
    }),
  ...rules.map(({ alert, expr, annotations }) => ({
    at: `alert ${alert}`,
    expr,
    shown: labelsIn(annotations.summary, /\$labels\.(\w+)/g),
  })),
];

test("one tenant cannot make series without end, nor use up the names of another", () => {
  const metrics = new Metrics({ version: "1", store: "memory" });
  const took = (namespace: string, i: number) =>
    metrics.heard([
      "acquired",
      { namespace, entityId: "e", resource: `r-${i % 300}`, consumed: { [`limit-${i}`]: 1 } } as never,
    ]);
  for (let i = 0; i < 5_000; i++) took("noisy", i);
  took("quiet", 1);
  const lines = metrics.text("*", {}).split("\n");
  assert.ok(lines.length < 1_300, `${lines.length} lines`);
  assert.ok(
    lines.includes('zae_limiter_tokens_total{direction="taken",limit="limit-1",resource="r-1",namespace="quiet"} 1'),
  );
});

test("every metric, label and value in the dashboard and the alerts is one that /metrics answers", async (t) => {
  const families = await everything(t);
  assert.ok(queries.length > 20, `only ${queries.length} queries were found`);
  const wrong = queries.flatMap((query) => problems(query, families));
  assert.deepEqual(wrong, []);
});

test("every metric is on the dashboard, and what is misspelled in it would be found", async (t) => {
  const families = await everything(t);
  const used = queries.flatMap(({ expr }) => metricsIn(expr).map(({ metric }) => metric.replace(/_bucket$/, "")));
  const all = [...families.keys()].map((name) => name.replace(/_(bucket|sum|count)$/, ""));
  assert.deepEqual([...new Set(used)].sort(), [...new Set(all)].sort());
  for (const [expr, said] of [
    ["sum(zae_limiter_request_total)", /no metric zae_limiter_request_total/],
    ['rate(zae_limiter_requests_total{outcome="refused"}[5m])', /zae_limiter_requests_total has no label outcome/],
    ['rate(zae_limiter_requests_total{result=~"acquired|denied"}[5m])', /result is never denied/],
    ["sum by (limits) (rate(zae_limiter_requests_total[5m]))", /no label limits/],
    ["sum by (result) (rate(zae_limiter_requests_total[5m])", /brackets/],
  ] as const) {
    assert.match(problems({ at: "x", expr, shown: [] }, families).join(), said);
  }
  assert.match(problems({ at: "x", expr: "zae_limiter_info", shown: ["release"] }, families).join(), /shows release/);
});

test("panels have ids of their own, and every alert has a row in the guide", () => {
  assert.equal(new Set(dashboard.panels.map(({ id }) => id)).size, dashboard.panels.length);
  const guide = read("docs/guide/metrics-and-alerts.md");
  const rows = Array.from(guide.matchAll(/^\| `(ZaeLimiter\w+)` \|/gm), ([, name]) => name);
  assert.deepEqual(
    rows,
    rules.map(({ alert }) => alert),
  );
});

function problems({ at, expr, shown }: Query, families: Families): string[] {
  const selected = metricsIn(expr);
  const wrong = selected.length === 0 ? ["no metric at all"] : [];
  const labels = new Set<string>();
  for (const { metric, matchers } of selected) {
    const family = families.get(metric);
    if (family === undefined) {
      wrong.push(`no metric ${metric}`);
      continue;
    }
    for (const label of family.keys()) labels.add(label);
    for (const { label, values } of matchers) {
      const known = family.get(label);
      if (known === undefined) wrong.push(`${metric} has no label ${label}`);
      else wrong.push(...values.filter((value) => !known.has(value)).map((value) => `${label} is never ${value}`));
    }
  }
  const grouped = Array.from(expr.matchAll(/\bby \(([^)]*)\)/g), ([, names = ""]) => names.split(/,\s*/)).flat();
  wrong.push(...grouped.filter((label) => !labels.has(label)).map((label) => `no label ${label} to group by`));
  // What is grouped away cannot be shown.
  const left = grouped.length === 0 ? labels : new Set(grouped);
  wrong.push(...shown.filter((label) => !left.has(label)).map((label) => `shows ${label}, which is not there`));
  const depth = [...expr].reduce((open, char) => open + ("([{".includes(char) ? 1 : ")]}".includes(char) ? -1 : 0), 0);
  if (depth !== 0) wrong.push("brackets do not match");
  return wrong.map((problem) => `${at}: ${problem}`);
}

function metricsIn(expr: string) {
  return Array.from(expr.matchAll(/\b(zae_limiter_\w+)(?:{([^}]*)})?/g), ([, metric = "", selector = ""]) => ({
    metric,
    matchers: Array.from(selector.matchAll(/(\w+)(=~|!=|=)"([^"]*)"/g), ([, label = "", operator, value = ""]) => ({
      label,
      // Variables stand for whatever there is.
      values: value.startsWith("$") ? [] : operator === "=~" ? value.split("|") : [value],
    })),
  }));
}

function labelsIn(text: string, pattern: RegExp): readonly string[] {
  return Array.from(text.matchAll(pattern), ([, label = ""]) => label);
}

/** What `/metrics` answers once everything has happened that it can count. */
async function everything(t: TestContext): Promise<Families> {
  const clock = new SimulatedClock(1_800_000_000_000);
  const lost: ((fault: BackgroundFault) => void)[] = [];
  const onBackgroundFault: Store["onBackgroundFault"] = (_, listener) => {
    lost.push(listener);
    return () => {};
  };
  const store = Object.assign(new FaultStore(openMemory(), {}), { onBackgroundFault });
  const limiter = await RateLimiter.open({ store, clock });
  const allowing = await RateLimiter.open({ store, clock, onUnavailable: "allow" });
  await limiter.setSystemDefaults([Limit.perMinute("rpm", 10)]);
  await limiter.setAccess({ resource: "off" }, "disabled");
  const services = await Promise.all([limiter, allowing].map((one) => createService({ limiter: one, open: true })));
  t.after(async () => {
    for (const service of services) await service.close();
    await limiter.close();
  });
  const gpt = { entityId: "key-1", resource: "gpt-4" };
  for (const one of [limiter, allowing]) await one.available(gpt);
  await (await limiter.acquire({ ...gpt, consume: { rpm: 1 } })).rollback();
  const leases = ["settle", "rollback"];
  for (const end of leases) {
    const answer = await post(services[0], "acquire", { ...gpt, consume: { rpm: 1 }, holdMs: 60_000 });
    await post(services[0], `leases/${answer.leaseId}/${end}`, {});
  }
  await limiter.acquire({ ...gpt, consume: { rpm: 9 } });
  await limiter.tryAcquire({ ...gpt, consume: { rpm: 1 } });
  const leaving = new AbortController();
  const wait = { maxMs: 60_000 };
  const waiting = limiter.acquire({ ...gpt, consume: { rpm: 1 }, wait, signal: leaving.signal });
  await clock.advance(1_000);
  leaving.abort();
  await waiting.catch(() => {});
  await limiter.acquire({ ...gpt, resource: "off", consume: { rpm: 1 } }).catch(() => {});
  for (const one of [limiter, allowing]) {
    store.failNext("take", "refused");
    // Of another entity: a refusal that is remembered does not ask the store.
    await one.acquire({ ...gpt, entityId: "key-2", consume: { rpm: 1 } }).catch(() => {});
  }
  await limiter.tryAcquire(inShadow({ ...gpt, consume: { rpm: 10 } }));
  const fault = {
    entityId: "$SYSTEM",
    resource: "*",
    kind: "writes_lost",
    reason: "It lost them.",
    cause: undefined,
  } as const;
  for (const listener of lost) listener(fault);
  const families = new Map<string, Map<string, Set<string>>>();
  for (const service of services) {
    const text = await (await service.fetch(new Request("http://localhost/metrics"))).text();
    for (const [, name = "", labels = ""] of text.matchAll(/^(zae_limiter_\w+){(.*)} \S+$/gm)) {
      const family = families.get(name) ?? new Map<string, Set<string>>();
      families.set(name, family);
      for (const [, label = "", value = ""] of labels.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)) {
        family.set(label, (family.get(label) ?? new Set()).add(value));
      }
    }
  }
  return families;
}

async function post(
  service: Awaited<ReturnType<typeof createService>> | undefined,
  path: string,
  body: object,
): Promise<{ readonly leaseId: string }> {
  const request = new Request(`http://localhost/v1/namespaces/default/${path}`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  return (await (await service?.fetch(request))?.json()) as { leaseId: string };
}
