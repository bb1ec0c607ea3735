import assert from "node:assert/strict";
import { Limit } from "../../src/entry/index.ts";
import { browserTests } from "./chromium.ts";
import { row, served, visit, wordsOf } from "./page-kit.ts";

const { inBrowser } = browserTests();

/** A key below acme, which has $50 a month over all models; a call of $0.25, and one into the debt of a soft limit. */
async function spent({ limiter, take }: Awaited<ReturnType<typeof served>>): Promise<void> {
  await limiter.createEntity({ id: "acme" });
  await limiter.createEntity({ id: "key-1", parentId: "acme" });
  await limiter.setTotals("acme", [Limit.quota("usd", 50_000_000, { reset: "monthly" })]);
  await limiter.setResourceDefaults(
    "gpt-5-mini",
    [
      Limit.perMinute("rpm", 60, { counts: "requests" }),
      Limit.quota("day_usd", 200_000, { counts: "usd", reset: "daily", soft: true }),
    ],
    { appliesTo: "callers" },
  );
  assert.ok(await take("key-1", "gpt-5-mini", { usd: 250_000 }));
}

inBrowser("a budget is shown in dollars: its bucket, why, its debt, its usage", async (t, open) => {
  const service = await served(t);
  await spent(service);
  const page = await open();
  await page.clock.setSystemTime(service.clock.now());
  await visit(page, service.url, "#/buckets");
  assert.match(await wordsOf(row(page, "acme", "*")), /usd ?\$49\.75 ?\/ \$50\.00/);
  assert.match(await wordsOf(row(page, "key-1", "gpt-5-mini")), /day_usd ?-\$0\.05 ?\/ \$0\.20.*\$0\.05 in debt/);
  await row(page, "key-1", "gpt-5-mini").getByTestId("bucket-open").click();
  const totals = page.getByTestId("explain-totals");
  await totals.waitFor();
  assert.match(await wordsOf(totals), /usd ?\$49\.75 ?\$50\.00/);
  await visit(page, service.url, "#/usage?entity=key-1");
  assert.match(await wordsOf(page.getByTestId("usage-totals")), /day_usd ?\$0\.25/);
  assert.match(await wordsOf(page.getByTestId("usage-row")), /\$0\.25/);
  await page.getByTestId("usage-metric").selectOption("day_usd");
  const label = await page.getByTestId("usage-chart").getAttribute("aria-label");
  assert.match(label ?? "", /^Dollars of day_usd.*key-1.*: \$0\.25 in total/);
  await visit(page, service.url, "#/limits?entity=acme");
  assert.equal(await page.getByTestId("limit-capacity").inputValue(), "$50.00");
});
