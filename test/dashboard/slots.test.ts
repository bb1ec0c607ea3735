import assert from "node:assert/strict";
import { Limit } from "../../src/entry/index.ts";
import { browserTests } from "./chromium.ts";
import { row, saveForAll, served, visit, wordsOf } from "./page-kit.ts";

const { inBrowser } = browserTests();

inBrowser("slots are cells, those that are held filled, and the editor has their hold", async (t, open) => {
  const service = await served(t);
  const { limiter, url } = service;
  await limiter.setResourceDefaults("gpt-4", [
    Limit.perMinute("rpm", 60),
    Limit.concurrent("parallel", 10, { holdMs: 60_000 }),
    Limit.concurrent("many", 500, { holdMs: 300_000 }),
    Limit.concurrent("watched", 2, { soft: true }),
  ]);
  const about = { entityId: "key-1", resource: "gpt-4" };
  await limiter.acquire({ ...about, consume: { rpm: 5, parallel: 7, many: 120, watched: 1 } });
  await limiter.acquire({ ...about, consume: { rpm: 5, parallel: 2, watched: 2 } });
  const page = await open();
  await visit(page, url);
  const key = row(page, "key-1", "gpt-4");
  const cells = (limit: string) => key.locator(`[data-testid=bucket-bar][data-limit=${limit}] i`);
  assert.equal(await cells("parallel").count(), 10);
  assert.equal(await key.locator("[data-limit=parallel] i[data-held]").count(), 9);
  assert.equal(await cells("many").count(), 1, "so many are a bar");
  const gauge = (limit: string) => key.locator(`.gauge:has([data-limit=${limit}])`);
  assert.match(await wordsOf(gauge("parallel")), /^parallel ?1 ?\/ 10 ?9 held at once ?low$/);
  assert.match(await wordsOf(gauge("watched")), /^watched ?-1 ?\/ 2 ?soft, 3 held at once ?1 too many$/);
  const valueText = await key.locator("[data-limit=parallel]").getAttribute("aria-valuetext");
  assert.equal(valueText, "1 of 10 free");
  await key.getByTestId("bucket-open").click();
  const limits = key.getByTestId("explain-limits");
  await limits.waitFor();
  assert.match(await wordsOf(limits), /parallel ?1 ?10 ?at once, each held for at most 1 min; next free by /);

  await page.goto(`${url}#/limits?level=resource&resource=gpt-4`);
  const edited = page.locator("[data-testid=limit-row][data-limit=parallel]");
  await edited.waitFor();
  assert.equal(await edited.getByTestId("limit-hold").inputValue(), "60");
  await edited.getByTestId("limit-hold").fill("90");
  await edited.getByTestId("limit-capacity").fill("12");
  await saveForAll(page);
  await page.getByTestId("limits-saved").waitFor();
  const stored = await limiter.getResourceDefaults("gpt-4");
  assert.deepEqual(
    stored.find(({ name }) => name === "parallel"),
    Limit.concurrent("parallel", 12, { holdMs: 90_000 }),
  );
});
