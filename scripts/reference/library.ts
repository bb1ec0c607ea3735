import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { ts } from "@ts-morph/common";
import { type Call, Declarations, type Declared, type Row } from "./declarations.ts";
import { codesByClass } from "./errors.ts";
import { PAGES, type Page } from "./library-pages.ts";
import { cell, code, fenced, table } from "./markdown.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));

/** Types that users write: what they leave out has a default, and the table says so. */
const WRITTEN =
  /^New|(?:Options|Request|Props|Question|Query|Terms|Patch|Scope|Place|Behaviour|Entry|DynamoTable)$|^Reset$|^Credentials$/;

/** Where something is explained. */
interface DocTarget {
  readonly page: Page;
  readonly heading: string;
}

/** Every page of the library's reference by its path below docs/reference, from the doc comments of src. */
export function libraryReference(): ReadonlyMap<string, string> {
  const declarations = new Declarations(PAGES.map(fileOf));
  const exported = new Map(PAGES.map((page) => [page, declarations.of(fileOf(page))]));
  const places = placesOf(exported);
  const pages = PAGES.map((page) => new PageText(page, exported.get(page) ?? [], places));
  const texts = new Map(pages.map((page) => [page.path, page.text()]));
  const missing = pages.flatMap((page) => page.missing);
  if (missing.length > 0) throw new Error(`Write doc comments in src; these are missing:\n${missing.join("\n")}`);
  return texts;
}

/** What the members of each exported type mean, by the name of the type. */
export function memberTexts(): ReadonlyMap<string, ReadonlyMap<string, string>> {
  const found = new Map<string, ReadonlyMap<string, string>>();
  const declarations = new Declarations(PAGES.map(fileOf));
  for (const { name, rows, bases } of PAGES.flatMap((page) => declarations.of(fileOf(page)))) {
    const all = [...rows, ...bases.flatMap((base) => base.rows)];
    if (!found.has(name)) found.set(name, new Map(all.map((row) => [row.name, row.comment.text])));
  }
  return found;
}

function fileOf({ entry }: Page): string {
  return join(root, `src/entry/${entry}.ts`);
}

export function pathOf({ entry }: Page): string {
  return entry === "index" ? "library.md" : `library-${entry}.md`;
}

function importOf({ entry }: Page): string {
  return entry === "index" ? "zae-limiter" : `zae-limiter/${entry}`;
}

/** The first page that has a name explains it; others may export it, too. */
function placesOf(exported: ReadonlyMap<Page, readonly Declared[]>): ReadonlyMap<ts.Symbol, DocTarget> {
  const places = new Map<ts.Symbol, DocTarget>();
  for (const [page, all] of exported) {
    const methods = new Set(page.groups.flatMap(({ names }) => names.map((name) => name.replace("limiter.", ""))));
    for (const { symbol, name, kind } of all) {
      // A method may be called as a type is, but for the case: anchors have none.
      const isTaken = [...methods].some((other) => other !== name && other.toLowerCase() === name.toLowerCase());
      if (!places.has(symbol))
        places.set(symbol, {
          page,
          heading: isTaken && kind !== "function" && kind !== "const" ? `${name} (type)` : name,
        });
    }
  }
  return places;
}

class PageText {
  readonly path: string;
  /** What has no comment, or no default in it. */
  readonly missing: string[] = [];
  readonly #page: Page;
  readonly #all: ReadonlyMap<string, Declared>;
  readonly #places: ReadonlyMap<ts.Symbol, DocTarget>;

  constructor(page: Page, all: readonly Declared[], places: ReadonlyMap<ts.Symbol, DocTarget>) {
    this.path = pathOf(page);
    this.#page = page;
    this.#all = new Map(all.map((each) => [each.name, each]));
    this.#places = places;
  }

  text(): string {
    const { groups, text, entry } = this.#page;
    this.#requireWhole();
    const parts = [`# ${entry === "index" ? "The library" : importOf(this.#page)}`, text, this.#preface()];
    for (const group of groups) {
      parts.push(`## ${group.title}`, ...(group.text === undefined ? [] : [group.text]));
      for (const name of group.names) {
        const method = /^limiter\.(.+)$/.exec(name)?.[1];
        if (method !== undefined) parts.push(...this.#method(this.#methodOf(method)));
        else parts.push(...this.#declared(this.#all.get(name) as Declared));
      }
    }
    const again = this.#elsewhere();
    if (again.length > 0)
      parts.push("## Also exported", `The same as elsewhere: ${again.map((each) => this.#link(each)).join(", ")}.`);
    return `${parts.join("\n\n")}\n`;
  }

  /** Each export has its place in one group, and no group names what there is not. */
  #requireWhole(): void {
    const named = this.#page.groups.flatMap(({ names }) => names);
    const own = [...this.#all.values()].filter(({ symbol }) => this.#places.get(symbol)?.page === this.#page);
    const methods =
      this.#page.entry === "index"
        ? (this.#all.get("RateLimiter")?.calls ?? []).map(({ name }) => `limiter.${name}`)
        : [];
    const there = [...own.map(({ name }) => name), ...methods];
    const wrong = [
      ...there.filter((name) => !named.includes(name)).map((name) => `${name} stands in no group`),
      ...named.filter((name) => !there.includes(name)).map((name) => `${name} is not exported`),
      ...named.filter((name, i) => named.indexOf(name) !== i).map((name) => `${name} stands there twice`),
    ];
    if (wrong.length > 0)
      throw new Error(`scripts/reference/library-pages.ts, ${this.#page.entry}: ${wrong.join("; ")}.`);
  }

  #preface(): string {
    const made = "This page is made from the doc comments in `src` by `node scripts/library-reference.ts`.";
    if (this.#page.entry !== "index") {
      return `Import from \`${importOf(this.#page)}\`. ${made} [The library](library.md) lists all entry points.`;
    }
    const rows = PAGES.map((page) => [
      `[\`${importOf(page)}\`](${page === this.#page ? "#open-and-close" : pathOf(page)})`,
      page.text.split(/(?<=\.) /)[0] ?? "",
    ]);
    return [
      "Tokens are whole numbers, times are milliseconds since 1970 (`…AtMs`) or milliseconds (`…Ms`). Values that the package hands out are read-only; " +
        "`readonly` is left out below. Options that a call does not know are refused with the code `option_unknown`.",
      made,
      table(["entry point", "has"], rows),
      `On this page: ${this.#page.groups.map(({ title }) => `[${title}](#${title.toLowerCase().replaceAll(" ", "-")})`).join(", ")}.`,
    ].join("\n\n");
  }

  #methodOf(name: string): Call {
    return this.#all.get("RateLimiter")?.calls.find((call) => call.name === name) as Call;
  }

  #method(call: Call): readonly string[] {
    const heading = call.name.startsWith("[") ? "await using" : call.name;
    const receiver = call.isStatic ? "RateLimiter" : "limiter";
    const signature = call.name.startsWith("[") ? call.signature : `${receiver}.${call.signature}`;
    return [
      `### ${heading}`,
      fenced("ts", signature),
      ...this.#paragraphs(call, `limiter.${call.name}`),
      ...this.#see(call.mentions),
    ];
  }

  #declared(declared: Declared): readonly string[] {
    const { name, kind, comment, symbol, calls, rows, bases, mentions } = declared;
    const parts = [`### ${this.#places.get(symbol)?.heading}`];
    if (declared.code !== undefined)
      parts.push(fenced("ts", kind === "function" ? declared.code : `${declared.code};`));
    parts.push(...this.#paragraphs({ comment }, name), ...this.#see(mentions));
    parts.push(...this.#codes(name));
    const isLimiter = name === "RateLimiter" && this.#page.entry !== "cdk";
    const inherited = bases.filter(({ symbol: base }) => this.#places.get(base)?.page === this.#page);
    const others = bases.filter((base) => !inherited.includes(base));
    const all = [
      ...rows,
      ...others.flatMap((base) => base.rows.filter((row) => !rows.some((own) => own.name === row.name))),
    ];
    if (all.length > 0) parts.push(this.#table(declared, all));
    for (const { symbol: base, isPicked, rows: picked } of inherited) {
      const what = kind === "class" ? "every member" : WRITTEN.test(name) ? "every option" : "everything";
      const which = isPicked ? picked.map((row) => code(row.name)).join(", ") : what;
      parts.push(`${all.length + calls.length > 0 ? "It also has" : "It has"} ${which} of ${this.#link(base)}.`);
    }
    if (isLimiter) {
      if (this.#page.entry !== "index")
        parts.push(
          ...this.#calls(
            calls.filter(({ isStatic }) => isStatic),
            name,
            "limiter",
          ),
          "All other methods are those of [`RateLimiter`](library.md#ratelimiter) of `zae-limiter`.",
        );
    } else parts.push(...this.#calls(calls, name, receiverOf(declared)));
    return parts;
  }

  #calls(calls: readonly Call[], name: string, receiver: string): readonly string[] {
    return calls.flatMap((call) => {
      const isBare = call.name.startsWith("new ") || call.name.startsWith("[");
      const signature = isBare ? call.signature : `${call.isStatic ? name : receiver}.${call.signature}`;
      // What is made is explained with its class.
      const isPlain = call.name.startsWith("new ") && call.comment.text === "";
      const text = isPlain ? [] : this.#paragraphs(call, `${receiver}.${call.name}`);
      return [fenced("ts", signature), ...text, ...this.#see(call.mentions)];
    });
  }

  #table(declared: Declared, rows: readonly Row[]): string {
    const meaning = (row: Row) =>
      cell(this.#required(row.comment.text, `${declared.name}.${row.name}`, row.comment.fallback));
    if (!WRITTEN.test(declared.name)) {
      const also = ({ comment }: Row) => (comment.fallback === undefined ? "" : ` Default: ${cell(comment.fallback)}.`);
      const lines = rows.map((row) => [
        code(row.name + (row.isOptional ? "?" : "")),
        this.#type(row),
        meaning(row) + also(row),
      ]);
      const head =
        declared.kind === "const" && declared.calls.length === 0
          ? ["name", "value", "meaning"]
          : ["member", "type", "meaning"];
      return table(head, lines);
    }
    const lines = rows.map((row) => {
      const fallback = row.isOptional
        ? this.#required(row.comment.fallback ?? "", `the default of ${declared.name}.${row.name}`)
        : "required";
      return [code(row.name), this.#type(row), cell(fallback), meaning(row)];
    });
    return table(["option", "type", "default", "meaning"], lines);
  }

  #type({ type, mentions }: Row): string {
    const text = code(type.replaceAll("|", "\\|"));
    const [only, ...more] = mentions.filter((symbol) => this.#places.has(symbol));
    return only === undefined || more.length > 0 ? text : `[${text}](${this.#target(only)})`;
  }

  #paragraphs({ comment }: Pick<Call, "comment">, of: string): readonly string[] {
    const { text, fallback } = comment;
    return [`${this.#required(text, of)}${fallback === undefined ? "" : ` Default: ${fallback}.`}`];
  }

  #required(text: string, of: string, instead?: string): string {
    if (text === "" && instead === undefined) this.missing.push(`${importOf(this.#page)}: ${of}`);
    return text;
  }

  #see(mentions: readonly ts.Symbol[]): readonly string[] {
    const known = mentions.filter((symbol) => this.#places.has(symbol));
    return known.length === 0 ? [] : [`See ${known.map((symbol) => this.#link(symbol)).join(", ")}.`];
  }

  #codes(name: string): readonly string[] {
    const codes = codesByClass(readFileSync(join(root, "docs/reference/errors.md"), "utf8")).get(name) ?? [];
    return codes.length === 0 ? [] : [`Codes: ${codes.map(code).join(", ")}.`];
  }

  #elsewhere(): readonly ts.Symbol[] {
    return [...this.#all.values()]
      .map(({ symbol }) => symbol)
      .filter((symbol) => this.#places.get(symbol)?.page !== this.#page);
  }

  #link(symbol: ts.Symbol): string {
    const { heading } = this.#places.get(symbol) as DocTarget;
    return `[\`${heading.replace(" (type)", "")}\`](${this.#target(symbol)})`;
  }

  #target(symbol: ts.Symbol): string {
    const { page, heading } = this.#places.get(symbol) as DocTarget;
    const anchor = `#${heading.toLowerCase().replace(/[()]/g, "").replaceAll(" ", "-")}`;
    return page === this.#page ? anchor : `${pathOf(page)}${anchor}`;
  }
}

/** What a program would call it: `clock` of `SimulatedClock`. */
function receiverOf({ name, kind }: Declared): string {
  return kind === "const" ? name : (/[A-Z][a-z]*$/.exec(name)?.[0] ?? name).toLowerCase();
}
