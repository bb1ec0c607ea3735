/** The pages, in the order of the navigation. */
export const PAGES = [
  "buckets",
  "refusals",
  "leases",
  "usage",
  "entities",
  "plans",
  "limits",
  "audit",
  "namespaces",
] as const;

export type PageName = (typeof PAGES)[number];

/** What stands behind the `#`: a page and what it is asked for. */
export interface Route {
  readonly page: PageName;
  readonly params: Readonly<Record<string, string>>;
}

/** An unknown page is the first one. */
export function parseRoute(hash: string): Route {
  const [path = "", search = ""] = hash.replace(/^#?\/?/, "").split("?");
  const page = PAGES.find((name) => name === path) ?? "buckets";
  return { page, params: Object.fromEntries(new URLSearchParams(search)) };
}

/** Empty parameters are left out. */
export function hrefOf(page: PageName, params: Readonly<Record<string, string | undefined>> = {}): string {
  const given = Object.entries(params).filter((entry): entry is [string, string] => !!entry[1]);
  // A slash need not be escaped, and resources often have one.
  const search = new URLSearchParams(given).toString().replaceAll("%2F", "/");
  return search === "" ? `#/${page}` : `#/${page}?${search}`;
}
