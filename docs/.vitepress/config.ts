import { copyFileSync, mkdirSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { type DefaultTheme, defineConfig, type MarkdownOptions, type MarkdownRenderer } from "vitepress";
import {
  anchorOf,
  type IndexPage,
  type IndexPart,
  pagesOf,
  parseIndex,
  siteFileOf,
  siteLinkOf,
} from "../../scripts/docs-index.ts";

// The site is made of the Markdown as it stands in the repository: no page is written for it, and its sidebar is the index, docs/README.md.

const root = fileURLToPath(new URL("../..", import.meta.url));
const index = parseIndex(readFileSync(join(root, "docs/README.md"), "utf8"));

function linkOf({ title, file }: IndexPage): DefaultTheme.SidebarItem {
  return { text: title.replaceAll("`", ""), link: `/${file}` };
}

function groupOf({ title, pages, parts }: IndexPart, isOpen: boolean): DefaultTheme.SidebarItem {
  const items = [...pages.map(linkOf), ...parts.map((part) => groupOf(part, false))];
  return { text: title, items, ...(isOpen ? {} : { collapsed: true }) };
}

/** Leads to the first page of a part, and is marked on all of them. */
function navOf(part: IndexPart): DefaultTheme.NavItemWithLink {
  const files = pagesOf([part]).map(({ file }) => file);
  const names = files.map((file) => file.replace(/\.md$/, "").replaceAll(".", "\\."));
  return { text: part.title, link: `/${files[0]}`, activeMatch: `^/(?:${names.join("|")})(?:\\.html)?$` };
}

/** Where a page stands in the repository, as VitePress tells Markdown. */
interface PageEnvironment {
  readonly path?: string;
  readonly realPath?: string;
}

const forTheSite: NonNullable<MarkdownOptions["preConfig"]> = (md) => {
  md.core.ruler.push("site", ({ tokens, env }) => {
    const { path = root, realPath = path } = env as PageEnvironment;
    const document = relative(root, realPath).replaceAll("\\", "/");
    for (const token of tokens) {
      // Blocks that are indented look like those between fences.
      if (token.type === "code_block") Object.assign(token, { type: "fence", info: "text" });
      withSiteLinks(document, token.children ?? []);
    }
  });
};

type Token = ReturnType<MarkdownRenderer["parse"]>[number];

/** Links are written for a reader of the repository. Of a link that leads nowhere on the site its text remains. */
function withSiteLinks(document: string, tokens: readonly Token[]): void {
  let isDropped = false;
  for (const token of tokens) {
    if (token.type === "link_open") {
      const link = siteLinkOf(document, token.attrGet("href") ?? "");
      isDropped = link === undefined;
      if (link !== undefined) token.attrSet("href", link);
    }
    if (isDropped && /^link_(?:open|close)$/.test(token.type)) {
      Object.assign(token, { type: "text", tag: "", nesting: 0, content: "" });
    }
  }
}

export default defineConfig({
  title: index.title,
  description: index.summary,
  lang: "en",
  head: [["link", { rel: "icon", href: "data:," }]],
  srcDir: "..",
  srcExclude: ["!(CHANGELOG).md", "!(docs|bench)/**/*.md", "bench/*.md", "bench/!(results)/**/*.md"],
  rewrites: (file) => siteFileOf(file) ?? file,
  // Vite 5 asks for browsers that the esbuild of this repository no longer writes for.
  vite: { publicDir: false, build: { target: "es2022" } },
  markdown: { html: false, anchor: { slugify: anchorOf }, preConfig: forTheSite },
  themeConfig: {
    search: { provider: "local" },
    sidebar: index.parts.map((part) => groupOf(part, true)),
    nav: index.parts.map(navOf),
    outline: { level: [2, 3] },
  },
  buildEnd({ outDir, pages }) {
    // Beside each page its Markdown, and at the top llms.txt, which links to these.
    for (const page of pages) {
      const to = join(outDir, siteFileOf(page) ?? page);
      mkdirSync(dirname(to), { recursive: true });
      copyFileSync(join(root, page), to);
    }
    copyFileSync(join(root, "docs/llms.txt"), join(outDir, "llms.txt"));
  },
});
