import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { TestContext } from "node:test";
import type { Locator, Page } from "playwright-core";
import { Limit, type OpenOptions, RateLimiter } from "../../src/entry/index.ts";
import { createService, type ServiceOptions } from "../../src/entry/server.ts";

/** All pages, each with what it shows something for. */
export const PAGES: Readonly<Record<string, string>> = {
  overview: "#/overview",
  buckets: "#/buckets",
  refusals: "#/refusals",
  usage: "#/usage",
  limits: "#/limits?entity=key-1&resource=gpt-4",
  leases: "#/leases",
  entities: "#/entities",
  plans: "#/plans",
  audit: "#/audit",
  namespaces: "#/namespaces",
};

export const LONG_ID = `key-${"an-identifier-of-somebody@who-likes-them-long.".repeat(5)}`;
export const LONG_RESOURCE = "models/providers/openai/eu-west-1/gpt-4-turbo-2024-04-09-preview";
export const HOSTILE_NAME = `<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>`;

/** Tuesday noon; the limiter's clock stands until a test moves it. */
const START_MS = Date.UTC(2026, 2, 10, 12);

/** A limiter with a clock that stands, and a real service in front of it that listens on localhost. */
export async function served(
  t: TestContext,
  options: Omit<ServiceOptions, "limiter" | "store"> = {},
  place: OpenOptions = { store: "memory" },
) {
  let nowMs = START_MS;
  const clock = { now: () => nowMs };
  const limiter = await RateLimiter.open({ ...place, clock, denyMemoryMs: 0, configTtlMs: 0, unnamedLimits: "allow" });
  const service = await createService({ limiter, log: () => {}, drainMs: 100, ...options });
  const { url, port } = await service.listen({ port: 0 });
  t.after(async () => {
    await service.close();
    await limiter.close();
  });
  const take = async (entityId: string, resource: string, consume: Readonly<Record<string, number>>) => {
    const outcome = await limiter.tryAcquire({ entityId, resource, consume });
    if (outcome.ok) await outcome.lease.settle();
    return outcome.ok;
  };
  return {
    ...{ limiter, service, url, port, take, clock },
    advance: (ms: number) => {
      nowMs += ms;
    },
  };
}

/** An organisation with a project and keys below it, limits at several levels, and buckets in every state. */
export async function furnish({ limiter, take }: Awaited<ReturnType<typeof served>>): Promise<void> {
  const by = { principal: "ops" };
  await limiter.setSystemDefaults([Limit.perMinute("rpm", 30)], by);
  await limiter.setResourceDefaults("gpt-4", [Limit.perMinute("rpm", 100)], by);
  await limiter.setResourceDefaults("gpt-4", [Limit.perMinute("rpm", 60), Limit.perMinute("tpm", 10_000)], by);
  await limiter.setResourceDefaults("reports", [
    Limit.quota("month", 50, { reset: { cron: "0 0 1 * *", tz: "Europe/Berlin" } }),
    Limit.perMinute("cost", 100, { soft: true }),
  ]);
  await limiter.createPlan({ id: "gold", name: "Gold", metadata: { price: "20" } }, by);
  await limiter.setPlanLimits("gold", [Limit.perMinute("rpm", 500, { counts: "requests" })], { ...by, inherit: true });
  await limiter.createEntity({ id: "acme", name: "Acme", metadata: { plan: "gold" } }, by);
  await limiter.createEntity({ id: "key-1", parentId: "acme" }, by);
  await limiter.createEntity({ id: "key-2", name: HOSTILE_NAME, parentId: "acme", cascade: false }, by);
  await limiter.createEntity({ id: LONG_ID, name: `${"A name that does not end. ".repeat(9)}`, parentId: "key-2" }, by);
  await limiter.setLimits("acme", [Limit.perMinute("rpm", 200), Limit.perMinute("tpm", 30_000)], by);
  assert.ok(await take("key-1", "gpt-4", { rpm: 20, tpm: 4_000 }));
  assert.ok(await take("key-2", "gpt-4", { rpm: 60, tpm: 9_500 }));
  assert.ok(await take("key-1", "reports", { month: 20, cost: 350 }));
  assert.ok(await take(LONG_ID, LONG_RESOURCE, { rpm: 5 }));
}

/** Opens a page and waits until it has what it shows. */
export async function visit(page: Page, url: string, hash = "#/buckets"): Promise<void> {
  await page.goto(`${url}${hash}`);
  await ready(page);
}

/** Of a resource, not of one entity on it. */
export const DEFAULT_LIMITS = "#/limits?resource=gpt-4";

/** Saves limits that are not of one entity, and says yes to the question whether they are to be changed for so many. */
export async function saveForAll(page: Page): Promise<void> {
  await page.getByTestId("limits-save").click();
  await page.getByTestId("confirm").getByTestId("dialog-submit").click();
}

/** Goes to a page of the dashboard by its address. */
export async function goTo(page: Page, name: string): Promise<void> {
  await page.evaluate(`location.hash = ${JSON.stringify(PAGES[name])}`);
  await page.locator(`[data-testid=app][data-ready=true][data-page=${name}]`).waitFor();
}

export async function ready(page: Page): Promise<void> {
  await page.locator("[data-testid=app][data-ready=true]").waitFor();
}

export function row(page: Page, entity: string, resource: string): Locator {
  return page.locator(`[data-testid=bucket-row][data-entity="${entity}"][data-resource="${resource}"]`);
}

export function bar(page: Page, entity: string, resource: string, limit: string): Locator {
  return row(page, entity, resource).locator(`[data-testid=bucket-bar][data-limit="${limit}"]`);
}

/** What the bar says is left. */
export async function left(meter: Locator): Promise<number> {
  return Number(await meter.getAttribute("aria-valuenow"));
}

/** Waits until it holds, however busy the machine is; the time limit of the test ends what never will. */
export async function until<Value>(read: () => Promise<Value>, isRight: (value: Value) => boolean): Promise<Value> {
  for (;;) {
    const value = await read();
    if (isRight(value)) return value;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** An attribute of each. */
export async function attributes(locator: Locator, name: string): Promise<(string | null)[]> {
  return Promise.all((await locator.all()).map((each) => each.getAttribute(name)));
}

/** The words of an element, spaces and line breaks made one. */
export async function wordsOf(locator: Locator): Promise<string> {
  return ((await locator.textContent()) ?? "").replace(/\s+/g, " ").trim();
}

const axeSource = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

interface Violation {
  readonly id: string;
  readonly impact: string;
  readonly nodes: readonly { readonly html: string }[];
}

/** The number of animations that change colours: transitions of other properties do not. */
const COLOURING =
  "document.getAnimations().filter((one) => !(one instanceof CSSTransition) || one.transitionProperty.includes('color')).length";

/** What axe calls serious or critical. */
export async function axeFindings(page: Page): Promise<string[]> {
  // A row that has just arrived is coloured for a moment. Bars that fill are never still on a quiet machine, and axe looks at no width.
  await until(
    () => page.evaluate(COLOURING) as Promise<number>,
    (running) => running === 0,
  );
  if ((await page.evaluate("typeof axe")) === "undefined") await page.evaluate(axeSource);
  const { violations, passes } = (await page.evaluate("axe.run(document, { resultTypes: ['violations'] })")) as {
    violations: Violation[];
    passes: unknown[];
  };
  assert.ok(passes.length > 15, "axe looked at next to nothing");
  return violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .map(({ id, nodes }) => `${id}: ${nodes[0]?.html}`);
}
