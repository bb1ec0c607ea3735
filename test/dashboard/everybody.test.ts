import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { writeFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";
import type { Page } from "playwright-core";
import { browserTests } from "./chromium.ts";
import { axeFindings, furnish, goTo, HOSTILE_NAME, LONG_ID, PAGES, ready, served, visit, wordsOf } from "./page-kit.ts";

// For everybody: with a token or without, by keyboard, with a screen reader, on a phone, in the dark.

const { inBrowser, inDeepBrowser } = browserTests();

inDeepBrowser("axe has nothing serious to say about any page, in either theme", async (t, open) => {
  const service = await served(t);
  await furnish(service);
  for (const colorScheme of ["light", "dark"] as const) {
    const page = await open({ colorScheme });
    await page.clock.setSystemTime(service.clock.now());
    await visit(page, service.url);
    await page.locator("[data-testid=live][data-state=open]").waitFor();
    await service.take("key-2", "gpt-4", { rpm: 60 });
    await page.getByTestId("refusal-count").waitFor();
    for (const name of Object.keys(PAGES)) {
      await goTo(page, name);
      await unfold(page, name);
      assert.deepEqual(await axeFindings(page), [], `${name}, ${colorScheme}`);
    }
    await goTo(page, "entities");
    await page.getByTestId("entity-create").click();
    assert.deepEqual(await axeFindings(page), [], `a dialog, ${colorScheme}`);
  }
});

inDeepBrowser("at 360 pixels nothing scrolls sideways, however long the names are", async (t, open) => {
  const service = await served(t);
  await furnish(service);
  const page = await open({ viewport: { width: 360, height: 740 } });
  await page.clock.setSystemTime(service.clock.now());
  await visit(page, service.url);
  await page.locator("[data-testid=live][data-state=open]").waitFor();
  await service.take(LONG_ID, "gpt-4", { rpm: 100 }).catch(() => {});
  await service.take("key-2", "gpt-4", { rpm: 60 });
  await page.getByTestId("refusal-count").waitFor();
  const widths = "[document.documentElement.scrollWidth, document.documentElement.clientWidth].join()";
  for (const name of Object.keys(PAGES)) {
    await goTo(page, name);
    await unfold(page, name);
    assert.equal(await page.evaluate(widths), "360,360", name);
  }
  await page.goto(`${service.url}#/limits?entity=${LONG_ID}&resource=gpt-4`);
  await ready(page);
  assert.equal(await page.evaluate(widths), "360,360", "limits of a long name");
  await goTo(page, "entities");
  await page.getByTestId("entity-create").click();
  assert.equal(await page.evaluate(widths), "360,360", "a dialog");
});

inBrowser("hostile names are shown as the text they are", async (t, open) => {
  const service = await served(t);
  await furnish(service);
  const page = await open();
  await visit(page, service.url, PAGES.entities);
  const name = page.locator('[data-testid=entity-item][data-entity="key-2"] [data-testid=entity-open]').first();
  assert.ok((await wordsOf(name)).includes(HOSTILE_NAME));
  for (const each of ["audit", "buckets", "limits"]) await goTo(page, each);
  assert.equal(await page.locator("#root img, #root script").count(), 0);
  assert.equal(await page.evaluate("typeof window.hacked"), "undefined");
});

inDeepBrowser("everything can be reached by keyboard, in the order one reads", async (t, open) => {
  const service = await served(t);
  await furnish(service);
  const page = await open();
  await visit(page, service.url);
  const focused = () =>
    page.evaluate("document.activeElement?.dataset.testid ?? document.activeElement?.tagName") as Promise<string>;
  const order: string[] = [];
  const pages = Object.keys(PAGES).map((name) => `nav-${name}`);
  const expected = ["skip-link", "namespace-select", ...pages, "theme", "bucket-order", "bucket-filter", "bucket-open"];
  while (order.length < expected.length) {
    await page.keyboard.press("Tab");
    order.push(await focused());
  }
  assert.deepEqual(order, expected);
  await page.getByTestId("skip-link").focus();
  await page.keyboard.press("Enter");
  assert.equal(await focused(), "page-title");
  await page.keyboard.press("Tab");
  assert.equal(await focused(), "bucket-order");
  const outline = await page.evaluate("getComputedStyle(document.activeElement).outlineStyle");
  assert.equal(outline, "solid", "focus is visible");
});

inDeepBrowser("a dialog holds the focus, closes by Escape and gives the focus back", async (t, open) => {
  const service = await served(t);
  await furnish(service);
  const page = await open();
  await visit(page, service.url, PAGES.entities);
  await page.getByTestId("entity-create").focus();
  await page.keyboard.press("Enter");
  await page.getByTestId("dialog").waitFor();
  for (let i = 0; i < 15; i++) {
    await page.keyboard.press("Tab");
    // Between its last field and its first one the focus may pass the browser's own controls, never the page behind it.
    const place = await page.evaluate(
      "document.activeElement === document.body || !!document.activeElement.closest('dialog')",
    );
    assert.equal(place, true, `Tab ${i + 1} left the dialog`);
  }
  await page.keyboard.press("Escape");
  await page.getByTestId("dialog").waitFor({ state: "detached" });
  // The browser gives the focus back after the dialog has gone, not in the same step.
  await page.waitForFunction("document.activeElement.dataset.testid === 'entity-create'");
});

inDeepBrowser("the theme is kept, and who wants less motion gets none", async (t, open) => {
  const service = await served(t);
  await furnish(service);
  const page = await open({ colorScheme: "light", reducedMotion: "reduce" });
  await visit(page, service.url);
  const ground = () => page.evaluate("getComputedStyle(document.body).backgroundColor");
  const light = await ground();
  await page.getByTestId("theme").selectOption("dark");
  const dark = await ground();
  assert.notEqual(dark, light);
  await page.reload();
  await ready(page);
  assert.equal(await page.getByTestId("theme").inputValue(), "dark");
  assert.equal(await ground(), dark);
  await page.getByTestId("theme").selectOption("auto");
  await page.emulateMedia({ colorScheme: "dark" });
  assert.equal(await ground(), dark, "auto follows the system");
  const motion = "getComputedStyle(document.querySelector('[data-testid=bucket-bar] i')).transitionDuration";
  assert.equal(await page.evaluate(motion), "0s");
  await page.emulateMedia({ reducedMotion: "no-preference" });
  assert.equal(await page.evaluate(motion), "0.25s");
});

const TOKENS = { ops: "zael_ops", reader: "zael_reader", taker: "zael_taker" };

inBrowser("with tokens the page asks first; what a token cannot do is not offered", async (t, open) => {
  const file = await tokenFile(t);
  const service = await served(t, { tokenFile: file });
  await furnish(service);
  const page = await open();
  await page.goto(service.url);
  await page.getByTestId("token-form").waitFor();
  await page.getByTestId("token-input").fill("zael_wrong");
  await page.keyboard.press("Enter");
  await page.getByTestId("token-error").getByText("does not accept").waitFor();
  assert.deepEqual(await axeFindings(page), [], "the form");

  await page.getByTestId("token-input").fill(TOKENS.reader);
  await page.getByTestId("token-submit").click();
  await ready(page);
  assert.equal(page.url().includes(TOKENS.reader), false);
  assert.deepEqual(await page.context().cookies(), []);
  for (const [name, offer] of [
    ["entities", "entity-create"],
    ["limits", "limits-save"],
    ["namespaces", "namespace-create"],
  ] as const) {
    await goTo(page, name);
    assert.equal(await page.getByTestId(offer).count(), 0, offer);
  }
  assert.equal(await page.getByTestId("error").count(), 0);
  await page.reload();
  await ready(page);

  // Taken away: refused within 2 s, its stream ends, and the page asks again.
  writeTokens(file, ["ops", "taker"]);
  await page.getByTestId("token-form").waitFor();
  await page.getByTestId("token-input").fill(TOKENS.ops);
  await page.getByTestId("token-submit").click();
  await ready(page);
  await goTo(page, "entities");
  await page.getByTestId("entity-create").waitFor();
  await page.getByTestId("sign-out").click();
  await page.getByTestId("token-input").fill(TOKENS.taker);
  await page.getByTestId("token-submit").click();
  await page.getByTestId("error").waitFor();
  assert.match(await wordsOf(page.getByTestId("error")), /has the scopes acquire.*needs read/);
});

async function tokenFile(t: TestContext): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "page-tokens-"));
  t.after(() => rm(folder, { recursive: true }));
  const file = join(folder, "tokens.json");
  writeTokens(file, ["ops", "reader", "taker"]);
  return file;
}

function writeTokens(file: string, ids: readonly (keyof typeof TOKENS)[]): void {
  const scopes = { ops: ["acquire", "read", "admin"], reader: ["read"], taker: ["acquire"] };
  const tokens = ids.map((id) => ({
    id,
    sha256: createHash("sha256").update(TOKENS[id]).digest("hex"),
    namespaces: id === "ops" ? "*" : ["default"],
    scopes: scopes[id],
  }));
  writeFileSync(file, JSON.stringify({ tokens }));
}

/** Opens what can be opened, so that it is looked at, too. */
async function unfold(page: Page, name: string): Promise<void> {
  if (name === "buckets") {
    await page.getByTestId("bucket-open").last().click();
    await page.getByTestId("explain-level").first().waitFor();
  } else if (name === "entities") {
    await page.getByTestId("entity-open").last().click();
    await page.getByTestId("entity-panel").waitFor();
  } else if (name === "limits") {
    await page.getByTestId("limit-capacity").first().fill("12");
    await page.getByTestId("window-add").first().click();
  } else if (name === "usage") await page.getByTestId("usage-chart").waitFor();
  else if (name === "refusals") await page.getByTestId("refusal-row").first().waitFor();
}
