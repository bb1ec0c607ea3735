import assert from "node:assert/strict";
import { Limit } from "../../src/entry/index.ts";
import { createService } from "../../src/entry/server.ts";
import { browserTests } from "./chromium.ts";
import { attributes, bar, furnish, goTo, left, PAGES, ready, row, served, until, visit, wordsOf } from "./page-kit.ts";

const { inBrowser, inDeepBrowser } = browserTests();

inBrowser("all pages load from this origin alone, and nothing offends the security policy", async (t, open) => {
  const service = await served(t);
  await furnish(service);
  await service.limiter.setTotals("acme", [Limit.perMinute("tpm", 9_000)]);
  assert.ok(await service.take("key-1", "gpt-4", { tpm: 100 }));
  const page = await open();
  const elsewhere: string[] = [];
  const offences: string[] = [];
  page.on("request", (request) => {
    if (!request.url().startsWith(service.url)) elsewhere.push(request.url());
  });
  page.on("pageerror", (error) => offences.push(error.message));
  await page.addInitScript(`document.addEventListener("securitypolicyviolation", (event) => {
    console.error("POLICY", event.violatedDirective, event.blockedURI);
  });`);
  page.on("console", (message) => {
    // A question that is answered with 404 is one of those, too.
    if (message.type() === "error") offences.push(message.text());
  });
  const answer = await page.goto(service.url);
  assert.match(answer?.headers()["content-security-policy"] ?? "", /default-src 'none'/);
  await ready(page);
  assert.match((await page.getByTestId("page-title").textContent()) ?? "", /Overview/);
  for (const name of Object.keys(PAGES)) {
    await page.getByTestId(`nav-${name}`).click();
    await page.locator(`[data-testid=app][data-ready=true][data-page=${name}]`).waitFor();
    assert.match((await page.getByTestId("page-title").textContent()) ?? "", new RegExp(name, "i"));
    assert.equal(await page.getByTestId("error").count(), 0, `an error on ${name}`);
  }
  for (const hash of ["#/buckets?filter=acme+*&open=1", "#/buckets?filter=key-1+gpt-4&open=1"]) {
    await page.evaluate(`location.hash = ${JSON.stringify(hash)}`);
    await page.getByTestId("explain-level").first().waitFor();
    await ready(page);
  }
  for (const hash of ["#/limits?entity=nobody", "#/limits?entity=key-1&resource=gpt-4", "#/limits?resource=none"]) {
    await page.evaluate(`location.hash = ${JSON.stringify(hash)}`);
    await page.getByTestId("limits-source").waitFor();
    await ready(page);
  }
  assert.deepEqual([elsewhere, offences], [[], []]);
});

inBrowser("a bar fills up with time alone, and an event corrects it", async (t, open) => {
  const service = await served(t);
  await service.limiter.setSystemDefaults([Limit.perSecond("rps", 1, { burst: 100 })]);
  await service.take("key-1", "api", { rps: 90 });
  const page = await open();
  await page.clock.install();
  await visit(page, service.url);
  const meter = bar(page, "key-1", "api", "rps");
  assert.equal(await meter.getAttribute("role"), "meter");
  assert.equal(await meter.getAttribute("aria-valuemax"), "100");
  // The service's clock stands: whatever moves, the page draws from the rate and its own time. It learns the rate in a moment.
  await row(page, "key-1", "api").getByText("+1/s").waitFor();
  const before = await left(meter);
  await page.clock.runFor(7_000);
  const after = await until(
    () => left(meter),
    (value) => value >= before + 7,
  );
  assert.ok(after < 60, `${after} left after some seconds`);
  assert.match((await row(page, "key-1", "api").textContent()) ?? "", new RegExp(`${await left(meter)} / 100`));
  // The store has 10; two are taken, and the page believes the store.
  await service.take("key-1", "api", { rps: 2 });
  await until(
    () => left(meter),
    (value) => value <= 9,
  );
});

inDeepBrowser("what is owed is a bar at 0 and the amount beside it", async (t, open) => {
  const service = await served(t);
  await service.limiter.setSystemDefaults([Limit.perDay("tpd", 5_000)]);
  const lease = await service.limiter.acquire({ entityId: "key-1", resource: "api", consume: { tpd: 1 } });
  await lease.adjust({ tpd: 6_249 });
  const page = await open();
  await visit(page, service.url);
  assert.equal(await left(bar(page, "key-1", "api", "tpd")), 0);
  assert.match((await row(page, "key-1", "api").getByTestId("bucket-debt").textContent()) ?? "", /1,250/);
});

inBrowser(
  "an empty service says what to do next; a bucket and a refusal then appear by themselves",
  async (t, open) => {
    const service = await served(t);
    const page = await open();
    await visit(page, service.url);
    const command = (await page.getByTestId("empty").locator("code").textContent()) ?? "";
    assert.match(command, /^curl -X POST .*\/v1\/namespaces\/default\/acquire'$/);
    await page.locator("[data-testid=live][data-state=open]").waitFor();
    await service.limiter.setSystemDefaults([Limit.perMinute("rpm", 10)]);
    await requested(command);
    await row(page, "key-1", "gpt-4").waitFor();
    assert.equal(await service.take("key-1", "models/gpt-4", { rpm: 10 }), true);
    await row(page, "key-1", "models/gpt-4").waitFor();

    assert.equal(await service.take("key-1", "models/gpt-4", { rpm: 3 }), false);
    await page.getByTestId("nav-refusals").getByText("1").waitFor();
    await goTo(page, "refusals");
    const refused = page.getByTestId("refusal-row");
    for (const [name, value] of Object.entries({ entity: "key-1", resource: "models/gpt-4", limit: "rpm" })) {
      assert.equal(await refused.getAttribute(`data-${name}`), value);
    }
    const words = await wordsOf(refused);
    for (const told of ["key-1", "its own", "3", "0", "18 s"]) assert.ok(words.includes(told), `${told} in ${words}`);

    await page.getByTestId("refusal-pause").click();
    await service.take("key-2", "models/gpt-4", { rpm: 10 });
    assert.equal(await service.take("key-2", "models/gpt-4", { rpm: 1 }), false);
    await page.getByTestId("refusal-pause").getByText("1 waiting").waitFor();
    assert.equal(await refused.count(), 1);
    await page.getByTestId("refusal-pause").click();
    assert.equal(await refused.first().getAttribute("data-entity"), "key-2", "the newest first");
  },
);

inDeepBrowser(
  "who was refused before the page was opened, or by another process, is on the page of refusals",
  async (t, open) => {
    const service = await served(t);
    await service.limiter.createEntity({ id: "acme" });
    await service.limiter.createEntity({ id: "key-1", parentId: "acme", cascade: true });
    await service.limiter.setSystemDefaults([Limit.perDay("rpd", 10)]);
    await service.limiter.setLimits("acme", [Limit.perDay("rpd", 5)]);
    const page = await open();
    await page.clock.setSystemTime(service.clock.now());
    await visit(page, service.url, "#/refusals");
    await page.getByTestId("empty").getByText("No refusals").waitFor();
    assert.equal(await service.take("key-1", "api", { rpd: 5 }), true);
    for (let i = 0; i < 3; i++) assert.equal(await service.take("key-1", "api", { rpd: 1 }), false);
    await page.getByTestId("refusal-range").selectOption("168");
    await page.waitForURL(/#\/refusals\?hours=168$/);
    await page.reload();
    await page.getByTestId("refusal-total").getByText("3 refusals on this store").waitFor();
    assert.equal(await page.getByTestId("refusal-range").inputValue(), "168");
    const sum = page.getByTestId("refusal-sum");
    assert.equal(await sum.count(), 1);
    for (const [name, value] of Object.entries({ entity: "key-1", limit: "rpd", "level-entity": "acme" })) {
      assert.equal(await sum.getAttribute(`data-${name}`), value);
    }
    assert.match(await wordsOf(sum), /of parent acme ?3 ?Log$/);
    await sum.getByTestId("refusal-log-open").click();
    await page.waitForURL(/#\/refusals\?hours=168&log=key-1$/);
    const logged = page.getByTestId("refusal-log-row");
    await logged.nth(2).waitFor();
    assert.equal(await logged.count(), 3);
    assert.match(await wordsOf(logged.first()), /key-1.*api.*rpd.*of parent acme.*1.*0 of 5/);
    await page.reload();
    await logged.first().waitFor();
    await page.getByTestId("refusal-log-close").click();
    await page.waitForURL(/#\/refusals\?hours=168$/);
    assert.equal(await page.getByTestId("empty").count(), 0);
    // What comes now is told at once, and counted.
    assert.equal(await service.take("key-1", "api", { rpd: 1 }), false);
    await page.getByTestId("refusal-row").waitFor();
    await page.getByTestId("refusal-total").getByText("4 refusals on this store").waitFor();
  },
);

inDeepBrowser("a row opened by keyboard explains the chain and what stands in the way", async (t, open) => {
  const service = await served(t);
  await furnish(service);
  await service.take("acme", "gpt-4", { tpm: 26_000 });
  const page = await open();
  await visit(page, service.url);
  const key = row(page, "key-1", "gpt-4");
  await key.getByTestId("bucket-open").focus();
  await page.keyboard.press("Enter");
  const explained = key.getByTestId("explain");
  await explained.getByTestId("explain-outcome").getByText("Would be refused by tpm of acme.").waitFor();
  const levels = explained.getByTestId("explain-level");
  assert.deepEqual(await attributes(levels, "data-entity"), ["key-1", "acme"]);
  assert.deepEqual(await attributes(levels, "data-source"), ["resource", "entityDefault"]);
  await page.keyboard.press("Enter");
  await explained.waitFor({ state: "detached" });
});

inDeepBrowser(
  "an opened bucket explains the amount that was last refused, at the level in the way",
  async (t, open) => {
    const service = await served(t);
    const { limiter, take } = service;
    await limiter.setSystemDefaults([
      Limit.perMinute("rpm", 100, { counts: "requests" }),
      Limit.perMinute("tpm", 10_000),
    ]);
    await limiter.createEntity({ id: "acme" });
    await limiter.createEntity({ id: "key-1", parentId: "acme" });
    await limiter.setLimits("acme", [Limit.perMinute("tpm", 1_000)]);
    assert.ok(await take("key-1", "gpt-4", { tpm: 500 }));
    const page = await open();
    await visit(page, service.url, "#/refusals");
    await page.locator("[data-testid=live][data-state=open]").waitFor();
    assert.equal(await take("key-1", "gpt-4", { tpm: 700 }), false);
    await page.getByTestId("refusal-row").getByRole("link", { name: "key-1" }).click();
    // It is open already: that is what the link is for.
    const key = row(page, "key-1", "gpt-4");
    await key.getByTestId("explain-outcome").getByText("Would be refused by tpm of acme.").waitFor();
    assert.match(
      await wordsOf(key.getByTestId("explain-refused")),
      /key-1 requested 700 tpm, 1 request; tpm of acme had 500 left/,
    );
    assert.equal(await key.locator("[data-testid=explain-amount][data-limit=tpm]").inputValue(), "700");
    assert.deepEqual(await attributes(key.getByTestId("explain-level"), "data-blocking"), [null, "tpm"]);
    await goTo(page, "refusals");
    await page.getByTestId("refusal-row").getByRole("link", { name: "of parent acme" }).click();
    await row(page, "acme", "gpt-4")
      .getByTestId("explain-outcome")
      .getByText("Would be refused by tpm of acme.")
      .waitFor();
  },
);

inDeepBrowser("the shortest stand first of all buckets, and the order stands in the address", async (t, open) => {
  const service = await served(t);
  await service.limiter.setSystemDefaults([Limit.perDay("rpd", 100), Limit.perDay("soft", 1, { soft: true })]);
  for (let i = 0; i < 120; i++) await service.take(`user-${String(i).padStart(3, "0")}`, "api", { rpd: 1 });
  await service.take("user-000", "api", { soft: 5 });
  await service.take("user-110", "api", { rpd: 60 });
  await service.take("user-115", "api", { rpd: 99 });
  const page = await open();
  await visit(page, service.url);
  await page.getByTestId("bucket-order").selectOption("shortest");
  await until(
    async () => (await attributes(page.getByTestId("bucket-row"), "data-entity")).slice(0, 3).join(),
    (first) => first === "user-115,user-110,user-000",
  );
  assert.equal(await page.getByTestId("bucket-row").count(), 100);
  await page.waitForURL(/#\/buckets\?sort=shortest$/);
  await page.reload();
  await ready(page);
  assert.equal(await page.getByTestId("bucket-row").first().getAttribute("data-entity"), "user-115");
});

inDeepBrowser(
  "of hundreds of buckets a hundred are shown, and the filter finds the others at the service",
  async (t, open) => {
    const service = await served(t);
    await service.limiter.setSystemDefaults([Limit.perMinute("rpm", 10)]);
    for (let i = 0; i < 230; i++) await service.take(`user-${String(i).padStart(3, "0")}`, "api", { rpm: 1 });
    const page = await open();
    await visit(page, service.url);
    const rows = page.getByTestId("bucket-row");
    assert.equal(await rows.count(), 100);
    await page.getByTestId("pager-next").click();
    await row(page, "user-100", "api").waitFor();
    await page.getByTestId("bucket-filter").fill("user-207");
    await row(page, "user-207", "api").waitFor();
    assert.equal(await rows.count(), 1);
    // A part of a name is looked for, too.
    await page.getByTestId("bucket-filter").fill("ser-20");
    await row(page, "user-200", "api").waitFor();
    assert.equal(await rows.count(), 10);
  },
);

inDeepBrowser("while one reads, rows keep their places: who is new stands at the end", async (t, open) => {
  const service = await served(t);
  await service.limiter.setSystemDefaults([Limit.perMinute("rpm", 10)]);
  for (const id of ["b", "d"]) await service.take(id, "api", { rpm: 1 });
  const page = await open();
  await visit(page, service.url);
  await page.locator("[data-testid=live][data-state=open]").waitFor();
  await service.take("c", "api", { rpm: 1 });
  await row(page, "c", "api").waitFor();
  assert.deepEqual(await attributes(page.getByTestId("bucket-row"), "data-entity"), ["b", "d", "c"]);
});

inBrowser(
  "when the service goes and comes back the page says so, connects again and reads everything anew",
  async (t, open) => {
    const service = await served(t);
    await service.limiter.setSystemDefaults([Limit.perMinute("rpm", 10)]);
    await service.take("key-1", "api", { rpm: 1 });
    const page = await open();
    await visit(page, service.url);
    await page.locator("[data-testid=live][data-state=open]").waitFor();
    await service.service.close();
    await page.locator("[data-testid=live][data-state=retrying]").getByText("Reconnecting").waitFor();
    await service.take("key-1", "api", { rpm: 6 });
    const again = await createService({ limiter: service.limiter, log: () => {}, drainMs: 100 });
    await again.listen({ port: service.port });
    t.after(() => again.close());
    await page.locator("[data-testid=live][data-state=open]").waitFor();
    await until(
      () => left(bar(page, "key-1", "api", "rpm")),
      (value) => value >= 3 && value < 9,
    );
  },
);

inDeepBrowser("twelve seconds without a sign of life count as a lost connection", async (t, open) => {
  const service = await served(t);
  const page = await open();
  await page.clock.install();
  await visit(page, service.url);
  await page.locator("[data-testid=live][data-state=open]").waitFor();
  // The page's time passes and the service's does not: nothing can arrive meanwhile.
  await page.clock.fastForward(12_500);
  await page.locator("[data-testid=live][data-state=retrying]").waitFor();
  await page.clock.runFor(4_000);
  await page.locator("[data-testid=live][data-state=open]").waitFor();
});

/** Makes the request that a shell would make of the command, so that no curl is needed. */
async function requested(command: string): Promise<void> {
  const [, method, body, url] =
    /^curl -X (\w+) -H "Content-Type: application\/json" -d '(.*)' '(.*)'$/.exec(command) ?? [];
  const headers = { "content-type": "application/json" };
  const answer = await fetch(url ?? "", { method: method ?? "", headers, body: body ?? "" });
  assert.equal(answer.status, 200, await answer.text());
}
