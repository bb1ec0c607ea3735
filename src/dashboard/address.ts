import { hrefOf, type PageName } from "./route.ts";

/** Writes into the address what is shown, without going anywhere: it can be copied, and a reload shows the same. */
export function keepAddress(page: PageName, params: Readonly<Record<string, string | undefined>>): void {
  history.replaceState(null, "", hrefOf(page, params));
}
