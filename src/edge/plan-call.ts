import type { Tokens } from "../domain/charge/amounts.ts";
import { REQUESTS } from "../domain/charge/amounts.ts";
import { TOKENS_MAX } from "../domain/limits/limit-numbers.ts";
import { type EdgeDomain, type EdgeRule, LEASE_KEY } from "./edge-file.ts";
import { type EntryText, entityIdFrom, resourceFrom } from "./template.ts";

export interface Entry {
  readonly key: EntryText;
  readonly value: EntryText;
}

export interface Descriptor {
  readonly entries: readonly Entry[];
  /** Its own hits. Undefined: those of the call. */
  readonly hits: number | undefined;
  /** The hits are given back. */
  readonly isNegative: boolean;
}

/** A part of a call: what is taken of one resource for one entity, by one descriptor or several. */
export interface CallPart {
  readonly entityId: string;
  readonly resource: string;
  readonly consume: Tokens;
  readonly mode: "take" | "charge";
  /** The index of the rule; of the first, where several descriptors have one part. */
  readonly rule: number;
  /** The indexes of the descriptors. */
  readonly descriptors: readonly number[];
  readonly holdMs: number | undefined;
  readonly onExpiry: "charge" | "refund" | undefined;
}

/** A part of a lease, and what it came to. */
export interface SettledPart extends Pick<CallPart, "entityId" | "resource" | "consume" | "descriptors" | "rule"> {
  /** Empty: the text is no id of a lease. */
  readonly leaseId: string;
}

/** The work that a call asks for. Every descriptor is in exactly one of the lists. */
export interface CallPlan {
  /** All or nothing. */
  readonly takes: readonly CallPart[];
  readonly charges: readonly CallPart[];
  /** Parts of which is looked at what is left. */
  readonly peeks: readonly CallPart[];
  readonly refunds: readonly CallPart[];
  readonly settles: readonly SettledPart[];
  /** Descriptors that no rule matches. */
  readonly unmatched: readonly number[];
  /** Takes of more than any limit can hold. */
  readonly tooMuch: readonly CallPart[];
}

/** Plans the work of a call of a domain. `hits`: those of descriptors that have none of their own. */
export function planCall(domain: EdgeDomain, descriptors: readonly Descriptor[], hits: number): CallPlan {
  const plan = new PlanDraft();
  for (const [i, descriptor] of descriptors.entries()) plan.add(domain, descriptor, descriptor.hits ?? hits, i);
  return plan;
}

/** The same in one mode, whatever the rules and the descriptors say. */
export function planAll(
  mode: CallPart["mode"],
  domain: EdgeDomain,
  descriptors: readonly Descriptor[],
  hits: number,
): CallPlan {
  const rules = domain.rules.map((rule) => ({ ...rule, mode }));
  const plain = descriptors.map((one) => ({ ...one, isNegative: false }));
  return planCall({ ...domain, rules }, plain, hits);
}

class PlanDraft implements CallPlan {
  readonly takes: CallPart[] = [];
  readonly charges: CallPart[] = [];
  readonly peeks: CallPart[] = [];
  readonly refunds: CallPart[] = [];
  readonly settles: SettledPart[] = [];
  readonly unmatched: number[] = [];
  readonly tooMuch: CallPart[] = [];

  add({ rules }: EdgeDomain, { entries, isNegative }: Descriptor, hits: number, i: number): void {
    const lease = entries.find(({ key }) => key === LEASE_KEY);
    const matched = lease === undefined ? entries : entries.filter((entry) => entry !== lease);
    const at = rules.findIndex((rule) => matches(rule, matched, lease !== undefined));
    const rule = rules[at];
    if (rule === undefined) {
      this.unmatched.push(i);
      return;
    }
    const values = new Map(matched.map(({ key, value }) => [key as string, value]));
    const about = {
      entityId: entityIdFrom(rule.entity, values),
      resource: resourceFrom(rule.resource, values),
      rule: at,
      descriptors: [i],
    };
    if (lease !== undefined) {
      this.#settle({ ...about, leaseId: leaseIdIn(lease.value), consume: ofHits(rule, Math.min(hits, TOKENS_MAX)) });
      return;
    }
    const { mode, holdMs, onExpiry } = rule;
    const part = { ...about, mode, holdMs, onExpiry };
    const most = Math.min(hits, TOKENS_MAX);
    // No request comes with a refund, so it is summed as a charge is.
    if (isNegative) merge(this.refunds, { ...part, mode: "charge", consume: ofHits(rule, most) });
    else if (mode === "charge") merge(this.charges, { ...part, consume: amountsOf(rule, most) });
    else if (hits === 0) merge(this.peeks, { ...part, consume: amountsOf(rule, 0) });
    else if (hits > TOKENS_MAX && countsHits(rule)) this.tooMuch.push({ ...part, consume: amountsOf(rule, most) });
    else merge(this.takes, { ...part, consume: amountsOf(rule, hits) });
  }

  #settle(part: SettledPart): void {
    const at = this.settles.findIndex((one) => isSamePart(one, part) && one.leaseId === part.leaseId);
    const same = this.settles[at];
    if (same === undefined) this.settles.push(part);
    else this.settles[at] = { ...same, ...joined(same, part) };
  }
}

function leaseIdIn(value: EntryText): string {
  return typeof value === "string" && /^[\w-]{1,128}$/.test(value) ? value : "";
}

/** Whether a rule has exactly the keys of these entries, and their values. A lease is settled by rules that hold. */
function matches({ match, holdMs }: EdgeRule, entries: readonly Entry[], isOfLease: boolean): boolean {
  if (entries.length !== match.size || (isOfLease && holdMs === undefined)) return false;
  for (let i = 0; i < entries.length; i++) {
    const { key, value } = entries[i] as Entry;
    const matcher = typeof key === "string" ? match.get(key) : undefined;
    if (matcher === undefined) return false;
    if (matcher !== "any" && !(typeof value === "string" && matcher.has(value))) return false;
    // A key that is there twice leaves another one out.
    for (let before = 0; before < i; before++) if (entries[before]?.key === key) return false;
  }
  return true;
}

function amountsOf({ consume }: EdgeRule, hits: number): Tokens {
  const amounts: Record<string, number> = {};
  for (const [measure, amount] of consume) amounts[measure] = amount === "hits" ? hits : amount;
  return amounts;
}

function countsHits({ consume }: EdgeRule): boolean {
  return consume.some(([, amount]) => amount === "hits");
}

function ofHits({ consume }: EdgeRule, hits: number): Tokens {
  return Object.fromEntries(consume.flatMap(([measure, amount]) => (amount === "hits" ? [[measure, hits]] : [])));
}

/** Adds a part; of one entity and resource there is one, with the sum. */
function merge(parts: CallPart[], part: CallPart): void {
  const at = parts.findIndex((one) => isSamePart(one, part));
  const same = parts[at];
  if (same === undefined) {
    parts.push(part);
    return;
  }
  parts[at] = { ...same, ...joined(withRequests(same), withRequests(part)), ...holdOf([same, part]) };
}

function isSamePart(one: Pick<CallPart, "entityId" | "resource">, other: Pick<CallPart, "entityId" | "resource">) {
  return one.entityId === other.entityId && one.resource === other.resource;
}

/** A take counts one request where it does not say how many; of two both count. */
function withRequests(part: CallPart): CallPart {
  if (part.mode === "charge" || part.consume[REQUESTS] !== undefined) return part;
  return { ...part, consume: { ...part.consume, [REQUESTS]: 1 } };
}

type Joined = Pick<CallPart, "consume" | "descriptors">;

function joined(one: Joined, other: Joined): Joined {
  const sums = { ...one.consume } as Record<string, number>;
  for (const [measure, amount = 0] of Object.entries(other.consume)) {
    sums[measure] = Math.min((sums[measure] ?? 0) + amount, TOKENS_MAX);
  }
  return { consume: sums, descriptors: [...one.descriptors, ...other.descriptors] };
}

/** The shortest hold of some parts, and what happens at its end. Undefined: none of them holds. */
export function holdOf(
  parts: readonly Pick<CallPart, "holdMs" | "onExpiry">[],
): { readonly holdMs: number; readonly onExpiry: CallPart["onExpiry"] } | undefined {
  const holding = parts.filter(({ holdMs }) => holdMs !== undefined);
  const [first] = holding;
  if (first === undefined) return undefined;
  const holdMs = Math.min(...holding.map((part) => part.holdMs as number));
  // In doubt tokens count as taken.
  const onExpiry = holding.every((part) => part.onExpiry === first.onExpiry) ? first.onExpiry : "charge";
  return { holdMs, onExpiry };
}
