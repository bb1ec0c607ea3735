import { durationMs, durationText } from "../domain/limits/durations.ts";
import { TOKENS_MAX } from "../domain/limits/limit-numbers.ts";
import { nearestName } from "../domain/names/known-names.ts";
import { checkEntityId, checkMeasure, checkNamespace, checkResource, shown } from "../domain/names/names.ts";
import { type DocumentEntry, type Member, type Members, openReading, Reading } from "../manifest/reading.ts";
import {
  type EdgeDomain,
  type EdgeFile,
  type EdgeHttp,
  EdgeInvalid,
  type EdgeProblemCode,
  type EdgeRule,
  type EntrySource,
  LEASE_KEY,
  type Matcher,
  type RuleAmount,
} from "./edge-file.ts";
import { isAmbiguous, type Template, templateOf } from "./template.ts";

type EdgeReading = Reading<EdgeProblemCode>;

export const DOMAIN_KEYS = ["namespace", "unmatched", "refunds", "levels", "rules", "http"] as const;
export const RULE_KEYS = ["match", "entity", "resource", "consume", "mode", "hold", "on_expiry"] as const;
export const HTTP_KEYS = ["entries", "descriptors", "hits", "trusted_hops"] as const;

/** At most so many descriptors in one call. */
export const DESCRIPTORS_MAX = 16;

const NOTHING = "the file has no domains; give at least one, such as domains: { envoy: { rules: [...] } }";

/** Reads an edge file. Throws `EdgeInvalid` with every problem. */
export function parseEdge(text: string, file: string | undefined): EdgeFile {
  // An edge file has no crons.
  const calendar = { problemOf: () => undefined };
  const second = "a second document begins here; an edge file has one";
  const opened = openReading<EdgeProblemCode>(text, calendar, { nothing: NOTHING, second });
  if (!(opened instanceof Reading)) throw new EdgeInvalid(file, opened);
  const domains = domainsIn(opened);
  if (opened.problems.length > 0) throw new EdgeInvalid(file, opened.problems);
  return { domains, warnings: warningsOf(domains) };
}

function domainsIn(reading: EdgeReading): ReadonlyMap<string, EdgeDomain> {
  const root = reading.root();
  const isNothing = !reading.isMap(root) && reading.scalar(root) === null;
  const found = root.node === undefined || isNothing ? new Map() : reading.known(root, ["domains"]);
  const place = found.get("domains");
  if (place === undefined) {
    if (reading.problems.length === 0) reading.fail("empty", 0, "", NOTHING);
    return new Map();
  }
  const before = reading.problems.length;
  const members = reading.members(place);
  if (members.length === 0 && reading.problems.length === before) {
    reading.fail("empty", place.keyAt, place.path, NOTHING);
  }
  return new Map(members.map((member) => [member.key, domainIn(reading, member)]));
}

function domainIn(reading: EdgeReading, member: Member): EdgeDomain {
  const found = reading.known(member, DOMAIN_KEYS);
  return {
    namespace: namespaceIn(reading, member, found.get("namespace")),
    unmatched: wordIn(reading, found.get("unmatched"), ["allow", "refuse"]) ?? "allow",
    refunds: flagIn(reading, found.get("refunds")),
    levels: wordIn(reading, found.get("levels"), ["own", "all"]) ?? "own",
    rules: rulesIn(reading, member, found.get("rules")),
    http: httpIn(reading, found.get("http")),
  };
}

/** Its name, unless the domain names another. */
function namespaceIn(reading: EdgeReading, member: Member, place: Member | undefined): string {
  if (place !== undefined) return reading.checked(place, checkNamespace) ?? "";
  reading.isNamed(member, checkNamespace);
  return member.key;
}

function rulesIn(reading: EdgeReading, domain: Member, place: Member | undefined): readonly EdgeRule[] {
  if (place === undefined) {
    const message = `"${domain.key}" has no rules; give rules: [{ match, entity, resource }]`;
    reading.fail("key_missing", domain.keyAt, domain.path, message);
    return [];
  }
  const seen: MatchAt[] = [];
  const rules = reading.items(place, "rules").flatMap((entry, at) => {
    const found = reading.known(entry, RULE_KEYS);
    if (!reading.isMap(entry)) return [];
    const match = matchIn(reading, found.get("match"));
    seen.push({ match, entry, at });
    return ruleIn(reading, entry, found, match) ?? [];
  });
  checkReached(reading, seen);
  return rules;
}

function ruleIn(
  reading: EdgeReading,
  entry: DocumentEntry,
  found: Members,
  match: EdgeRule["match"],
): EdgeRule | undefined {
  const before = reading.problems.length;
  for (const key of ["match", "entity", "resource"]) {
    if (!found.has(key)) reading.fail("key_missing", entry.keyAt, entry.path, `the rule has no ${key}; give it`);
  }
  const mode = wordIn(reading, found.get("mode"), ["take", "charge"]) ?? "take";
  const entity = templateIn(reading, found.get("entity"), match, checkEntityId);
  const resource = templateIn(reading, found.get("resource"), match, checkResource);
  const consume = consumeIn(reading, found.get("consume"));
  const terms = holdIn(reading, found, mode);
  if (reading.problems.length > before || entity === undefined || resource === undefined) return undefined;
  return { match, entity, resource, consume, mode, ...terms };
}

function matchIn(reading: EdgeReading, place: Member | undefined): ReadonlyMap<string, Matcher> {
  if (place === undefined) return new Map();
  const before = reading.problems.length;
  const members = reading.members(place);
  if (members.length === 0 && reading.problems.length === before) {
    reading.fail("empty", place.keyAt, place.path, 'match is empty; name a key, such as { tenant: "*" }');
  }
  return new Map(members.map((member) => [member.key, matcherIn(reading, member)]));
}

function matcherIn(reading: EdgeReading, member: Member): Matcher {
  const { key, keyAt, path } = member;
  if (key === LEASE_KEY) {
    const message = `${LEASE_KEY} settles the lease of a rule with hold, and stands beside its keys in a call; leave it out here`;
    reading.fail("name_invalid", keyAt, path, message);
  }
  if (reading.isMap(member)) {
    reading.invalid(member, `give "*", a value or a list of values, not ${reading.shown(member)}`);
    return "any";
  }
  const value = reading.scalar(member);
  if (value === "*") return "any";
  if (value !== undefined) return new Set([reading.text(member) ?? ""]);
  const values = reading.items(member, "values").map((item) => {
    const text = reading.text(item);
    if (text === "*") reading.invalid(item, '"*" is any value; write it in place of the list');
    return text ?? "";
  });
  return new Set(values);
}

function templateIn(
  reading: EdgeReading,
  place: Member | undefined,
  match: ReadonlyMap<string, Matcher>,
  check: (text: string) => string,
): Template | undefined {
  const text = place && reading.text(place);
  if (place === undefined || text === undefined) return undefined;
  const template = templateOf(text);
  if (template === undefined) {
    return reading.invalid(place, `a brace of ${shown(text)} has no partner; write {key} where a value stands`);
  }
  if (template.keys.length === 0) return reading.checked(place, check) === undefined ? undefined : template;
  const known = [...match.keys()];
  for (const key of template.keys) {
    if (known.includes(key)) continue;
    const near = nearestName(key, known);
    const hint = near === undefined ? `name it in match, or use one of ${known.join(", ")}` : `did you mean {${near}}?`;
    reading.fail("template_unknown", place.valueAt, place.path, `match does not name the key of {${key}}; ${hint}`);
  }
  if (isAmbiguous(template)) {
    const message = `nothing tells the values of ${shown(text)} apart; put one of - . : / | @ between {…} and {…}`;
    reading.fail("template_ambiguous", place.valueAt, place.path, message);
  }
  return template;
}

const REQUESTS_BY_HITS: EdgeRule["consume"] = [["requests", "hits"]];

function consumeIn(reading: EdgeReading, place: Member | undefined): EdgeRule["consume"] {
  if (place === undefined) return REQUESTS_BY_HITS;
  const before = reading.problems.length;
  const members = reading.members(place);
  if (members.length === 0 && reading.problems.length === before) {
    const message = "consume is empty; name a measure, such as { requests: hits }, or leave it out";
    reading.fail("empty", place.keyAt, place.path, message);
  }
  return members.flatMap((member): EdgeRule["consume"] => {
    if (!reading.isNamed(member, checkMeasure)) return [];
    const amount = amountIn(reading, member);
    return amount === undefined ? [] : [[member.key, amount]];
  });
}

function amountIn(reading: EdgeReading, member: Member): RuleAmount | undefined {
  const value = reading.scalar(member);
  if (value === "hits") return "hits";
  if (typeof value === "number" && Number.isSafeInteger(value) && value >= 0 && value <= TOKENS_MAX) return value;
  return reading.invalid(member, `give hits, or whole tokens from 0 to ${TOKENS_MAX}, not ${reading.shown(member)}`);
}

/** A timer waits for some 24 days at most. */
const HOLD_MAX_MS = 2_147_483_647;

function holdIn(reading: EdgeReading, found: Members, mode: EdgeRule["mode"]): Pick<EdgeRule, "holdMs" | "onExpiry"> {
  const hold = found.get("hold");
  const expiry = found.get("on_expiry");
  if (hold !== undefined && mode === "charge") reading.invalid(hold, "a charge holds nothing; leave hold out");
  if (expiry !== undefined && hold === undefined) reading.invalid(expiry, "it needs hold, and there is none");
  const text = hold && reading.text(hold);
  const holdMs = text === undefined ? undefined : durationMs(text);
  if (hold !== undefined && text !== undefined && !(holdMs !== undefined && holdMs >= 1_000 && holdMs <= HOLD_MAX_MS)) {
    const most = durationText(Math.floor(HOLD_MAX_MS / 86_400_000) * 86_400_000);
    reading.invalid(hold, `give a duration from 1s to ${most}, such as 60s, not ${shown(text)}`);
  }
  return { holdMs, onExpiry: wordIn(reading, expiry, ["charge", "refund"]) };
}

function httpIn(reading: EdgeReading, place: Member | undefined): EdgeHttp | undefined {
  if (place === undefined) return undefined;
  const found = reading.known(place, HTTP_KEYS);
  const entries = entriesIn(reading, place, found.get("entries"));
  const hits = found.get("hits");
  const hops = found.get("trusted_hops");
  return {
    entries,
    descriptors: descriptorsIn(reading, found.get("descriptors"), [...entries.keys()]),
    hits: hits && sourceIn(reading, hits, ["header", "query", "text"]),
    trustedHops: (hops && reading.whole(hops, "how many proxies stand in front", { least: 1, most: 100 })) ?? 1,
  };
}

function entriesIn(reading: EdgeReading, http: Member, place: Member | undefined): ReadonlyMap<string, EntrySource> {
  const before = reading.problems.length;
  const members = place === undefined ? [] : reading.members(place);
  if (members.length === 0 && reading.problems.length === before) {
    const { keyAt, path } = place ?? http;
    const message = "http has no entries; name at least one, such as entries: { tenant: header x-tenant }";
    reading.fail(place === undefined ? "key_missing" : "empty", keyAt, path, message);
  }
  return new Map(
    members.map((member) => {
      // A wrong one is noted; its key is there all the same.
      const source = sourceIn(reading, member, Object.keys(SOURCES)) ?? { kind: "text", text: "" };
      return [member.key, source] as const;
    }),
  );
}

/** The sources of entries: with what stands behind the word, and without. */
const SOURCES: Readonly<Record<string, string>> = {
  ...{ header: "header NAME", query: "query NAME", text: "text VALUE" },
  ...{ path: "path", method: "method", host: "host", client: "client" },
};

function sourceIn(reading: EdgeReading, member: Member, allowed: readonly string[]): EntrySource | undefined {
  const text = reading.text(member);
  if (text === undefined) return undefined;
  const [, word = "", rest = ""] = /^(\S*)\s*(.*)$/s.exec(text) ?? [];
  const forms = allowed.map((kind) => SOURCES[kind]);
  const wrong = (why: string) => reading.invalid(member, `${shown(text)} ${why}; give ${forms.join(", ")}`);
  if (!allowed.includes(word)) return wrong("is no source of a value");
  if (word === "text") return { kind: "text", text: rest };
  if (word === "header" || word === "query") {
    if (rest === "") return wrong("has no name");
    // The name of a field is a token of RFC 9110.
    if (word === "header" && !/^[!#$%&'*+.^_`|~\w-]+$/.test(rest)) return wrong("names no header field");
    return { kind: word, name: word === "header" ? rest.toLowerCase() : rest };
  }
  return rest === "" ? { kind: word as "path" | "method" | "host" | "client" } : wrong("has more than one word");
}

function descriptorsIn(
  reading: EdgeReading,
  place: Member | undefined,
  known: readonly string[],
): EdgeHttp["descriptors"] {
  if (place === undefined) return [known];
  const lists = reading.items(place, "descriptors, each a list of keys of entries");
  if (lists.length > DESCRIPTORS_MAX) {
    reading.invalid(place, `there are ${lists.length} descriptors; at most ${DESCRIPTORS_MAX} are allowed`);
  }
  return lists.map((list) =>
    reading.items(list, "keys of entries").flatMap((item) => {
      const key = reading.text(item);
      if (key === undefined || known.includes(key)) return key === undefined ? [] : [key];
      const near = nearestName(key, known);
      reading.invalid(item, `entries has no "${key}"; ${near === undefined ? "add it" : `did you mean "${near}"?`}`);
      return [];
    }),
  );
}

function wordIn<Word extends string>(
  reading: EdgeReading,
  place: Member | undefined,
  words: readonly Word[],
): Word | undefined {
  if (place === undefined) return undefined;
  const value = reading.scalar(place);
  const found = words.find((word) => word === value);
  return found ?? reading.invalid(place, `give ${words.join(" or ")}, not ${reading.shown(place)}`);
}

function flagIn(reading: EdgeReading, place: Member | undefined): boolean {
  return (place && reading.flag(place)) ?? false;
}

/** The match of a rule, and its place in the file. */
interface MatchAt {
  readonly match: EdgeRule["match"];
  readonly entry: DocumentEntry;
  readonly at: number;
}

/** Notes each rule that no descriptor reaches, because a rule before it matches all that it matches. */
function checkReached(reading: Reading<EdgeProblemCode>, rules: readonly MatchAt[]): void {
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

/** Warns of what works and is probably a mistake: a bare `{key}` that can give an id which another template gives, too. */
function warningsOf(domains: ReadonlyMap<string, EdgeDomain>): readonly string[] {
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
