import { useEffect, useState } from "preact/hooks";
import type { Api } from "./api.ts";
import type { Listed, Me, Namespace } from "./shapes.ts";

/** The first namespaces by name. With `hasMore` there are others, which a search finds. */
export interface ListedNamespaces {
  readonly names: readonly string[];
  readonly hasMore: boolean;
}

const LISTED_MAX = 100;

/** The namespaces of the token. Without the scope `read`, they are those that the token names. */
export async function listedNamespaces(api: Api, { namespaces, scopes }: Me): Promise<ListedNamespaces> {
  if (!scopes.includes("read")) return { names: namespaces === "*" ? ["default"] : namespaces, hasMore: false };
  const { items, cursor } = await api.get<Listed<Namespace>>("/v1/namespaces", { limit: LISTED_MAX });
  return { names: items.map(({ name }) => name), hasMore: cursor !== undefined };
}

/** True if the token has access to a namespace of that name. */
export async function isNamespace(api: Api, name: string): Promise<boolean> {
  if (!/^[\w.:@-]+$/.test(name)) return false;
  const { items } = await api.get<Listed<Namespace>>("/v1/namespaces", { name });
  return items.length > 0;
}

/** The namespace of the page. `missing`: the address names one that does not exist, and no other is shown in its place. */
type Chosen =
  | { readonly kind: "known"; readonly name: string }
  | { readonly kind: "looking"; readonly name: string }
  | { readonly kind: "missing"; readonly name: string };

/** Chooses the namespace of the address, else that of this tab, else the first one. Asks the service for one that is not listed. */
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
  // The namespace of this tab may have been removed, so another is shown. An address must not show another's data.
  return wanted.linked === undefined ? { kind: "known", name: first } : { kind: "missing", name };
}
