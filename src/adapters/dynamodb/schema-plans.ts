import { GSI4PK, GSI4SK } from "./schema-names.ts";

// Keys of plans, which the original does not have.

/** Of an entity: its plan. */
export const PLAN_ID = "plan_id";
/** Of a plan: how often an entity came to it. A deletion is conditional on it, so that it never misses one that just came. */
export const PLAN_SEQ = "kin";
/** Of configuration: the level adds to those after it. */
export const INHERIT = "inherit";
/** Of configuration: `callers`, where it is only for the entity that asks. */
export const APPLIES_TO = "applies_to";

/** Limits over all resources, in the partition of their entity, their plan or the system. */
export const TOTAL_SK = "#TOTAL";

const MEMBER_SK = "#ENTITY#";

export function planPk(namespaceId: string, planId: string): string {
  return `${namespaceId}/PLAN#${planId}`;
}

export function planKey(namespaceId: string, planId: string): { readonly pk: string; readonly sk: string } {
  return { pk: planPk(namespaceId, planId), sk: "#META" };
}

/** Of each entity that refers to a plan, a record beside the plan: an index would follow a moment later. */
export function planMemberKey(
  namespaceId: string,
  planId: string,
  entityId: string,
): { readonly pk: string; readonly sk: string } {
  return { pk: planPk(namespaceId, planId), sk: `${MEMBER_SK}${entityId}` };
}

/** In the index of the namespace apart from plans, so that a list of plans does not pass all their entities. */
export function planMemberIndexKeys(
  namespaceId: string,
  planId: string,
  entityId: string,
): Readonly<Record<string, string>> {
  return { [GSI4PK]: namespaceId, [GSI4SK]: `PLAN_ENTITY#${planId}#${entityId}` };
}

/** Sort keys of the entities of a plan after this one, from the first to the last: both ends included. */
export function planMemberRange(after: string | undefined): { readonly from: string; readonly to: string } {
  // `!` sorts before every character of an id, `$` right after the `#` before it.
  return { from: after === undefined ? MEMBER_SK : `${MEMBER_SK}${after}!`, to: "#ENTITY$" };
}

export function parseMemberSk(sk: string): string | undefined {
  return sk.startsWith(MEMBER_SK) ? sk.slice(MEMBER_SK.length) : undefined;
}
