import assert from "node:assert/strict";
import { Limit } from "../../src/entry/index.ts";
import { browserTests } from "./chromium.ts";
import { attributes, bar, row, served, until, visit } from "./page-kit.ts";

const { inBrowser, inDeepBrowser } = browserTests();

inBrowser("marks stand on the bar, and what is reached is listed as it comes", async (t, open) => {
  const service = await served(t);
  await service.limiter.setResourceDefaults("gpt-4", [
    Limit.quota("day", 1_000, { reset: "daily", notifyAt: [50, 80, 95] }),
    Limit.perMinute("rpm", 10),
  ]);
  await service.take("key-1", "gpt-4", { day: 600, rpm: 1 });
  const page = await open();
  await visit(page, service.url);
  const marks = bar(page, "key-1", "gpt-4", "day").getByTestId("bucket-mark");
  assert.deepEqual(await attributes(marks, "data-percent"), ["50", "80", "95"]);
  assert.deepEqual(await attributes(marks, "data-told"), ["true", null, null]);
  assert.equal(await bar(page, "key-1", "gpt-4", "rpm").getByTestId("bucket-mark").count(), 0);
  const told = row(page, "key-1", "gpt-4").getByTestId("bucket-told");
  assert.equal(await told.textContent(), "50 % told");
  assert.equal(
    await page.getByTestId("threshold").count(),
    0,
    "what was told before the page was opened is on the bar",
  );

  await service.take("key-1", "gpt-4", { day: 360, rpm: 1 });
  await page.getByTestId("threshold").nth(1).waitFor();
  assert.deepEqual(await attributes(page.getByTestId("threshold"), "data-percent"), ["95", "80"]);
  assert.match(
    (await page.getByTestId("threshold").first().textContent()) ?? "",
    /95 % of day.*key-1 on gpt-4: 960 of 1,000 used/,
  );
  await until(
    () => told.textContent(),
    (text) => text === "50, 80, 95 % told",
  );
  const { x, width } = (await bar(page, "key-1", "gpt-4", "day").boundingBox()) ?? { x: 0, width: 0 };
  const at = (await marks.nth(1).boundingBox())?.x ?? 0;
  assert.ok(Math.abs(at - (x + width * 0.2)) < 3, "80 % used is where 20 % are left");

  await row(page, "key-1", "gpt-4").getByTestId("bucket-open").click();
  await row(page, "key-1", "gpt-4").getByTestId("explain").getByText("50, 80, 95 % told").waitFor();
  assert.equal(await marks.count(), 3, "a bucket that is explained keeps the marks on its bar");
});

inDeepBrowser("percentages are edited with their limit, and others are not lost by it", async (t, open) => {
  const service = await served(t);
  await service.limiter.setResourceDefaults("gpt-4", [Limit.perMinute("rpm", 10, { notifyAt: [80, 95] })]);
  const page = await open();
  await visit(page, service.url, "#/limits?resource=gpt-4");
  const field = page.getByTestId("limit-notify");
  assert.equal(await field.inputValue(), "80/95");
  await page.getByTestId("limit-capacity").fill("20");
  await page.getByTestId("limits-save").click();
  await until(
    async () => (await service.limiter.getResourceDefaults("gpt-4"))[0]?.capacity,
    (capacity) => capacity === 20,
  );
  assert.deepEqual((await service.limiter.getResourceDefaults("gpt-4"))[0]?.notifyAt, [80, 95]);
});
