import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";
import { after, type TestContext, test } from "node:test";
import { type Browser, type BrowserContextOptions, chromium, type Page } from "playwright-core";
import { isDeep } from "../depth.ts";
import { declareMissing } from "../engines/describe-on.ts";

// Tests of the dashboard in a real Chromium: that of ZAEL_CHROMIUM, Debian's, or one on the PATH. Where there is none they are
// skipped and say so; with ZAEL_REQUIRE_BROWSER=1 that is a failure.

const FLAGS = [
  ...["--headless", "--no-sandbox", "--disable-gpu"],
  ...["--disable-background-networking", "--disable-component-update", "--disable-sync"],
];

/** No answer takes this long, also on a busy machine; what does hangs. */
const PATIENCE_MS = 30_000;

type Body = (t: TestContext, open: (options?: BrowserContextOptions) => Promise<Page>) => Promise<void>;

interface BrowserTests {
  /** Declares a test that opens pages of a browser. */
  readonly inBrowser: (name: string, body: Body) => void;
  /** Declares one that only `npm run test:deep` has. */
  readonly inDeepBrowser: (name: string, body: Body) => void;
}

const path = chromiumPath();

/** One for all files of this process. */
let browser: Promise<Browser> | undefined;

if (path !== undefined) after(async () => (await browser)?.close());

/** What declares the tests of a file: all of them in one browser. */
export function browserTests(): BrowserTests {
  return { inBrowser, inDeepBrowser: isDeep ? inBrowser : () => {} };
}

function inBrowser(name: string, body: Body): void {
  if (path === undefined) {
    const reason = "There is no Chromium: install it (`apt-get install chromium`), or name one in ZAEL_CHROMIUM.";
    declareMissing("browser", name, reason);
    return;
  }
  test(name, async (t) => {
    browser ??= chromium.launch({ executablePath: path, args: FLAGS });
    const started = await browser;
    await body(t, async (options) => {
      const context = await started.newContext({ viewport: { width: 1280, height: 900 }, ...options });
      context.setDefaultTimeout(PATIENCE_MS);
      t.after(() => context.close());
      return context.newPage();
    });
  });
}

function chromiumPath(): string | undefined {
  const { ZAEL_CHROMIUM, PATH = "" } = process.env;
  if (ZAEL_CHROMIUM) return isProgram(ZAEL_CHROMIUM) ? ZAEL_CHROMIUM : undefined;
  const names = ["chromium", "chromium-browser", "google-chrome"];
  const folders = ["/usr/bin", ...PATH.split(delimiter)];
  return folders.flatMap((folder) => names.map((name) => join(folder, name))).find(isProgram);
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
