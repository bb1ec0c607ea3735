import assert from "node:assert/strict";
import { Limit } from "../../src/entry/index.ts";
import { createService } from "../../src/entry/server.ts";
import { browserTests } from "./chromium.ts";
import {
  attributes,
  DEFAULT_LIMITS,
  furnish,
  goTo,
  PAGES,
  ready,
  saveForAll,
  served,
  until,
  visit,
  wordsOf,
} from "./page-kit.ts";

const { inBrowser, inDeepBrowser } = browserTests();

inBrowser("a limit is edited: old and new beside the field, one press saves, and it is in force", async (t, open) => {
  const service = await served(t);
  await furnish(service);
  const page = await open();
  await visit(page, service.url, DEFAULT_LIMITS);
  assert.equal(await page.getByTestId("limits-source").getAttribute("data-source"), "resource");
  assert.equal(await page.getByTestId("limits-level").inputValue(), "resource");
  const rpm = page.locator("[data-testid=limit-row][data-limit=rpm]");
  for (const [field, value] of Object.entries({ capacity: "60", amount: "60", period: "60" })) {
    assert.equal(await rpm.getByTestId(`limit-${field}`).inputValue(), value);
  }
  await rpm.getByTestId("limit-capacity").fill("90");
  assert.equal(await wordsOf(rpm.getByTestId("limit-change")), "60 → 90");
  await saveForAll(page);
  await page.getByTestId("limits-saved").getByText("Saved").waitFor();
  const [stored] = await service.limiter.getResourceDefaults("gpt-4");
  assert.deepEqual(stored, { name: "rpm", capacity: 90, refillAmount: 60, refillPeriodMs: 60_000 });
  assert.equal(await rpm.getByTestId("limit-change").count(), 0, "what is saved is no change any more");
});

inDeepBrowser(
  "another level gets limits of every kind, with a schedule, and is deleted after a question",
  async (t, open) => {
    const service = await served(t);
    await furnish(service);
    const page = await open();
    await visit(page, service.url, PAGES.limits);
    await page.getByTestId("limits-level").selectOption("entity");
    // What is in force stands there to begin with.
    assert.deepEqual(await attributes(page.getByTestId("limit-row"), "data-limit"), ["rpm", "tpm"]);
    await page.locator("[data-testid=limit-row][data-limit=tpm]").getByTestId("limit-remove").click();
    await page.getByTestId("limit-add").click();
    const added = page.getByTestId("limit-row").last();
    await added.getByTestId("limit-name").fill("month");
    await added.getByTestId("limit-kind").selectOption("calendar");
    await added.getByTestId("limit-capacity").fill("1,000");
    await added.getByTestId("limit-reset").selectOption("monthly");
    await added.getByTestId("limit-tz").fill("Europe/Berlin");
    await added.getByTestId("limit-soft").check();
    const rpm = page.locator("[data-testid=limit-row][data-limit=rpm]");
    await rpm.getByTestId("window-add").click();
    await rpm.getByTestId("window-tz").fill("Europe/Berlin");
    await page.getByTestId("limits-save").click();
    await page.getByTestId("limits-saved").getByText("Saved: 2 limits").waitFor();
    assert.equal(await page.getByTestId("limits-source").getAttribute("data-source"), "entity");
    assert.deepEqual(await service.limiter.getLimits("key-1", { resource: "gpt-4" }), [
      Limit.perMinute("rpm", 60, { schedule: [{ cron: "* 9-17 * * 1-5", tz: "Europe/Berlin", scale: 0.5 }] }),
      Limit.quota("month", 1_000, { reset: { cron: "0 0 1 * *", tz: "Europe/Berlin" }, soft: true }),
    ]);

    await page.getByTestId("limits-delete").click();
    assert.match(await wordsOf(page.getByTestId("confirm")), /rpm, month of key-1 on gpt-4 will be deleted/);
    await page.getByTestId("dialog-submit").click();
    await page.locator("[data-testid=limits-source][data-source=resource]").waitFor();
    assert.deepEqual(await service.limiter.getLimits("key-1", { resource: "gpt-4" }), []);
  },
);

inDeepBrowser("what cannot be a limit is refused with a sentence, and nothing is stored", async (t, open) => {
  const service = await served(t);
  await furnish(service);
  const page = await open();
  await visit(page, service.url, DEFAULT_LIMITS);
  const capacity = page.locator("[data-testid=limit-row][data-limit=rpm]").getByTestId("limit-capacity");
  for (const [wrong, told, save] of [
    ["many", /rpm: the capacity is "many"; give a number/, () => page.getByTestId("limits-save").click()],
    ["-5", /-5/, () => saveForAll(page)],
    ["1.5", /1\.5/, () => saveForAll(page)],
  ] as const) {
    await capacity.fill(wrong);
    await save();
    await until(
      async () =>
        (await page.getByTestId("limits-error").count()) === 0 ? "" : wordsOf(page.getByTestId("limits-error")),
      (words) => told.test(words),
    );
  }
  assert.equal((await service.limiter.getResourceDefaults("gpt-4"))[0]?.capacity, 60);
});

inDeepBrowser(
  "limits that somebody else changes are shown at once, but not over what is being edited",
  async (t, open) => {
    const service = await served(t);
    await furnish(service);
    const page = await open();
    await visit(page, service.url, DEFAULT_LIMITS);
    await page.locator("[data-testid=live][data-state=open]").waitFor();
    const capacity = page.locator("[data-testid=limit-row][data-limit=rpm]").getByTestId("limit-capacity");
    await service.limiter.setResourceDefaults("gpt-4", [Limit.perMinute("rpm", 70)]);
    await until(
      () => capacity.inputValue(),
      (value) => value === "70",
    );
    await capacity.fill("75");
    // Another level is not what is being edited.
    await service.limiter.setLimits("key-2", [Limit.perMinute("rpm", 5)]);
    await service.limiter.setResourceDefaults("gpt-4", [Limit.perMinute("rpm", 80)], { principal: "alice" });
    await page.getByTestId("limits-conflict").getByText("alice changed these limits while you were editing").waitFor();
    assert.match(
      await wordsOf(page.getByTestId("limits-conflict")),
      /rpm 70, refills 70\/min → 80, refills 80\/min.*not saved/,
    );
    assert.equal(await capacity.inputValue(), "75");
    await page.getByTestId("conflict-theirs").click();
    await until(
      () => capacity.inputValue(),
      (value) => value === "80",
    );
    assert.equal(await page.getByTestId("limits-conflict").count(), 0);
  },
);

inBrowser(
  "who saves over limits that were changed meanwhile is told by whom and what, and decides",
  async (t, open) => {
    const service = await served(t);
    await furnish(service);
    const page = await open();
    await visit(page, service.url, `${PAGES.limits}&level=resource`);
    await page.locator("[data-testid=live][data-state=open]").waitFor();
    // No event arrives: what was read is all that the page knows.
    await page.context().route("**/events*", (route) => route.abort());
    await service.service.close();
    const again = await createService({ limiter: service.limiter, log: () => {}, drainMs: 100 });
    await again.listen({ port: service.port });
    t.after(() => again.close());
    const rpm = page.locator("[data-testid=limit-row][data-limit=rpm]");
    await rpm.getByTestId("limit-capacity").fill("90");
    await service.limiter.setResourceDefaults("gpt-4", [Limit.perMinute("rpm", 61)], { principal: "bob" });
    await saveForAll(page);
    const conflict = page.getByTestId("limits-conflict");
    await conflict.waitFor();
    assert.equal(await conflict.getAttribute("data-principal"), "bob");
    assert.match(
      await wordsOf(conflict),
      /rpm 60, refills 60\/min → 61, refills 61\/min.*tpm 10,000, refills 10,000\/min → none/,
    );
    assert.equal((await service.limiter.getResourceDefaults("gpt-4"))[0]?.capacity, 61, "nothing was overwritten");
    await page.getByTestId("conflict-mine").click();
    await page.getByTestId("limits-saved").getByText("Saved: 2 limits").waitFor();
    assert.deepEqual(
      (await service.limiter.getResourceDefaults("gpt-4")).map(({ name, capacity }) => [name, capacity]),
      [
        ["rpm", 90],
        ["tpm", 10_000],
      ],
    );
    // A level that had none when it was read.
    await page.getByTestId("limits-level").selectOption("entity");
    await service.limiter.setLimits("key-1", [Limit.perMinute("rpm", 3)], { resource: "gpt-4", principal: "carol" });
    await page.getByTestId("limits-save").click();
    await page.locator("[data-testid=limits-conflict][data-principal=carol]").waitFor();
    assert.equal((await service.limiter.getLimits("key-1", { resource: "gpt-4" }))[0]?.capacity, 3);
  },
);

inBrowser("entities are created, edited, moved and deleted, and the audit trail tells old and new", async (t, open) => {
  const service = await served(t);
  await furnish(service);
  const page = await open();
  await visit(page, service.url, PAGES.entities);
  const item = (id: string) => page.locator(`[data-testid=entity-item][data-entity="${id}"]`);
  await page.getByTestId("entity-create").click();
  await page.getByTestId("entity-id").fill("key-9");
  await page.getByTestId("entity-parent").fill("acme");
  await page.getByTestId("dialog-submit").click();
  await item("acme").locator('[data-entity="key-9"]').waitFor();
  assert.equal((await service.limiter.getEntity("key-9")).parentId, "acme");

  await item("key-9").getByTestId("entity-open").click();
  await item("key-9").getByTestId("entity-edit").click();
  await page.getByTestId("entity-label").fill("The ninth");
  await page.getByTestId("dialog-submit").click();
  await item("key-9").getByTestId("entity-open").getByText("The ninth").waitFor();

  await item("key-9").getByTestId("entity-move").click();
  await page.getByTestId("move-parent").fill("nobody");
  await page.getByTestId("dialog-submit").click();
  await page.getByTestId("dialog-error").getByText("nobody").waitFor();
  await page.getByTestId("move-parent").fill("key-1");
  await page.getByTestId("dialog-submit").click();
  await item("key-1").locator('[data-entity="key-9"]').waitFor();

  await item("key-9").getByTestId("entity-open").click();
  await item("key-9").getByTestId("entity-policy").click();
  await page.getByTestId("policy-access").selectOption("disabled");
  await page.getByTestId("dialog-submit").click();
  await page.getByTestId("dialog").waitFor({ state: "detached" });
  assert.deepEqual(await service.limiter.getPolicy({ entityId: "key-9" }), { access: "disabled" });

  await item("key-9").getByTestId("entity-delete").click();
  assert.match(await wordsOf(page.getByTestId("confirm")), /key-9 will be deleted/);
  await page.getByTestId("dialog-submit").click();
  await item("key-9").waitFor({ state: "detached" });

  await goTo(page, "audit");
  const rows = page.locator('[data-testid=audit-row][data-entity="key-9"]');
  assert.deepEqual(await attributes(rows, "data-action"), [
    ...["entity_deleted", "access_set", "entity_updated", "entity_updated", "entity_created"],
  ]);
  assert.match(await wordsOf(rows.nth(2)), /local.*parentId acme → key-1/);
  assert.match(await wordsOf(rows.nth(3)), /name key-9 → The ninth/);
  const limits = page.locator('[data-testid=audit-row][data-entity="$RESOURCE:gpt-4"]').first();
  assert.match(await wordsOf(limits), /ops.*rpm 100, refills 100\/min → 60, refills 60\/min/);
});

inDeepBrowser("a namespace is made, chosen, removed, recovered and purged", async (t, open) => {
  const service = await served(t);
  const page = await open();
  await visit(page, service.url, PAGES.namespaces);
  const named = (name: string) => page.locator(`[data-testid=namespace-row][data-namespace="${name}"]`);
  const orphan = page.locator('[data-testid=orphan-row][data-namespace="tenant-b"]');
  await page.getByTestId("namespace-new").fill("tenant-b");
  await page.getByTestId("namespace-create").click();
  await named("tenant-b").waitFor();

  await page.getByTestId("namespace-select").selectOption("tenant-b");
  const other = await service.limiter.namespace("tenant-b");
  await page.locator("[data-testid=live][data-state=open]").waitFor();
  await goTo(page, "buckets");
  await page.getByTestId("empty").waitFor();
  await other.setSystemDefaults([Limit.perMinute("rpm", 10)]);
  await other.acquire({ entityId: "key-b", resource: "api", consume: { rpm: 1 } });
  await page.locator('[data-testid=bucket-row][data-entity="key-b"]').waitFor();
  await page.reload();
  await ready(page);
  assert.equal(await page.getByTestId("namespace-select").inputValue(), "tenant-b", "kept in this tab");

  await goTo(page, "namespaces");
  await page.getByTestId("namespace-select").selectOption("default");
  await named("tenant-b").getByTestId("namespace-delete").click();
  assert.match(await wordsOf(page.getByTestId("confirm")), /tenant-b/);
  await page.getByTestId("dialog-submit").click();
  await orphan.getByTestId("orphan-recover").click();
  await named("tenant-b").getByTestId("namespace-delete").click();
  await page.getByTestId("dialog-submit").click();
  await orphan.getByTestId("orphan-purge").click();
  assert.equal(await page.getByTestId("dialog-submit").isDisabled(), true, "its name has to be typed");
  await page.getByTestId("confirm-type").fill("tenant-b");
  await page.getByTestId("dialog-submit").click();
  await orphan.waitFor({ state: "detached" });
  const kept: string[] = [];
  for await (const { name } of service.limiter.listOrphanNamespaces()) kept.push(name);
  assert.deepEqual(kept, []);
});

inDeepBrowser("usage is drawn and written down with the same numbers", async (t, open) => {
  const service = await served(t);
  await furnish(service);
  service.advance(3_600_000);
  assert.ok(await service.take("key-1", "gpt-4", { rpm: 7, tpm: 700 }));
  const page = await open();
  await page.clock.setSystemTime(service.clock.now());
  await visit(page, service.url, "#/usage?entity=key-1&resource=gpt-4");
  await page.getByTestId("usage-metric").selectOption("tpm");
  const chart = page.getByTestId("usage-chart");
  assert.equal(await chart.getAttribute("role"), "img");
  assert.match(
    (await chart.getAttribute("aria-label")) ?? "",
    /key-1: 4,700 in total, at most 4,000 in the window of 12:00/,
  );
  assert.ok(((await chart.locator("canvas").boundingBox())?.width ?? 0) > 300);
  await chart.locator(".u-over").hover({ position: { x: 2, y: 20 } });
  await page.locator(".legend").getByText("0", { exact: true }).waitFor();
  const rows = page.getByTestId("usage-table").getByTestId("usage-row");
  assert.equal(await rows.count(), 2);
  assert.match(await wordsOf(rows.nth(0)), /2026-03-10 13:00.*1.*7.*700/);
  assert.match(await wordsOf(rows.nth(1)), /2026-03-10 12:00.*1.*20.*4,000/);
  await page.getByTestId("usage-window").selectOption("daily");
  await until(
    () => rows.count(),
    (count) => count === 1,
  );
  assert.match(await wordsOf(rows.first()), /2026-03-10.*2.*27.*4,700/);
});
