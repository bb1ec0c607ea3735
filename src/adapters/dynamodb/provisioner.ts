import { type Attributes, decodeJson } from "./codec.ts";

/** What the original's provisioner has set in a namespace, by its own record of it. */
export function managedIn(item: Attributes | undefined): {
  readonly resources: readonly string[];
  /** Resources by entity; `_default_` stands for the entity's default. */
  readonly entities: Readonly<Record<string, readonly string[]>>;
} {
  const entities = Object.entries(item?.managed_entities?.M ?? {});
  return {
    resources: namesIn(decodeJson(item?.managed_resources ?? { L: [] })),
    entities: Object.fromEntries(entities.map(([entityId, own]) => [entityId, namesIn(decodeJson(own))])),
  };
}

function namesIn(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.filter((name): name is string => typeof name === "string") : [];
}
