import assert from "node:assert/strict";
import { Limit } from "../../src/entry/index.ts";
import { browserTests } from "./chromium.ts";
import { attributes, ready, served, until, visit, wordsOf } from "./page-kit.ts";

const { inBrowser, inDeepBrowser } = browserTests();

async function leased(service: Awaited<ReturnType<typeof served>>) {
  const { limiter, url } = service;
  await limiter.setSystemDefaults([Limit.perDay("tpd", 10_000), Limit.perDay("rpd", 100, { counts: "requests" })]);
  const acquire = async (entityId: string, tpd: number, also?: object) => {
    const answer = await fetch(new URL("/v1/namespaces/default/acquire", url), {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ entityId, resource: "gpt-4", consume: { tpd }, holdMs: 600_000, ...(also && { also }) }),
    });
    assert.equal(answer.status, 201);
    return ((await answer.json()) as { leaseId: string }).leaseId;
  };
  const left = async (entityId: string, resource = "gpt-4") =>
    (await limiter.available({ entityId, resource }))[0]?.available;
  return { acquire, left };
}

inBrowser("open leases are listed as they come and go, shown, and settled by totals", async (t, open) => {
  const service = await served(t);
  const { acquire, left } = await leased(service);
  const page = await open();
  await page.clock.setSystemTime(service.clock.now());
  await visit(page, service.url, "#/leases");
  await page.getByTestId("empty").getByText("No open leases").waitFor();
  await page.locator("[data-testid=live][data-state=open]").waitFor();
  const one = await acquire("key-1", 2_500);
  const row = page.locator(`[data-testid=lease-row][data-lease="${one}"]`);
  await row.waitFor();
  assert.match(await wordsOf(row), /^key-1 ?gpt-4 ?2,500 tpd, 1 request ?in (10 min|9 min \d+ s), then charged/);
  await acquire("key-2", 10, { gpu: { tpd: 3 } });
  const rows = page.getByTestId("lease-row");
  await until(
    () => rows.count(),
    (count) => count === 2,
  );
  await page.getByTestId("leases-entity").fill("key-1");
  await until(
    () => rows.count(),
    (count) => count === 1,
  );
  assert.deepEqual(await attributes(rows, "data-entity"), ["key-1"]);
  await row.getByTestId("lease-show").click();
  const card = page.getByTestId("lease-card");
  await card.getByText("Status").waitFor();
  assert.match(await wordsOf(card), /Holds on gpt-4 ?2,500 tpd, 1 request/);
  await page.waitForURL(new RegExp(`#/leases\\?entity=key-1&id=${one}$`));

  await card.getByTestId("lease-settle").click();
  await page.locator("[data-testid=lease-total][data-measure=tpd]").fill("1,000");
  await page.getByTestId("dialog-submit").click();
  await page.locator("[data-testid=lease-card][data-status=settled]").waitFor();
  assert.match(await wordsOf(page.getByTestId("lease-done")), /^Settled/);
  assert.equal(await left("key-1"), 9_000);
  await row.waitFor({ state: "detached" });
});

inDeepBrowser("a lease is rolled back after a question, and its address shows it, ended too", async (t, open) => {
  const service = await served(t);
  const { acquire, left } = await leased(service);
  const id = await acquire("key-2", 400, { gpu: { tpd: 3 } });
  const page = await open();
  await page.clock.setSystemTime(service.clock.now());
  await visit(page, service.url, `#/leases?id=${id}`);
  const card = page.getByTestId("lease-card");
  await card.getByTestId("lease-rollback").click();
  assert.match(await wordsOf(page.getByTestId("confirm")), /key-2 holds with this lease is given back.*400 tpd/);
  await page.getByTestId("dialog-cancel").click();
  assert.equal(await left("key-2"), 9_600, "nothing was done");
  await card.getByTestId("lease-rollback").click();
  await page.getByTestId("dialog-submit").click();
  await page.locator("[data-testid=lease-card][data-status=rolledBack]").waitFor();
  assert.deepEqual([await left("key-2"), await left("key-2", "gpu")], [10_000, 10_000]);
  assert.equal(await card.getByTestId("lease-settle").count(), 0);
  await page.reload();
  await ready(page);
  await page.locator("[data-testid=lease-card][data-status=rolledBack]").waitFor();
  await page.getByTestId("lease-close").click();
  await page.waitForURL(/#\/leases$/);
});
