import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { Limit } from "../../src/entry/index.ts";
import { browserTests } from "./chromium.ts";
import { attributes, ready, served, until, visit, wordsOf } from "./page-kit.ts";

const { inBrowser, inDeepBrowser } = browserTests();

/** Two keys of a project of an organisation, and the project itself, take: 6 requests, 16 on three levels. */
async function used(service: Awaited<ReturnType<typeof served>>): Promise<void> {
  const { limiter, take } = service;
  await limiter.setSystemDefaults([
    Limit.perMinute("rpm", 100, { counts: "requests" }),
    Limit.perMinute("tpm", 10_000),
  ]);
  await limiter.createEntity({ id: "acme" });
  await limiter.createEntity({ id: "proj", parentId: "acme" });
  for (const id of ["key-1", "key-2"]) await limiter.createEntity({ id, parentId: "proj" });
  for (let i = 0; i < 3; i++) assert.ok(await take("key-1", "api", { tpm: 100 }));
  assert.ok(await take("key-2", "api", { tpm: 10 }));
  for (let i = 0; i < 2; i++) assert.ok(await take("proj", "api", { tpm: 1 }));
}

inBrowser("the headline counts each request once, not once a level, and can be split by level", async (t, open) => {
  const service = await served(t);
  await used(service);
  const page = await open();
  await page.clock.setSystemTime(service.clock.now());
  await visit(page, service.url, "#/usage");
  const totals = page.getByTestId("usage-totals");
  assert.match(await wordsOf(totals), /requests ?6.*tpm ?312/);
  await page.getByTestId("usage-note").getByText("Each request counted once").waitFor();
  const rows = page.getByTestId("usage-row");
  assert.deepEqual(await attributes(rows, "data-entity"), ["key-1", "key-2", "proj"]);
  for (const [split, requests, entities] of [
    ["level-0", "6", ["acme"]],
    ["level-2", "4", ["key-1", "key-2"]],
    ["all", "16", ["acme", "key-1", "key-2", "proj"]],
  ] as const) {
    await page.getByTestId("usage-split").selectOption(split);
    await until(
      () => wordsOf(totals),
      (words) => new RegExp(`requests ?${requests}\\D`).test(words),
    );
    assert.deepEqual(await attributes(rows, "data-entity"), [...entities]);
  }
});

inDeepBrowser(
  "usage of a project is split by its keys; window, range and split stand in the address",
  async (t, open) => {
    const service = await served(t);
    await used(service);
    const page = await open();
    await page.clock.setSystemTime(service.clock.now());
    await visit(page, service.url, "#/usage?entity=proj");
    const totals = page.getByTestId("usage-totals");
    assert.match(await wordsOf(totals), /requests ?6.*tpm ?312/);
    const rows = page.getByTestId("usage-row");
    assert.deepEqual(await attributes(rows, "data-entity"), ["proj"]);
    await page.getByTestId("usage-split").selectOption("keys");
    await until(
      () => rows.count(),
      (count) => count === 3,
    );
    assert.match(await wordsOf(totals), /requests ?6.*tpm ?312/, "split, it is still the same");
    await page.getByTestId("usage-window").selectOption("daily");
    await page.getByTestId("usage-range").selectOption("month");
    await page.waitForURL(/#\/usage\?entity=proj&window=daily&range=month&split=keys$/);
    await page.reload();
    await ready(page);
    assert.equal(await page.getByTestId("usage-range").inputValue(), "month");
    assert.equal(await page.getByTestId("usage-split").inputValue(), "keys");
    assert.deepEqual(await attributes(rows, "data-entity"), ["key-1", "key-2", "proj"]);
  },
);

inDeepBrowser("what is shown is exported, as CSV and as NDJSON", async (t, open) => {
  const service = await served(t);
  await used(service);
  const page = await open();
  await page.clock.setSystemTime(service.clock.now());
  await visit(page, service.url, "#/usage?entity=proj&split=keys");
  const saved = async (testid: string) => {
    const [download] = await Promise.all([page.waitForEvent("download"), page.getByTestId(testid).click()]);
    return { name: download.suggestedFilename(), text: readFileSync(await download.path(), "utf8") };
  };
  const csv = await saved("usage-csv");
  assert.equal(csv.name, "usage-default-proj-hourly-24.csv");
  const [header = "", ...lines] = csv.text.trim().split("\n");
  assert.match(header, /^entityId,resource,window,windowStart/);
  assert.deepEqual(
    lines.map((line) => line.replace(/hourly,[^,]+,[^,]+,/, "")),
    [
      ...[
        "key-1,api,3,rpm,3,0,0,0,0",
        "key-1,api,3,tpm,300,0,0,0,0",
        "key-2,api,1,rpm,1,0,0,0,0",
        "key-2,api,1,tpm,10,0,0,0,0",
      ],
      ...["proj,api,2,rpm,2,0,0,0,0", "proj,api,2,tpm,2,0,0,0,0"],
    ],
  );
  const ndjson = await saved("usage-ndjson");
  assert.equal(ndjson.name, "usage-default-proj-hourly-24.ndjson");
  const items = ndjson.text
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));
  assert.deepEqual(
    items.map(({ entityId, requests }) => [entityId, requests]),
    [
      ["key-1", 3],
      ["key-2", 1],
      ["proj", 2],
    ],
  );
});
