import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import {
  cpSync,
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { llmsText, pagesOf, parseIndex, SHOWN_BESIDES, siteFileOf, siteLinkOf } from "../../scripts/docs-index.ts";
import { deepTest } from "../deep-test.ts";
import { plainEnvironment } from "./readme.ts";

// The index is the one list of documents: everything is in it, and the site and llms.txt are made from it.

const root = fileURLToPath(new URL("../..", import.meta.url));
const index = parseIndex(readFileSync(join(root, "docs/README.md"), "utf8"));
const pages = pagesOf(index.parts).map(({ file }) => file);
const documents = globSync("docs/**/*.md", { cwd: root }).map((file) => file.slice("docs/".length));

test("every document is in the index, once, and the index has no other", () => {
  assert.deepEqual([...pages].sort(), documents.filter((file) => file !== "README.md").sort());
});

test("the index has four parts", () => {
  assert.deepEqual(
    index.parts.map(({ title }) => title),
    ["Tutorial", "How-to guides", "Reference", "Explanation"],
  );
});

test("docs/llms.txt is what the index says", () => {
  const message = "docs/llms.txt is not what docs/README.md says; write it anew: node scripts/llms.ts";
  assert.equal(readFileSync(join(root, "docs/llms.txt"), "utf8"), llmsText(index), message);
});

test("an entry without a link or a description is an error, not a page less", () => {
  assert.throws(() => parseIndex("# Title\n\nText.\n\n## Part\n\n- [Page](page.md)\n"), /not of the form/);
});

test("llms.txt has lists under headings of one size, whatever the index has", () => {
  const small =
    "# Title\n\nSome\ntext.\n\nMore.\n\n## A\n\n- [One](a/1.md): first.\n\n## B\n\n### C\n\n- [Two](2.md): last.\n";
  const text = "# Title\n\n> Some text.\n\n## A\n\n- [One](a/1.md): first.\n\n## B: C\n\n- [Two](2.md): last.\n";
  assert.equal(llmsText(parseIndex(small)), text);
});

test("links work in the repository and on the site, also those that leave docs/", () => {
  const from = "docs/guide/limits.md";
  assert.equal(siteLinkOf(from, "plans.md#six-levels"), "/guide/plans.md#six-levels");
  assert.equal(siteLinkOf(from, "../promise.md"), "/promise.md");
  assert.equal(siteLinkOf(from, "../README.md"), "/");
  assert.equal(siteLinkOf(from, "../../CHANGELOG.md"), "/CHANGELOG.md");
  assert.equal(siteLinkOf("CHANGELOG.md", "docs/guide/plans.md"), "/guide/plans.md");
  assert.equal(siteLinkOf(from, "#drip"), "#drip");
  assert.equal(siteLinkOf(from, "https://example.org/a.md"), "https://example.org/a.md");
  assert.equal(siteLinkOf(from, "../../src/entry/index.ts"), undefined);
});

deepTest(
  "the site builds: every document is a page, no link or anchor leads nowhere, and its pages can be searched",
  async (t) => {
    const site = temporary(t);
    await build(root, site);
    const html = [...documents.map((file) => `docs/${file}`), ...SHOWN_BESIDES].map((file) =>
      (siteFileOf(file) ?? file).replace(/\.md$/, ".html"),
    );
    assert.deepEqual(
      html.filter((file) => !existsSync(join(site, file))),
      [],
    );
    assert.deepEqual(deadAnchors(site, html), []);
    assert.match(readFileSync(join(site, "index.html"), "utf8"), /Kinds of limits/);
    assert.equal(globSync("assets/chunks/@localSearchIndex*.js", { cwd: site }).length, 1);
    assert.equal(readFileSync(join(site, "llms.txt"), "utf8"), llmsText(index));
    const linked = pages.filter((file) => !existsSync(join(site, file)));
    assert.deepEqual(linked, [], "llms.txt links to Markdown that the site does not have");
  },
);

deepTest("a link to a page that is not there fails the build", async (t) => {
  const copy = temporary(t);
  for (const file of ["docs/.vitepress/config.ts", "docs/.vitepress/theme", "scripts/docs-index.ts", "package.json"]) {
    cpSync(join(root, file), join(copy, file), { recursive: true });
  }
  symlinkSync(join(root, "node_modules"), join(copy, "node_modules"));
  mkdirSync(join(copy, "docs/guide"));
  writeFileSync(join(copy, "docs/README.md"), "# Title\n\nText.\n\n## Part\n\n- [Page](guide/page.md): about.\n");
  writeFileSync(join(copy, "docs/guide/page.md"), "# Page\n\nA link to [nowhere](../gone.md).\n");
  writeFileSync(join(copy, "docs/llms.txt"), "");
  await assert.rejects(
    build(copy, join(copy, "site")),
    (error: { readonly stdout: string; readonly stderr: string }) => {
      assert.match(error.stdout + error.stderr, /dead link \/gone in file docs\/guide\/page\.md/);
      return true;
    },
  );
});

function temporary(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), "docs-site-"));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** What `npm run docs` does, into another folder. */
async function build(repository: string, outDir: string): Promise<void> {
  const vitepress = join(root, "node_modules/vitepress/bin/vitepress.js");
  const env = { ...plainEnvironment(), NO_COLOR: "1" };
  await promisify(execFile)(process.execPath, [vitepress, "build", join(repository, "docs"), "--outDir", outDir], {
    env,
  });
}

/** VitePress checks that a page is there, not its headings. */
function deadAnchors(site: string, html: readonly string[]): string[] {
  const text = new Map(html.map((file) => [file, readFileSync(join(site, file), "utf8")]));
  return html.flatMap((file) => {
    const [, content = ""] = (text.get(file) ?? "").split("<main");
    return [...content.matchAll(/href="(\/[^"#]*)?#([^"]+)"/g)].flatMap(([, path, anchor = ""]) => {
      const target = path === undefined ? file : path.slice(1) || "index.html";
      return (text.get(target) ?? "").includes(`id="${anchor}"`) ? [] : [`${file}: ${target}#${anchor}`];
    });
  });
}
