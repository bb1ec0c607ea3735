import assert from "node:assert/strict";
import { Limit } from "../../src/entry/index.ts";
import { browserTests } from "./chromium.ts";
import {
  attributes,
  DEFAULT_LIMITS,
  furnish,
  PAGES,
  row,
  saveForAll,
  served,
  until,
  visit,
  wordsOf,
} from "./page-kit.ts";

const { inBrowser, inDeepBrowser } = browserTests();

inBrowser("9k, 60,000 and $5 are understood in a limit, and what is understood stands below", async (t, open) => {
  const service = await served(t);
  await furnish(service);
  const page = await open();
  await visit(page, service.url, DEFAULT_LIMITS);
  const tpm = page.locator("[data-testid=limit-row][data-limit=tpm]");
  await tpm.getByTestId("limit-capacity").fill("60,000");
  await tpm.getByTestId("limit-amount").fill("9k");
  assert.deepEqual(await tpm.getByTestId("limit-read").allTextContents(), ["= 9,000"]);
  await page.getByTestId("limit-add").click();
  const added = page.getByTestId("limit-row").last();
  await added.getByTestId("limit-name").fill("usd");
  await added.getByTestId("limit-capacity").fill("$5");
  await added.getByTestId("limit-amount").fill("$0.29");
  await saveForAll(page);
  await page.getByTestId("limits-saved").getByText("Saved: 3 limits").waitFor();
  const [, stored, money] = await service.limiter.getResourceDefaults("gpt-4");
  assert.deepEqual(stored, { name: "tpm", capacity: 60_000, refillAmount: 9_000, refillPeriodMs: 60_000 });
  assert.deepEqual([money?.capacity, money?.refillAmount], [5_000_000, 290_000]);
});

inDeepBrowser("a check of a form is not headed as a lost connection", async (t, open) => {
  const service = await served(t);
  await furnish(service);
  const page = await open();
  await visit(page, service.url, PAGES.limits);
  await page.getByTestId("limit-row").first().getByTestId("limit-capacity").fill("many");
  await page.getByTestId("limits-save").click();
  const told = await wordsOf(page.getByTestId("limits-error"));
  assert.match(told, /^Not sent yet\. ?rpm: the capacity is "many"; give a number/);

  await visit(page, service.url, PAGES.entities);
  await page.getByTestId("entity-create").click();
  await page.getByTestId("entity-id").fill("key-9");
  await page.locator("dialog textarea").fill("plan gold");
  await page.getByTestId("dialog-submit").click();
  assert.match(await wordsOf(page.getByTestId("dialog-error")), /^Not sent yet\. ?Metadata: the line "plan gold"/);
});

inDeepBrowser("a top-up takes the numbers that the page writes", async (t, open) => {
  const service = await served(t);
  await service.limiter.setSystemDefaults([Limit.quota("month", 100_000, { reset: "monthly" })]);
  await service.take("key-1", "api", { month: 1 });
  const page = await open();
  await visit(page, service.url);
  await row(page, "key-1", "api").getByTestId("bucket-open").click();
  await page.getByTestId("bucket-top-up").click();
  await page.getByTestId("top-up-amount").fill("a few");
  await page.getByTestId("dialog-submit").click();
  await page.getByTestId("dialog-error").getByText('month is "a few"; give a number').waitFor();
  await page.getByTestId("top-up-amount").fill("50,000");
  await page.getByTestId("dialog-submit").click();
  await page.getByTestId("dialog").waitFor({ state: "detached" });
  const [held] = await service.limiter.available({ entityId: "key-1", resource: "api" });
  assert.equal(held?.available, 149_999);
});

inDeepBrowser("without a choice the page says where limits are, and leads there", async (t, open) => {
  const service = await served(t);
  await service.limiter.setResourceDefaults("gpt-4", [Limit.perMinute("rpm", 60)]);
  await service.limiter.createPlan({ id: "gold" });
  const page = await open();
  await visit(page, service.url, "#/limits");
  assert.match(
    await wordsOf(page.getByTestId("limits-source")),
    /^No limits are set for every entity on every resource\./,
  );
  await page.getByTestId("limits-overview").getByText("gold").waitFor();
  assert.equal(await page.getByTestId("limits-save").count(), 0, "no form for what is not there");
  await page.getByTestId("limits-begin").click();
  assert.equal(await page.getByTestId("limits-level").inputValue(), "system");
  await page.getByTestId("limits-overview").getByText("gpt-4").click();
  await page.locator("[data-testid=limits-source][data-source=resource]").waitFor();
});

inDeepBrowser("the page of limits opens with what is stored, not with an empty form", async (t, open) => {
  const service = await served(t);
  const { limiter } = service;
  await limiter.setResourceDefaults("gpt-4", [Limit.perMinute("rpm", 60), Limit.perMinute("tpm", 10_000)]);
  await limiter.setSystemTotals([Limit.quota("usd", 5_000, { reset: "monthly" })]);
  await limiter.setLimits("key-1", [Limit.perMinute("rpm", 7)], { resource: "claude" });
  await limiter.setTotals("key-2", [Limit.perDay("usd", 3)]);
  const page = await open();
  await visit(page, service.url, "#/limits");
  const rows = page.getByTestId("limits-stored-row");
  await rows.nth(1).waitFor();
  assert.deepEqual(await attributes(rows, "data-on"), ["all resources together", "gpt-4"]);
  assert.match(await wordsOf(rows.nth(0)), /usd \$0\.005, full again monthly/);
  assert.match(await wordsOf(rows.nth(1)), /rpm 60, refills 60\/min ?tpm 10,000, refills 10,000\/min/);
  assert.equal(await page.getByTestId("limits-level").inputValue(), "systemTotal", "the form has what is stored");
  await rows.nth(1).getByText("Edit").click();
  await page.locator("[data-testid=limit-row][data-limit=tpm]").waitFor();
  assert.equal(await page.getByTestId("limits-level").inputValue(), "resource");

  // An entity without a resource: what it has of its own, on whatever resource.
  await visit(page, service.url, "#/limits?entity=key-1");
  assert.match(await wordsOf(page.getByTestId("limits-own").getByTestId("limits-stored-row")), /claude ?rpm 7/);
  // One that has totals only: those.
  await visit(page, service.url, "#/limits?entity=key-2");
  assert.equal(await page.getByTestId("limits-level").inputValue(), "entityTotal");
  assert.deepEqual(await attributes(page.getByTestId("limit-row"), "data-limit"), ["usd"]);
});

inBrowser("a plan gets limits that inherit, with a measure, and totals; its entities show them", async (t, open) => {
  const service = await served(t);
  const { limiter } = service;
  await limiter.setResourceDefaults("gpt-4", [Limit.perMinute("rpm", 60), Limit.perMinute("tpm", 10_000)]);
  await limiter.createPlan({ id: "gold" });
  await limiter.createEntity({ id: "key-1", planId: "gold" });
  const page = await open();
  await visit(page, service.url, "#/limits?plan=gold");
  await page.getByTestId("limits-level").selectOption("planDefault");
  await page.getByTestId("limit-add").click();
  const added = page.getByTestId("limit-row").last();
  await added.getByTestId("limit-name").fill("rpm");
  await added.getByTestId("limit-counts").fill("requests");
  await added.getByTestId("limit-capacity").fill("500");
  await added.getByTestId("limit-amount").fill("500");
  await page.getByTestId("limits-inherit").check();
  await page.getByTestId("limits-callers").check();
  await saveForAll(page);
  await page.getByTestId("limits-saved").getByText("Saved: 1 limit as plan default").waitFor();

  await page.getByTestId("limits-level").selectOption("planTotal");
  await page.getByTestId("limit-add").click();
  const total = page.getByTestId("limit-row").last();
  await total.getByTestId("limit-name").fill("usd");
  await total.getByTestId("limit-capacity").fill("$100");
  await total.getByTestId("limit-amount").fill("$1");
  await saveForAll(page);
  await page.getByTestId("limits-saved").getByText("Saved: 1 limit as plan total").waitFor();
  assert.deepEqual(await limiter.getPlanLimits("gold"), [Limit.perMinute("rpm", 500, { counts: "requests" })]);
  assert.equal((await limiter.getPlanTotals("gold"))[0]?.capacity, 100_000_000);
  const { sources } = await limiter.resolveLimits("key-1", "gpt-4");
  assert.deepEqual({ ...sources }, { rpm: "planDefault", tpm: "resource" });

  await visit(page, service.url, PAGES.limits);
  const words = await wordsOf(page.getByTestId("limits-source"));
  assert.match(words, /the limits come from plan default and resource default\. Its plan is gold\./);
  assert.match(words, /Over all resources: usd, from plan total\./);
  assert.match(words, /Plan default ?1 limit, in force, inherits, callers only/);
  await page.getByTestId("limits-level").selectOption("entityTotal");
  await page.getByTestId("limits-save").click();
  await page.getByTestId("limits-saved").getByText("Saved: 1 limit as entity total").waitFor();
  await until(
    async () => (await limiter.getTotals("key-1")).length,
    (count) => count === 1,
  );
});

inDeepBrowser("Edit limits in the row of a customer edits that customer, and nobody else", async (t, open) => {
  const service = await served(t);
  await furnish(service);
  const { limiter } = service;
  const defaults = await limiter.getResourceDefaults("gpt-4");
  const page = await open();
  await visit(page, service.url);
  await row(page, "key-1", "gpt-4").getByTestId("bucket-open").click();
  await page.getByRole("link", { name: "Edit limits" }).click();
  const rpm = page.locator("[data-testid=limit-row][data-limit=rpm]");
  assert.equal(await rpm.getByTestId("limit-capacity").inputValue(), "60", "the form has what is in force");
  assert.equal(await page.getByTestId("limits-level").inputValue(), "entity");
  assert.equal(await page.getByTestId("limits-inherit").isChecked(), true);
  await rpm.getByTestId("limit-capacity").fill("600");
  await page.getByTestId("limits-save").click();
  await page.getByTestId("limits-saved").getByText("Saved: 1 limit as entity on this resource").waitFor();
  assert.deepEqual(await limiter.getResourceDefaults("gpt-4"), defaults);
  const { sources } = await limiter.resolveLimits("key-1", "gpt-4");
  assert.deepEqual({ ...sources }, { rpm: "entity", tpm: "resource" }, "what was not changed stays inherited");
  // An entity without a resource: its own default, not that of the system.
  await visit(page, service.url, "#/limits?entity=key-2");
  assert.equal(await page.getByTestId("limits-level").inputValue(), "entityDefault");
});

inDeepBrowser("limits of many are changed after a question that says how many they are", async (t, open) => {
  const service = await served(t);
  await furnish(service);
  const { limiter } = service;
  await service.take("never-created", "gpt-4", { rpm: 1 });
  await limiter.createEntity({ id: "key-3", planId: "gold" });
  const page = await open();
  const asked = async (address: string, level: string) => {
    await visit(page, service.url, address);
    await page.locator(`[data-testid=limits-level]:has(option:checked[value=${level}])`).waitFor();
    await page.getByTestId("limit-row").first().getByTestId("limit-capacity").fill("90");
    await page.getByTestId("limits-save").click();
    const words = await wordsOf(page.getByTestId("confirm").locator("h2"));
    return words;
  };
  assert.equal(await asked("#/limits?plan=gold", "planDefault"), "Change the limits of 1 entity?");
  assert.equal(await asked(DEFAULT_LIMITS, "resource"), "Change the limits of 6 entities?");
  await page.getByTestId("dialog-cancel").click();
  assert.equal((await limiter.getResourceDefaults("gpt-4"))[0]?.capacity, 60, "nothing is changed without a yes");
  assert.equal(await page.getByTestId("limit-row").first().getByTestId("limit-capacity").inputValue(), "90");
  await saveForAll(page);
  await page.getByTestId("limits-saved").getByText("Saved: 2 limits as resource default").waitFor();
  await page.getByTestId("limits-delete").click();
  assert.match(await wordsOf(page.getByTestId("confirm")), /the next level with limits applies to 6 entities\./);
});

inDeepBrowser("a quota is chosen by its name, and its next reset stands there before it is saved", async (t, open) => {
  const service = await served(t);
  const page = await open();
  await visit(page, service.url, "#/limits?resource=api");
  await page.getByTestId("limits-level").selectOption("resource");
  await page.getByTestId("limit-add").click();
  const added = page.getByTestId("limit-row").last();
  await added.getByTestId("limit-name").fill("month");
  await added.getByTestId("limit-counts").fill("tpm");
  await added.getByTestId("limit-kind").selectOption("calendar");
  await added.getByTestId("limit-capacity").fill("2M");
  assert.equal(await added.getByTestId("limit-reset").inputValue(), "monthly");
  const next = added.getByTestId("limit-next-reset");
  // The service's clock is in March 2026.
  await next.getByText("Next reset: Wed, 1 Apr 2026, 00:00 (UTC); then Fri, 1 May 2026").waitFor();
  await added.getByTestId("limit-reset").selectOption("weekly");
  await added.getByTestId("limit-tz").fill("Europe/Berlin");
  await next.getByText("Next reset: Mon, 16 Mar 2026, 00:00 (Europe/Berlin)").waitFor();
  await added.getByTestId("limit-reset").selectOption("cron");
  assert.equal(await added.getByTestId("limit-cron").inputValue(), "0 0 * * 1", "it begins with what was chosen");
  await added.getByTestId("limit-cron").fill("0 25 * * *");
  await next.getByText("25").waitFor();
  assert.match((await next.getAttribute("class")) ?? "", /bad-text/);
  await added.getByTestId("limit-reset").selectOption("monthly");
  await next.getByText("Next reset: Wed, 1 Apr 2026").waitFor();
  await page.getByTestId("limits-save").click();
  await page.getByTestId("limits-saved").getByText("Saved: 1 limit").waitFor();
  const [stored] = await service.limiter.getResourceDefaults("api");
  assert.deepEqual(
    stored,
    Limit.quota("month", 2_000_000, { counts: "tpm", reset: { cron: "0 0 1 * *", tz: "Europe/Berlin" } }),
  );
});

inDeepBrowser(
  "a plan is made, given to an entity, shown with its limits, and not deleted while it is used",
  async (t, open) => {
    const service = await served(t);
    const { limiter } = service;
    const page = await open();
    await visit(page, service.url, "#/plans");
    await page.getByTestId("plan-create").click();
    await page.getByTestId("plan-id").fill("gold");
    await page.getByTestId("plan-label").fill("Gold");
    await page.getByTestId("dialog-submit").click();
    const gold = page.locator("[data-testid=plan-row][data-plan=gold]");
    await gold.waitFor();
    await page.locator("[data-testid=live][data-state=open]").waitFor();
    await limiter.setPlanLimits("gold", [Limit.perMinute("rpm", 500)], { inherit: true });
    await limiter.setPlanTotals("gold", [Limit.quota("usd", 100, { reset: "monthly" })]);
    await gold.getByText("$0.0001, full again monthly (UTC)").waitFor();
    await gold.getByText("and inherited limits").waitFor();

    await visit(page, service.url, PAGES.entities);
    await page.getByTestId("entity-create").click();
    await page.getByTestId("entity-id").fill("key-1");
    await page.getByTestId("entity-plan").selectOption("gold");
    await page.getByTestId("dialog-submit").click();
    await page.locator('[data-testid=entity-item][data-entity="key-1"]').getByText("plan gold").waitFor();
    assert.equal((await limiter.getEntity("key-1")).planId, "gold");

    await visit(page, service.url, "#/plans");
    await gold.getByTestId("plan-delete").click();
    await page.getByTestId("dialog-submit").click();
    await page.getByTestId("dialog-error").getByText("gold").waitFor();
    await page.getByTestId("dialog-cancel").click();
    await gold.getByText("Entities").click();
    await page.getByText("1 entity of plan gold").waitFor();
    await page.getByTestId("entity-open").click();
    await page.getByTestId("entity-edit").click();
    await page.getByTestId("entity-plan").selectOption("");
    await page.getByTestId("dialog-submit").click();
    await page.getByTestId("dialog").waitFor({ state: "detached" });
    assert.equal((await limiter.getEntity("key-1")).planId, undefined);
    await visit(page, service.url, "#/plans");
    await gold.getByTestId("plan-delete").click();
    await page.getByTestId("dialog-submit").click();
    await page.getByTestId("empty").waitFor();
  },
);
