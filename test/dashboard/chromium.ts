import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";
import { after, before, type TestContext, test } from "node:test";
import { type Browser, type BrowserContextOptions, chromium, type Page } from "playwright-core";
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

/** `inBrowser(name, body)` declares a test that opens pages of one browser for the whole file. */
export function browserTests(): (name: string, body: Body) => void {
  const path = chromiumPath();
  let browser: Browser;
  if (path === undefined) {
    const reason = "There is no Chromium: install it (`apt-get install chromium`), or name one in ZAEL_CHROMIUM.";
    return (name) => declareMissing("browser", name, reason);
  }
  before(async () => {
    browser = await chromium.launch({ executablePath: path, args: FLAGS });
  });
  after(() => browser?.close());
  return (name, body) =>
    test(name, async (t) => {
      await body(t, async (options) => {
        const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
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
