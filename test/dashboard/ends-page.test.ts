import assert from "node:assert/strict";
import type { Page } from "playwright-core";
import { Limit } from "../../src/entry/index.ts";
import { browserTests } from "./chromium.ts";
import { axeFindings, DEFAULT_LIMITS, furnish, PAGES, ready, saveForAll, served, visit, wordsOf } from "./page-kit.ts";

// Limits, access and namespaces that somebody changes for a time.

const { inBrowser, inDeepBrowser } = browserTests();

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
/** The service's clock stands at noon UTC: in this zone it is 13:00. */
const BERLIN = { timezoneId: "Europe/Berlin" };

/** The clock of the page goes on while that of the service stands. */
function minutesTo(untilMs: number | undefined, nowMs: number): number | undefined {
  return untilMs === undefined ? undefined : Math.round((untilMs - nowMs) / MINUTE_MS);
}

async function setRate(page: Page, rate: number): Promise<void> {
  const rpm = page.locator("[data-testid=limit-row][data-limit=rpm]");
  await rpm.getByTestId("limit-capacity").fill(String(rate));
  await rpm.getByTestId("limit-amount").fill(String(rate));
}

inBrowser("limits are set for an hour, shown with what follows, and ended early or by a save", async (t, open) => {
  const service = await served(t);
  await furnish(service);
  const { limiter, clock } = service;
  const page = await open(BERLIN);
  await page.clock.setSystemTime(clock.now());
  await visit(page, service.url, DEFAULT_LIMITS);
  await page.locator("[data-testid=live][data-state=open]").waitFor();
  assert.equal(await page.getByTestId("limits-for").inputValue(), "", "for good, unless somebody chooses");
  const stored = async () => {
    const [set] = await limiter.resolveLimits("nobody", "gpt-4").then(({ limits, untilMs }) => [{ limits, untilMs }]);
    return [set?.limits[0]?.capacity, minutesTo(set?.untilMs, clock.now())];
  };
  await setRate(page, 500);
  await page.getByTestId("limits-for").selectOption({ label: "for 1 hour" });
  await page.getByText("Then what is stored now counts again.").waitFor();
  await saveForAll(page);
  await page.getByTestId("limits-saved").getByText("until 14:00").waitFor();
  assert.deepEqual(await stored(), [500, 60]);
  const note = page.getByTestId("limits-ending");
  assert.match(
    await wordsOf(note),
    /^These limits count until 14:00, then rpm 60, refills 60\/min; tpm 10,000, refills 10,000\/min\. ?End now$/,
  );
  assert.match(await wordsOf(page.locator("[data-level=resource]")), /in force, until 14:00$/);
  assert.equal(await page.getByTestId("limits-for").inputValue(), "", "the next save is for good again");
  await page.getByText("Saving ends the limits that run until 14:00, now.").waitFor();

  // Another end takes its place, in the time of the viewer.
  await page.getByTestId("limits-for").selectOption({ label: "until…" });
  await page.getByText("In your time zone, Europe/Berlin").waitFor();
  await page.getByTestId("limits-until").fill("2026-03-10T15:30");
  await saveForAll(page);
  await page.getByTestId("limits-saved").getByText("until 15:30").waitFor();
  assert.deepEqual(await stored(), [500, 150]);

  await page.getByTestId("limits-end-now").click();
  const question = page.getByTestId("confirm");
  assert.match(await wordsOf(question), /of every entity on gpt-4 will no longer count .*: from now on rpm 60/);
  await question.getByTestId("dialog-submit").click();
  await page.getByTestId("limits-saved").getByText("Ended: resource default").waitFor();
  assert.deepEqual(await stored(), [60, undefined]);
  await note.waitFor({ state: "detached" });

  await limiter.setResourceDefaults("gpt-4", [Limit.perMinute("rpm", 9)], { untilMs: clock.now() + HOUR_MS });
  await note.waitFor();
  await setRate(page, 70);
  await saveForAll(page);
  await page.getByTestId("limits-saved").getByText("Saved: 1 limit as resource default.").waitFor();
  assert.deepEqual(await stored(), [70, undefined], "a save for good takes the place of both");

  await page.evaluate(`location.hash = "#/audit"`);
  await page.getByTestId("audit-row").first().waitFor();
  const rows = (await page.getByTestId("audit-row").all()).slice(0, 5);
  const told = (await Promise.all(rows.map(wordsOf))).map((row) => row.replace(/^.*(limits (set|deleted))/, "$1"));
  assert.match(told[0] ?? "", /^limits set\$RESOURCE:gpt-4.*rpm 9, refills 9\/min → 70, refills 70\/min$/);
  assert.match(told[1] ?? "", /^limits set until 14:00, replaced 13:00/);
  assert.match(told[2] ?? "", /^limits deleted override ended.*rpm 500, refills 500\/min → 60, refills 60\/min$/);
  assert.match(told[4] ?? "", /^limits set until 14:00, replaced 13:00.*rpm 60, refills 60\/min → 500/);
});

inDeepBrowser("an end that nobody has chosen, or that is over, is not sent or not accepted", async (t, open) => {
  const service = await served(t);
  await furnish(service);
  const page = await open();
  await page.clock.setSystemTime(service.clock.now());
  await visit(page, service.url, PAGES.limits);
  await setRate(page, 500);
  await page.getByTestId("limits-for").selectOption({ label: "until…" });
  // The browser itself does not send a form whose end is missing; the page does not either.
  await page.evaluate("document.querySelector('form.editor').noValidate = true");
  await page.getByTestId("limits-save").click();
  assert.match(await wordsOf(page.getByTestId("limits-error")), /^Not sent yet\. ?The end has no day and time yet/);
  await page.getByTestId("limits-until").fill("2026-03-10T11:00");
  await page.getByTestId("limits-save").click();
  await page.locator("[data-testid=limits-error][data-code=until_invalid]").waitFor();
  const { limits } = await service.limiter.resolveLimits("key-1", "gpt-4");
  assert.equal(limits[0]?.capacity, 60);
});

inBrowser("access is set for a time, and shown with its end and what follows", async (t, open) => {
  const service = await served(t);
  await furnish(service);
  const { limiter, clock } = service;
  const page = await open(BERLIN);
  await page.clock.setSystemTime(clock.now());
  await visit(page, service.url, PAGES.limits);
  await page.locator("[data-testid=live][data-state=open]").waitFor();
  await page.getByTestId("limits-policy").click();
  assert.equal(await page.getByTestId("policy-for").count(), 0, "to leave it unchanged has no end");
  await page.getByTestId("policy-access").selectOption("bypass");
  await page.getByTestId("policy-for").selectOption({ label: "for 15 minutes" });
  await page.getByTestId("dialog-submit").click();
  await page.getByTestId("limits-saved").getByText("Saved: access").waitFor();
  const where = { entityId: "key-1", resource: "gpt-4" };
  const { access, accessUntilMs, accessThen } = await limiter.getPolicy(where);
  assert.deepEqual([access, minutesTo(accessUntilMs, clock.now()), accessThen], ["bypass", 15, undefined]);
  await page.getByTestId("limits-policy").click();
  await page.getByText("Stored here: bypass until 13:15, then nothing (inherited)").waitFor();
  await page.getByTestId("policy-access").selectOption("inherit");
  assert.equal(await page.getByTestId("policy-for").count(), 0);
  await page.getByTestId("dialog-submit").click();
  await page.getByTestId("dialog").waitFor({ state: "detached" });
  assert.deepEqual(await limiter.getPolicy(where), {});
});

inBrowser("a namespace is frozen with a reason, says so on every page, and is unfrozen", async (t, open) => {
  const service = await served(t);
  await furnish(service);
  const { limiter } = service;
  await limiter.registerNamespace("tenant-b");
  const page = await open();
  await visit(page, service.url, PAGES.namespaces);
  await page.locator("[data-testid=live][data-state=open]").waitFor();
  const row = (name: string) => page.locator(`[data-testid=namespace-row][data-namespace="${name}"]`);
  await row("default").getByTestId("namespace-freeze").click();
  await page.getByTestId("freeze-reason").fill("moving to another store");
  await page.getByTestId("dialog-submit").click();
  await page.getByTestId("namespace-told").getByText("The namespace default is frozen.").waitFor();
  assert.deepEqual((await limiter.getNamespace("default")).frozen, { reason: "moving to another store" });
  await row("default").getByText("moving to another store").waitFor();
  await page.getByTestId("frozen").getByText("This namespace is frozen: moving to another store").waitFor();
  assert.equal(await row("tenant-b").getByTestId("namespace-freeze").count(), 1);
  await page.evaluate(`location.hash = "#/buckets"`);
  await ready(page);
  assert.match(await wordsOf(page.getByTestId("frozen")), /^This namespace is frozen: moving to another store/);
  assert.match((await limiter.tryAcquire({ entityId: "key-1", resource: "gpt-4" }).catch(String)) as string, /frozen/);
  await page.getByTestId("frozen").getByText("Namespaces").click();
  await row("default").getByTestId("namespace-unfreeze").click();
  await page.getByTestId("namespace-told").getByText("is not frozen any more").waitFor();
  await page.getByTestId("frozen").getByText("frozen").waitFor({ state: "detached" });
  assert.equal((await limiter.getNamespace("default")).frozen, undefined);
});

inDeepBrowser("ends and frozen namespaces fit every screen, and axe has nothing to say of them", async (t, open) => {
  const service = await served(t);
  await furnish(service);
  const { limiter, clock } = service;
  const until = { untilMs: clock.now() + 26 * HOUR_MS };
  await limiter.setLimits("key-1", [Limit.perMinute("rpm", 500)], { resource: "gpt-4", ...until });
  await limiter.setPlanLimits("gold", [Limit.perMinute("rpm", 5)], until);
  await limiter.setAccess({ entityId: "key-1" }, "bypass", until);
  await limiter.freezeNamespace("default", { reason: "moving to another store, which takes until tonight" });
  for (const colorScheme of ["light", "dark"] as const) {
    for (const width of [360, 800, 1280]) {
      const page = await open({ colorScheme, viewport: { width, height: 900 } });
      await page.clock.setSystemTime(clock.now());
      await visit(page, service.url, PAGES.limits);
      await page.getByTestId("limits-for").selectOption({ label: "until…" });
      await page.getByTestId("frozen").getByText("is frozen").waitFor();
      for (const name of ["limits", "namespaces", "plans", "audit"]) {
        if (name !== "limits") await page.evaluate(`location.hash = ${JSON.stringify(PAGES[name])}`);
        await page.locator(`[data-testid=app][data-ready=true][data-page=${name}]`).waitFor();
        const fits = "document.documentElement.scrollWidth <= document.documentElement.clientWidth";
        assert.equal(await page.evaluate(fits), true, `${name} at ${width}`);
        assert.deepEqual(await axeFindings(page), [], `${name}, ${colorScheme}, ${width}`);
      }
    }
  }
});
