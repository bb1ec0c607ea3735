import { posix } from "node:path";

// docs/README.md is the one list of all documents. The sidebar of the site and docs/llms.txt are made from it.

/** A page of the index: `- [title](file): about.` */
export interface IndexPage {
  readonly title: string;
  /** Below docs/, such as `guide/limits.md`. */
  readonly file: string;
  readonly about: string;
}

/** What stands below a heading: pages, and parts of its own below smaller headings. */
export interface IndexPart {
  readonly title: string;
  readonly pages: readonly IndexPage[];
  readonly parts: readonly IndexPart[];
}

export interface DocsIndex {
  readonly title: string;
  /** The first paragraph, in one line. */
  readonly summary: string;
  readonly parts: readonly IndexPart[];
}

const PAGE = /^- \[([^\]]+)\]\(([^)\s]+)\): (.+)$/;

export function parseIndex(markdown: string): DocsIndex {
  const [head = "", ...parts] = markdown.split(/^(?=## )/m);
  const [title = "", summary = ""] = head.split(/\n\n+/);
  return {
    title: title.replace(/^# /, ""),
    summary: summary.replaceAll("\n", " "),
    parts: parts.map((part) => {
      const [own = "", ...smaller] = part.split(/^(?=### )/m);
      return { ...partOf(own), parts: smaller.map(partOf) };
    }),
  };
}

function partOf(text: string): IndexPart {
  const [heading = "", ...lines] = text.split("\n");
  const pages = lines.filter((line) => line.startsWith("- ")).map(pageOf);
  return { title: heading.replace(/^#+ /, ""), pages, parts: [] };
}

function pageOf(line: string): IndexPage {
  const [, title = "", file = "", about = ""] = PAGE.exec(line) ?? [];
  if (title === "") throw new Error(`docs/README.md: "${line}" is not of the form - [title](file): about.`);
  return { title, file, about };
}

/** Every page, in the order of the index. */
export function pagesOf(parts: readonly IndexPart[]): IndexPage[] {
  return parts.flatMap(({ pages, parts }) => [...pages, ...pagesOf(parts)]);
}

/** docs/llms.txt, in the form of llmstxt.org: a title, a summary, and lists of links under headings of one size. */
export function llmsText({ title, summary, parts }: DocsIndex): string {
  const lists = parts.flatMap((part) => [
    { title: part.title, pages: part.pages },
    ...part.parts.map((smaller) => ({ title: `${part.title}: ${smaller.title}`, pages: smaller.pages })),
  ]);
  const sections = lists.filter(({ pages }) => pages.length > 0).map((list) => `## ${list.title}\n\n${linesOf(list)}`);
  return `${[`# ${title}`, `> ${summary}`, ...sections].join("\n\n")}\n`;
}

function linesOf({ pages }: { readonly pages: readonly IndexPage[] }): string {
  return pages.map(({ title, file, about }) => `- [${title}](${file}): ${about}`).join("\n");
}

/** The anchor of a heading, as GitHub makes it: links work in the repository and on the site. */
export function anchorOf(heading: string): string {
  return heading
    .toLowerCase()
    .replace(/[^\w\- ]/g, "")
    .replaceAll(" ", "-");
}

/** Where the site has a file of the repository; undefined: nowhere. */
export function siteFileOf(file: string): string | undefined {
  if (file === "docs/README.md") return "index.md";
  if (file.startsWith("docs/") && file.endsWith(".md")) return file.slice("docs/".length);
  return SHOWN_BESIDES.includes(file) ? file : undefined;
}

/** Files outside docs/ that the site shows as well, because documents link to them. */
export const SHOWN_BESIDES: readonly string[] = ["CHANGELOG.md", "bench/results/README.md"];

/**
 * A link of a document, as the site has it: absolute, so that a file may stand elsewhere on the site than in the repository.
 * A link to a file that the site does not show is text there: undefined.
 */
export function siteLinkOf(document: string, target: string): string | undefined {
  if (/^(?:[a-z]+:|#)/.test(target)) return target;
  const [path = "", heading] = target.split("#");
  const file = siteFileOf(posix.join(posix.dirname(document), path));
  if (file === undefined) return undefined;
  return `/${file.replace(/(?:^|(?<=\/))index\.md$/, "")}${heading === undefined ? "" : `#${heading}`}`;
}
