/** The pages, in the order of the navigation; the first is where an empty address leads. */
export const PAGES = [
  "overview",
  "buckets",
  "refusals",
  "usage",
  "limits",
  "leases",
  "entities",
  "plans",
  "audit",
  "namespaces",
] as const;

/** The bar of a phone shows this many pages; the others are behind a button. */
export const MAIN_PAGES = 5;

export type PageName = (typeof PAGES)[number];

/** The part of a route that its page gets. */
export interface PageProps {
  readonly params: Readonly<Record<string, string>>;
}

/** The part of an address after the `#`. */
export interface Route extends PageProps {
  readonly page: PageName;
}

/** Reads a route; an unknown page becomes the first one. */
export function parseRoute(hash: string): Route {
  const [path = "", search = ""] = hash.replace(/^#?\/?/, "").split("?");
  const page = PAGES.find((name) => name === path) ?? PAGES[0];
  return { page, params: Object.fromEntries(new URLSearchParams(search)) };
}

/** Writes a route without its empty parameters. */
export function hrefOf(page: PageName, params: Readonly<Record<string, string | undefined>> = {}): string {
  const given = Object.entries(params).filter((entry): entry is [string, string] => !!entry[1]);
  // A slash need not be escaped, and resources often have one.
  const search = new URLSearchParams(given).toString().replaceAll("%2F", "/");
  return search === "" ? `#/${page}` : `#/${page}?${search}`;
}
