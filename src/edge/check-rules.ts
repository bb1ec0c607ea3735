import type { DocumentEntry, Reading } from "../manifest/reading.ts";
import type { EdgeDomain, EdgeProblemCode, EdgeRule, Matcher } from "./edge-file.ts";
import type { Template } from "./template.ts";

/** What a rule matches, and its place in the file. */
export interface MatchAt {
  readonly match: EdgeRule["match"];
  readonly entry: DocumentEntry;
  /** Its index in the file. */
  readonly at: number;
}

/** Notes each rule that no descriptor reaches, because a rule before it matches all that it matches. */
export function checkReached(reading: Reading<EdgeProblemCode>, rules: readonly MatchAt[]): void {
  for (const [i, { match, entry, at }] of rules.entries()) {
    const before = rules.slice(0, i).find((one) => covers(one.match, match));
    if (before === undefined) continue;
    const message = `rule ${at} is never reached: rule ${before.at} matches whatever it matches (rules count from 0); move it up, or remove it`;
    reading.fail("rule_unreachable", entry.valueAt, entry.path, message);
  }
}

function covers(before: EdgeRule["match"], match: EdgeRule["match"]): boolean {
  // A match that could not be read is empty.
  if (before.size !== match.size || match.size === 0) return false;
  return [...match].every(([key, matcher]) => isWithin(matcher, before.get(key)));
}

function isWithin(inner: Matcher, outer: Matcher | undefined): boolean {
  if (outer === undefined) return false;
  if (outer === "any") return true;
  return inner !== "any" && [...inner].every((value) => outer.has(value));
}

/** What works and is probably a mistake: a bare `{key}` that can give an id which another template gives, too. */
export function warningsOf(domains: ReadonlyMap<string, EdgeDomain>): readonly string[] {
  const all = [...domains.values()];
  const texts = [...new Set(all.map(({ namespace }) => namespace))].flatMap((namespace) => {
    const rules = all.filter((domain) => domain.namespace === namespace).flatMap((domain) => domain.rules);
    return rules.filter(({ entity }) => isBare(entity)).flatMap((bare) => sharedBy(bare, rules, namespace));
  });
  return [...new Set(texts)];
}

function sharedBy({ entity, match }: EdgeRule, rules: readonly EdgeRule[], namespace: string): readonly string[] {
  const key = entity.keys[0] as string;
  const values = match.get(key);
  return rules.flatMap((other) => {
    if (isBare(other.entity) || !canGive(values, other.entity)) return [];
    return [
      `A value of {${key}} can give an entity that "${other.entity.text}" gives, too, in the namespace ${namespace}: ` +
        `who chooses the value shares its limits. Put a prefix before {${key}}, or list its values.`,
    ];
  });
}

function canGive(values: Matcher | undefined, { literals: [prefix] }: Template): boolean {
  return values === "any" || (values !== undefined && [...values].some((value) => value.startsWith(prefix)));
}

function isBare({ text, keys }: Template): boolean {
  return keys.length === 1 && text === `{${keys[0]}}`;
}
