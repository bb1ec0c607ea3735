import assert from "node:assert/strict";
import { Limit } from "../../src/entry/index.ts";
import { browserTests } from "./chromium.ts";
import { furnish, goTo, LONG_ID, LONG_RESOURCE, PAGES, row, served, until, visit } from "./page-kit.ts";

const { inDeepBrowser } = browserTests();

inDeepBrowser("at 1920 pixels lists and rows use the width that there is", async (t, open) => {
  const service = await served(t);
  await furnish(service);
  const page = await open({ viewport: { width: 1920, height: 1000 } });
  await visit(page, service.url);
  const rightOf = async (selector: string) => {
    const box = await page.locator(selector).first().boundingBox();
    assert.ok(box, selector);
    return box.x + box.width;
  };
  assert.ok((await rightOf(".buckets")) > 1_800, "the list ends near the edge");
  const two = '[data-testid=bucket-row][data-entity="key-1"][data-resource="gpt-4"]';
  assert.ok((await rightOf(`${two} .gauge:last-child`)) > 1_780, "two limits fill a row");
  // The levels of an opened bucket stand beside each other.
  await page.locator(`${two} [data-testid=bucket-open]`).click();
  const levels = page.locator(two).getByTestId("explain-level");
  await levels.nth(1).waitFor();
  const [first, second] = [await levels.nth(0).boundingBox(), await levels.nth(1).boundingBox()];
  assert.equal(first?.y, second?.y);
  for (const name of Object.keys(PAGES)) {
    await goTo(page, name);
    const fits = "document.documentElement.scrollWidth <= document.documentElement.clientWidth";
    assert.equal(await page.evaluate(fits), true, name);
  }
});

inDeepBrowser("names and numbers are long, and can be read: nothing is cut off", async (t, open) => {
  const service = await served(t);
  await furnish(service);
  await service.limiter.setLimits("rich", [
    Limit.quota("micro-dollars-a-month", 899_987_555_680, { reset: "monthly" }),
    Limit.perMinute("rpm", 10),
    Limit.perMinute("tokens-that-are-read", 10),
  ]);
  assert.ok(await service.take("rich", "gpt-4", { rpm: 1, "micro-dollars-a-month": 1 }));
  for (const width of [1280, 390]) {
    const page = await open({ viewport: { width, height: 900 } });
    await page.clock.setSystemTime(service.clock.now());
    await visit(page, service.url);
    for (const name of Object.keys(PAGES)) {
      await goTo(page, name);
      if (name === "buckets") {
        await row(page, LONG_ID, LONG_RESOURCE).getByTestId("bucket-open").click();
        await page.getByTestId("explain-level").first().waitFor();
      }
      const cut = `[...document.querySelectorAll(".name, .tag, .gauge-name, .gauge-numbers, td, dd, dt")]
        .filter((each) => each.scrollWidth > each.clientWidth + 1 && getComputedStyle(each).display !== "inline")
        .map((each) => each.className + ": " + each.textContent)`;
      assert.deepEqual(await page.evaluate(cut), [], `${name} at ${width}`);
    }
    await goTo(page, "buckets");
    const overlap = `[...document.querySelectorAll(".gauge")].filter((each) => each.scrollWidth > each.clientWidth).length`;
    assert.equal(await page.evaluate(overlap), 0, `gauges at ${width}`);
  }
});

inDeepBrowser("the field of an entity or of a parent completes the ids that there are", async (t, open) => {
  const service = await served(t);
  await furnish(service);
  const page = await open();
  await visit(page, service.url, PAGES.limits);
  const ids = (testid: string) =>
    until(
      () =>
        page.evaluate(
          `[...(document.querySelector("[data-testid=${testid}]")?.list?.options ?? [])].map(({ value }) => value)`,
        ) as Promise<string[]>,
      (offered) => offered.length > 0,
    );
  assert.deepEqual(await ids("limits-entity"), ["acme", "key-1", "key-2", LONG_ID]);
  for (const name of ["usage", "audit"]) {
    await goTo(page, name);
    assert.ok((await ids(`${name}-entity`)).includes("key-1"), name);
  }
  await goTo(page, "entities");
  await page.getByTestId("entity-create").click();
  assert.ok((await ids("entity-parent")).includes("acme"));
  await page.keyboard.press("Escape");
  await page.locator('[data-testid=entity-item][data-entity="key-1"] [data-testid=entity-open]').click();
  await page.getByTestId("entity-move").click();
  const others = await ids("move-parent");
  assert.ok(others.includes("acme") && !others.includes("key-1"), "not below itself");
});
