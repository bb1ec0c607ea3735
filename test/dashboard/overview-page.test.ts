import assert from "node:assert/strict";
import type { Page } from "playwright-core";
import { Limit } from "../../src/entry/index.ts";
import { browserTests } from "./chromium.ts";
import { attributes, goTo, PAGES, ready, served, until, visit, wordsOf } from "./page-kit.ts";

const { inBrowser, inDeepBrowser } = browserTests();

const TILES = ["requests", "refused", "nearest", "slots", "thresholds", "shadows", "degraded"];

function tile(page: Page, name: string) {
  return page.getByTestId(`tile-${name}`);
}

/** Something for every tile: a budget in dollars with a threshold, slots, a shadow, refusals. */
async function busy({ limiter, take }: Awaited<ReturnType<typeof served>>): Promise<void> {
  await limiter.setSystemDefaults([
    Limit.perMinute("rpm", 2),
    Limit.perMinute("tight", 1, { shadow: true }),
    Limit.concurrent("parallel", 8, { holdMs: 600_000 }),
  ]);
  await limiter.createEntity({ id: "acme" });
  await limiter.createEntity({ id: "key-1", parentId: "acme" });
  await limiter.setTotals("acme", [Limit.quota("usd", 5_000_000, { reset: "monthly", notifyAt: [50, 80] })]);
  await limiter.acquire({ entityId: "key-1", resource: "gpt-4", consume: { parallel: 5 } });
  assert.ok(await take("key-1", "gpt-4", { rpm: 2, usd: 4_250_000, tight: 1 }));
  assert.ok(await take("key-1", "gpt-4", { tight: 1 }));
  for (let i = 0; i < 3; i++) assert.equal(await take("key-1", "gpt-4", { rpm: 1 }), false);
}

inBrowser("the first page says how it is going, and each tile leads to where more is said", async (t, open) => {
  const service = await served(t);
  await busy(service);
  const page = await open({ timezoneId: "UTC" });
  await page.clock.setSystemTime(service.clock.now());
  await page.goto(service.url);
  await ready(page);
  assert.equal(await page.getByTestId("app").getAttribute("data-page"), "overview");
  const words = async (name: string) => wordsOf(tile(page, name));
  assert.match(await words("refused"), /key-1 gpt-4, by rpm ?3/);
  assert.match(await words("nearest"), /acme usd on all resources together.*85 % of \$5\.00/);
  // 12 hours of a day: 4.25 in 23 hours, so 0.75 last four of them.
  assert.match(await words("nearest"), /\$0\.75 left, used up today at 16:03 at today's pace/);
  assert.match(await words("slots"), /key-1 parallel on gpt-4 ?5 of 8/);
  assert.match(await words("thresholds"), /acme usd on all resources together ?50, 80 %/);
  assert.match(await words("shadows"), /tight would have refused 2, 2 customers/);
  assert.equal(await tile(page, "degraded").getAttribute("data-state"), "ok");
  assert.equal(await page.getByTestId("tile-empty").count(), 0);
  assert.match(
    (await page.getByTestId("overview-chart").getAttribute("aria-label")) ?? "",
    /hour of 12:00.* 3 refused/,
  );
  // Live: of the stream, not of the route.
  await page.locator("[data-testid=live][data-state=open]").waitFor();
  assert.equal(await wordsOf(page.getByTestId("live-refused")), "0");
  assert.equal(await service.take("key-1", "gpt-4", { rpm: 1 }), false);
  assert.ok(await service.take("key-2", "gpt-4", { rpm: 1 }));
  for (const id of ["live-refused", "live-granted"]) {
    await until(
      () => wordsOf(page.getByTestId(id)),
      (text) => text !== "0",
    );
  }
  const headings = await Promise.all(TILES.map((name) => tile(page, name).getByRole("heading").count()));
  assert.deepEqual(
    headings,
    TILES.map(() => 1),
  );
  const leads = await Promise.all(TILES.map(async (name) => (await attributes(tile(page, name), "href"))[0]));
  const places = ["usage", "refusals", "buckets", "leases", "buckets", "usage", "overview?about=degraded"];
  assert.deepEqual(
    leads,
    places.map((place) => `#/${place}`),
  );
  await tile(page, "refused").click();
  await page.locator("[data-testid=app][data-ready=true][data-page=refusals]").waitFor();
});

inBrowser("where there is nothing yet each tile says what fills it", async (t, open) => {
  const service = await served(t);
  const page = await open();
  await page.clock.setSystemTime(service.clock.now());
  await visit(page, service.url, "#/overview");
  for (const [name, said] of [
    ["refused", /Nobody was refused in 24 hours.*zae-limiter refusals/],
    ["nearest", /No quota is set.*-l month:1M,reset=monthly/],
    ["slots", /at once.*-l parallel:10@60s/],
    ["thresholds", /notify=80\/95/],
    ["shadows", /-l rpm:100\/min,shadow/],
  ] as const) {
    assert.match(await wordsOf(tile(page, name).getByTestId("tile-empty")), said);
  }
  await tile(page, "degraded").getByText("Everything worked").waitFor();
});

inBrowser("a route that fails marks its tiles, and the live numbers stay", async (t, open) => {
  const service = await served(t);
  const page = await open();
  await page.route("**/overview", (route) =>
    route.fulfill({ status: 503, json: { code: "unavailable", detail: "The store does not respond." } }),
  );
  await visit(page, service.url, "#/overview");
  for (const name of TILES) {
    assert.equal(await tile(page, name).getByTestId("error").getAttribute("data-code"), "unavailable", name);
  }
  assert.equal(await wordsOf(page.getByTestId("live-granted")), "0");
  await page.unroute("**/overview");
  await page.reload();
  await ready(page);
  assert.equal(await page.getByTestId("error").count(), 0);
});

inDeepBrowser(
  "of many buckets the tiles say that not all were looked at, and of faults since when",
  async (t, open) => {
    const service = await served(t);
    await busy(service);
    const page = await open({ timezoneId: "UTC" });
    const answer = await service.limiter.overview();
    const atMs = service.clock.now();
    const fault = (minutes: number) => ({ atMs: atMs - minutes * 60_000, reason: "the store did not answer" });
    await page.route("**/overview", (route) =>
      route.fulfill({ json: { ...answer, partial: ["nearest", "slots"], degraded: [fault(1), fault(2), fault(9)] } }),
    );
    await visit(page, service.url, "#/overview");
    assert.match(await wordsOf(tile(page, "nearest")), /of the 2,000 looked at/);
    assert.match(await wordsOf(tile(page, "slots")), /of the 2,000 looked at/);
    assert.doesNotMatch(await wordsOf(tile(page, "thresholds")), /looked at/);
    assert.equal(await tile(page, "degraded").getAttribute("data-state"), "degraded");
    assert.match(await wordsOf(tile(page, "degraded")), /since 11:51:00, last at 11:59:00: the store did not answer/);
    await tile(page, "degraded").click();
    await page.getByTestId("about-degraded").getByText("3 faults").waitFor();
  },
);

inBrowser(
  "on a phone the navigation is a bar at the bottom with five pages and the others behind More",
  async (t, open) => {
    const service = await served(t);
    await busy(service);
    const page = await open({ viewport: { width: 360, height: 740 } });
    await page.clock.setSystemTime(service.clock.now());
    await visit(page, service.url, "#/overview");
    const bar = await page.getByTestId("nav").boundingBox();
    assert.ok(bar !== null && bar.height <= 56 && bar.y + bar.height === 740 && bar.width === 360, JSON.stringify(bar));
    const seen = async () => {
      const names = Object.keys(PAGES);
      const isSeen = await Promise.all(names.map((name) => page.getByTestId(`nav-${name}`).isVisible()));
      return names.filter((_, i) => isSeen[i]);
    };
    const first = ["overview", "buckets", "refusals", "usage", "limits"];
    assert.deepEqual(await seen(), first);
    const cut = `[...document.querySelectorAll(".nav a, .nav button")].filter((each) => each.scrollWidth > each.clientWidth).length`;
    assert.equal(await page.evaluate(cut), 0, "no name is cut off");
    const tops: number[] = [];
    for (const name of TILES) {
      const box = await tile(page, name).boundingBox();
      assert.equal(box?.x, 16, name);
      tops.push(box?.y ?? 0);
    }
    assert.equal(new Set(tops).size, TILES.length, "below each other");
    await page.getByTestId("nav-more").focus();
    await page.keyboard.press("Enter");
    assert.deepEqual(await seen(), Object.keys(PAGES));
    await page.keyboard.press("Escape");
    assert.deepEqual(await seen(), first);
    assert.equal(await page.evaluate("document.activeElement.dataset.testid"), "nav-more");
    await page.keyboard.press("Enter");
    await page.getByTestId("nav-audit").click();
    await page.locator("[data-testid=app][data-ready=true][data-page=audit]").waitFor();
    assert.deepEqual(await seen(), first, "the choice closes it");
    // A resource stands beside its entity, not under the labels.
    const rightOfLabels = `[...document.querySelectorAll(".audit td > span")].every((each) => each.offsetLeft > 100)`;
    assert.equal(await page.evaluate(rightOfLabels), true);
    await page.setViewportSize({ width: 600, height: 740 });
    assert.deepEqual([await page.getByTestId("nav-more").isVisible(), await seen()], [false, Object.keys(PAGES)]);
  },
);

inBrowser("usage has totals beside resources, dollars, and what shadows would have refused", async (t, open) => {
  const service = await served(t);
  const { limiter, take } = service;
  await busy(service);
  await limiter.setLimits("old", [Limit.perMinute("requests", 9)]);
  assert.ok(await take("old", "gpt-4", {}));
  const page = await open();
  await page.clock.setSystemTime(service.clock.now());
  await visit(page, service.url, "#/usage");
  assert.match(await wordsOf(page.getByTestId("usage-all-resources")), /All resources together ?usd ?\$4\.25$/);
  assert.match(await wordsOf(page.getByTestId("usage-totals")), /wouldRefuse ?2$/);
  const heads = await page.getByTestId("usage-table").getByRole("columnheader").allTextContents();
  assert.deepEqual(
    heads.filter((head) => /requests|wouldRefuse/.test(head)),
    ["granted requests", "requests", "wouldRefuse"],
  );
  const rows = page.getByTestId("usage-row");
  assert.ok((await attributes(rows, "data-resource")).includes("*"));
  const total = page.locator('[data-testid=usage-row][data-resource="*"]');
  assert.match(await wordsOf(total), /acme ?all resources together.*\$4\.25/);
  await page.getByTestId("usage-metric").selectOption("usd");
  await until(
    async () => (await page.getByTestId("usage-chart").getAttribute("aria-label")) ?? "",
    // No limit on a resource counts dollars: whoever asked has them there, beside the total of its organisation.
    (label) => /^Dollars of usd.*key-1.*: \$4\.25 in total/.test(label) && !label.includes("acme"),
  );
});

inBrowser("sums of refusals stand above the rows, and equal rows of a minute are one", async (t, open) => {
  const service = await served(t);
  await busy(service);
  const page = await open();
  await page.clock.setSystemTime(service.clock.now());
  await visit(page, service.url, "#/refusals");
  await page.locator("[data-testid=live][data-state=open]").waitFor();
  for (let i = 0; i < 4; i++) assert.equal(await service.take("key-1", "gpt-4", { rpm: 1 }), false);
  const row = page.getByTestId("refusal-row");
  await row.getByTestId("refusal-times").getByText("4 times").waitFor();
  assert.deepEqual(await attributes(row, "data-count"), ["4"]);
  service.advance(60_000);
  await service.take("key-1", "gpt-4", { rpm: 2 });
  assert.equal(await service.take("key-1", "gpt-4", { rpm: 1 }), false);
  await until(
    () => attributes(row, "data-count"),
    (counts) => counts.join() === "1,4",
  );
  const [sums, rows] = [await page.getByTestId("refusal-sums").boundingBox(), await row.first().boundingBox()];
  assert.ok(sums !== null && rows !== null && sums.y < rows.y);
});

inBrowser("the namespace default cannot be removed, and says so", async (t, open) => {
  const service = await served(t);
  await service.limiter.registerNamespace("other");
  const page = await open();
  await visit(page, service.url, "#/namespaces?namespace=other");
  await goTo(page, "namespaces");
  const remove = page.locator("[data-namespace=default] [data-testid=namespace-delete]");
  assert.equal(await remove.isDisabled(), true);
  assert.match((await remove.getAttribute("title")) ?? "", /default cannot be removed/);
});
