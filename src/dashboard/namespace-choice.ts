import { useEffect, useState } from "preact/hooks";
import type { Api } from "./api.ts";
import type { Listed, Me, Namespace } from "./shapes.ts";

/** The first namespaces by name; `hasMore`: the others are found by searching. */
export interface ListedNamespaces {
  readonly names: readonly string[];
  readonly hasMore: boolean;
}

const LISTED_MAX = 100;

/** Those the token has; whoever may not read the list still knows what the token names. */
export async function listedNamespaces(api: Api, { namespaces, scopes }: Me): Promise<ListedNamespaces> {
  if (!scopes.includes("read")) return { names: namespaces === "*" ? ["default"] : namespaces, hasMore: false };
  const { items, cursor } = await api.get<Listed<Namespace>>("/v1/namespaces", { limit: LISTED_MAX });
  return { names: items.map(({ name }) => name), hasMore: cursor !== undefined };
}

/** Whether there is a namespace of that name that the token has. */
export async function isNamespace(api: Api, name: string): Promise<boolean> {
  // What cannot be a name is none.
  if (!/^[\w.:@-]+$/.test(name)) return false;
  const { items } = await api.get<Listed<Namespace>>("/v1/namespaces", { name });
  return items.length > 0;
}

/** The namespace that is looked at. `missing`: the address names one that is not there, and no other is shown in its place. */
type Chosen =
  | { readonly kind: "known"; readonly name: string }
  | { readonly kind: "looking"; readonly name: string }
  | { readonly kind: "missing"; readonly name: string };

/** What the address names, else what was chosen in this tab, else the first there is; one that is not listed is asked for. */
export function useNamespace(
  api: Api,
  me: Me,
  { names, hasMore }: ListedNamespaces,
  wanted: { readonly linked: string | undefined; readonly kept: string | undefined },
): Chosen {
  const [found, setFound] = useState<ReadonlyMap<string, boolean>>(new Map());
  const name = wanted.linked ?? wanted.kept;
  const isListed = name !== undefined && names.includes(name);
  const isUnknown = name !== undefined && !isListed && !found.has(name);
  const canAsk = me.scopes.includes("read");
  useEffect(() => {
    if (name === undefined || !isUnknown || !canAsk) return;
    let isCurrent = true;
    const answered = (isThere: boolean) => {
      if (isCurrent) setFound((before) => new Map(before).set(name, isThere));
    };
    isNamespace(api, name).then(answered, () => answered(false));
    return () => {
      isCurrent = false;
    };
  }, [api, name, isUnknown, canAsk, hasMore]);
  const first = names.includes("default") ? "default" : (names[0] ?? "default");
  if (name === undefined) return { kind: "known", name: first };
  if (isListed || found.get(name) === true) return { kind: "known", name };
  if (isUnknown && canAsk) return { kind: "looking", name };
  // What this tab has kept may have been removed since; an address must not show somebody else's data.
  return wanted.linked === undefined ? { kind: "known", name: first } : { kind: "missing", name };
}
