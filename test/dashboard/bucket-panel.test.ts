import assert from "node:assert/strict";
import { Limit } from "../../src/entry/index.ts";
import { browserTests } from "./chromium.ts";
import { attributes, bar, left, row, served, until, visit, wordsOf } from "./page-kit.ts";

const { inBrowser, inDeepBrowser } = browserTests();

/** A key below an organisation that has a budget over all resources. */
async function budgeted(service: Awaited<ReturnType<typeof served>>): Promise<void> {
  const { limiter, take } = service;
  await limiter.setSystemDefaults([Limit.perMinute("tpm", 10_000)]);
  await limiter.createEntity({ id: "acme" });
  await limiter.createEntity({ id: "key-1", parentId: "acme" });
  await limiter.setTotals("acme", [Limit.quota("month", 2_000, { counts: "tpm", reset: "monthly" })]);
  assert.ok(await take("key-1", "gpt-4", { tpm: 1_500 }));
}

inBrowser(
  "totals stand beside the limits of a resource, in words, and one of them may be in the way",
  async (t, open) => {
    const service = await served(t);
    await budgeted(service);
    const page = await open();
    await visit(page, service.url);
    assert.match(await wordsOf(row(page, "acme", "*").getByTestId("bucket-open")), /^acme ?all resources together$/);
    const key = row(page, "key-1", "gpt-4");
    await key.getByTestId("bucket-open").click();
    const totals = key.locator("[data-testid=explain-level][data-entity=acme] [data-testid=explain-totals]");
    assert.match(
      await wordsOf(totals),
      /^Over all resources together.*month ?500 ?2,000 ?full again monthly.*from entity total; counts tpm$/,
    );
    await key.locator("[data-testid=explain-amount][data-limit=tpm]").fill("600");
    await page.keyboard.press("Enter");
    await key
      .getByTestId("explain-outcome")
      .getByText("Would be refused by month of acme over all resources.")
      .waitFor();
    assert.deepEqual(await attributes(key.getByTestId("explain-level"), "data-blocking"), [null, "*/month"]);

    await row(page, "acme", "*").getByTestId("bucket-open").click();
    const own = row(page, "acme", "*").getByTestId("explain");
    assert.match(await wordsOf(own.getByTestId("explain-limits")), /^Over all resources together.*month ?500 ?2,000/);
    await own.getByText("Edit limits").click();
    await page.getByTestId("limits-level").waitFor();
    assert.equal(await page.getByTestId("limits-level").inputValue(), "entityTotal");
  },
);

inDeepBrowser(
  "refusals before the page was opened explain a bucket, at the level that stood in the way",
  async (t, open) => {
    const service = await served(t);
    await budgeted(service);
    for (let i = 0; i < 3; i++) assert.equal(await service.take("key-1", "gpt-4", { tpm: 700 }), false);
    const page = await open();
    await page.clock.setSystemTime(service.clock.now());
    await visit(page, service.url, "#/buckets?filter=key-1+gpt-4&open=1");
    const key = row(page, "key-1", "gpt-4");
    // The store has no amounts; it knows the limit and how often.
    await key
      .getByTestId("explain-outcome")
      .getByText("Would be refused by month of acme over all resources.")
      .waitFor();
    assert.match(
      await wordsOf(key.getByTestId("explain-refused")),
      /^Refused 3 times, last in the hour of \d\d:00 to \d\d:00: key-1, by month of acme over all resources\. .*the least/,
    );
    assert.equal(await key.locator("[data-testid=explain-amount][data-limit=tpm]").inputValue(), "501");
    // The one whose limit it was tells it, too.
    await visit(page, service.url, "#/buckets?filter=acme+*&open=1");
    await row(page, "acme", "*").getByText("Refused 3 times").waitFor();
    // Long after, it is told and no longer asked about.
    await page.clock.setSystemTime(service.clock.now() + 5 * 3_600_000);
    await visit(page, service.url, "#/buckets?filter=key-1+gpt-4");
    await page.reload();
    await key.getByTestId("bucket-open").click();
    await key.getByTestId("explain-outcome").getByText("Would be granted.").waitFor();
    await key.getByText("Refused 3 times").waitFor();
  },
);

inDeepBrowser("an opened bucket has the number that its row has, also while it fills up", async (t, open) => {
  const service = await served(t);
  const { limiter, take } = service;
  await limiter.setSystemDefaults([Limit.perMinute("tpm", 60_000)]);
  await limiter.createEntity({ id: "acme" });
  await limiter.createEntity({ id: "key-1", parentId: "acme" });
  assert.ok(await take("key-1", "gpt-4", { tpm: 59_900 }));
  const page = await open();
  await page.clock.install();
  await visit(page, service.url);
  const key = row(page, "key-1", "gpt-4");
  await key.getByTestId("bucket-open").click();
  await key.getByTestId("explain-level").nth(1).waitFor();
  await key.locator("[data-testid=explain-amount][data-limit=tpm]").fill("50,000");
  await page.keyboard.press("Enter");
  await key.getByTestId("explain-outcome").getByText("Would be refused by").waitFor();
  await row(page, "acme", "gpt-4").getByText("+60,000/min").waitFor();
  await key.getByText("+60,000/min").waitFor();
  // All of one moment: the numbers of key-1 and acme, in their rows, in the panel and in the sentence.
  const numbers = `(() => {
    const number = (element) => Number(element.textContent.match(/[\\d,]+/)[0].replaceAll(",", ""));
    const all = (selector) => [...document.querySelectorAll(selector)].map(number);
    return [...all(".gauge-numbers b"), ...all("[data-testid=explain-left]"),
      Number(document.querySelector("[data-testid=explain-outcome] p span").textContent.match(/has ([\\d,]+)/)[1].replaceAll(",", ""))];
  })()`;
  for (let i = 0; i < 6; i++) {
    await page.clock.runFor(1_130);
    const shown = (await page.evaluate(numbers)) as number[];
    assert.equal(shown.length, 5);
    assert.equal(new Set(shown).size, 1, shown.join());
  }
  const now = await left(bar(page, "key-1", "gpt-4", "tpm"));
  assert.ok(now > 5_000, `${now} after some seconds`);
});

inBrowser("a top-up says what arrived and what is there now", async (t, open) => {
  const service = await served(t);
  await service.limiter.setSystemDefaults([
    Limit.quota("month", 100_000, { reset: "monthly" }),
    Limit.perDay("rpd", 1_000),
  ]);
  await service.take("key-1", "api", { month: 1, rpd: 300 });
  const page = await open();
  await visit(page, service.url, "#/buckets?filter=key-1+api&open=1");
  await page.getByTestId("bucket-top-up").click();
  await page.locator("[data-testid=top-up-amount][data-limit=month]").fill("50,000");
  await page.locator("[data-testid=top-up-amount][data-limit=rpd]").fill("500");
  await page.getByTestId("dialog-submit").click();
  await page.getByTestId("dialog").waitFor({ state: "detached" });
  const done = await until(
    () => wordsOf(page.getByTestId("bucket-done")),
    (words) => words !== "",
  );
  assert.match(
    done,
    /^Topped up: 50,000 month, now 149,999 of 150,000, 300 rpd \(of 500; the limit is full\), now 1,000 of 1,000\.$/,
  );
  await page.getByTestId("bucket-reset").click();
  await page.getByTestId("dialog-submit").click();
  await page.getByTestId("bucket-done").getByText("Reset: every limit is full again.").waitFor();
});

inDeepBrowser("what is typed into an amount stays while the bucket moves", async (t, open) => {
  const service = await served(t);
  await service.limiter.setSystemDefaults([Limit.perMinute("rpm", 100)]);
  await service.take("key-1", "api", { rpm: 50 });
  const page = await open();
  await visit(page, service.url, "#/buckets?filter=key-1+api&open=1");
  await page.locator("[data-testid=live][data-state=open]").waitFor();
  const amount = page.getByTestId("explain-amount");
  await amount.focus();
  await amount.pressSequentially("77");
  const typed = await amount.inputValue();
  const before = await left(bar(page, "key-1", "api", "rpm"));
  await service.take("key-1", "api", { rpm: 30 });
  await until(
    () => left(bar(page, "key-1", "api", "rpm")),
    (now) => now < before,
  );
  assert.equal(await amount.inputValue(), typed);
});

inDeepBrowser("a shadow is a dashed bar, is not the shortest, and can be edited", async (t, open) => {
  const service = await served(t);
  await service.limiter.setResourceDefaults("gpt-4", [
    Limit.perDay("rpd", 100),
    Limit.perDay("tpd", 1_000, { shadow: true }),
  ]);
  assert.ok(await service.take("key-1", "gpt-4", { rpd: 1, tpd: 600 }));
  assert.ok(await service.take("key-1", "gpt-4", { rpd: 1, tpd: 600 }), "it refuses nothing");
  const page = await open();
  await visit(page, service.url);
  const meter = bar(page, "key-1", "gpt-4", "tpd");
  assert.equal(await left(meter), 400);
  const drawn = (limit: string) =>
    page.evaluate(`(() => {
      const { maskImage, clipPath } = getComputedStyle(document.querySelector('[data-testid=bucket-bar][data-limit="${limit}"] i'));
      return [maskImage, clipPath];
    })()`) as Promise<readonly [string, string]>;
  const [mask, clip] = await drawn("tpd");
  assert.match(mask, /repeating-linear-gradient/);
  // It drips on while the page is looked at.
  assert.match(clip, /^inset\(0px (60|59\.9\d*)% 0px 0px\)$/);
  assert.deepEqual(await drawn("rpd"), ["none", "none"]);
  assert.match(await wordsOf(row(page, "key-1", "gpt-4")), /shadow, \+/);
  await row(page, "key-1", "gpt-4").getByTestId("bucket-open").click();
  await row(page, "key-1", "gpt-4").getByText("shadow: counts what it would refuse").waitFor();
});
