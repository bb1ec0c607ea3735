import assert from "node:assert/strict";
import { Limit } from "../../src/entry/index.ts";
import { browserTests } from "./chromium.ts";
import { ready, served, until, visit, wordsOf } from "./page-kit.ts";

const { inBrowser, inDeepBrowser } = browserTests();

/** So many tenants that a list does not have them all; the last has a bucket. */
async function crowded(service: Awaited<ReturnType<typeof served>>): Promise<string> {
  const { limiter } = service;
  await limiter.setSystemDefaults([Limit.perDay("rpd", 10)]);
  assert.ok(await service.take("somebody-else", "api", { rpd: 1 }));
  for (let i = 0; i < 230; i++) await limiter.registerNamespace(`tenant-${String(i).padStart(4, "0")}`);
  const last = await limiter.namespace("tenant-0229");
  await last.setSystemDefaults([Limit.perDay("rpd", 10)]);
  await last.acquire({ entityId: "key-of-229", resource: "api", consume: { rpd: 1 } });
  return "tenant-0229";
}

inDeepBrowser("every namespace can be found and chosen, however many there are", async (t, open) => {
  const service = await served(t);
  const last = await crowded(service);
  const page = await open();
  await visit(page, service.url);
  const search = page.getByTestId("namespace-search");
  await search.fill("0229");
  const offered = await until(
    () =>
      page.evaluate(
        "[...document.querySelector('[data-testid=namespace-search]').list.options].map(({ value }) => value)",
      ) as Promise<string[]>,
    (names) => names.length > 0,
  );
  assert.deepEqual(offered, [last]);
  await search.fill("tenant-9999");
  await page.keyboard.press("Enter");
  await page.getByTestId("namespace-search-error").getByText("There is no namespace tenant-9999").waitFor();
  await search.fill(last);
  await page.keyboard.press("Enter");
  await page.locator('[data-testid=bucket-row][data-entity="key-of-229"]').waitFor();
  assert.equal(await page.getByTestId("namespace-select").inputValue(), last);
  await page.reload();
  await ready(page);
  assert.equal(await page.getByTestId("namespace-select").inputValue(), last, "kept in this tab");

  await visit(page, service.url, "#/namespaces");
  const rows = page.getByTestId("namespace-row");
  assert.equal(await rows.count(), 100);
  await page.getByTestId("pager-next").click();
  await page.locator('[data-testid=namespace-row][data-namespace="tenant-0100"]').waitFor();
  await page.getByTestId("namespace-filter").fill("NANT-022");
  await until(
    () => rows.count(),
    (count) => count === 10,
  );
  await page.locator('[data-namespace="tenant-0228"]').getByTestId("namespace-open").click();
  await until(
    () => page.getByTestId("namespace-select").inputValue(),
    (name) => name === "tenant-0228",
  );
  await page.getByTestId("namespace-filter").fill("nobody");
  await page.getByTestId("empty").getByText("No namespace matches").waitFor();
});

inBrowser(
  "an address that names a tenant shows that tenant or says that it is not there, never another",
  async (t, open) => {
    const service = await served(t);
    const last = await crowded(service);
    const page = await open();
    await visit(page, service.url, `#/buckets?namespace=${last}`);
    await page.locator('[data-testid=bucket-row][data-entity="key-of-229"]').waitFor();
    await page.reload();
    await page.locator('[data-testid=bucket-row][data-entity="key-of-229"]').waitFor();

    const fresh = await open();
    await visit(fresh, service.url, "#/buckets?namespace=tenant-9999");
    assert.match(await wordsOf(fresh.getByTestId("error")), /^There is no namespace tenant-9999\./);
    assert.equal(await fresh.getByTestId("bucket-row").count(), 0);
    await fresh.getByText("Choose another").click();
    await fresh.getByTestId("namespace-row").first().waitFor();
  },
);
