import { ValidationError } from "../domain/names/errors.ts";
import { shown } from "../domain/names/shown.ts";

// Checks for values that the library would refuse, and that JSON or the service would not notice. The service checks everything else.
// The sentences are short, because every client loads them.

export function invalid(code: string, what: string, value: unknown, remedy: string): ValidationError {
  return new ValidationError(`${code}_invalid`, `${what} is ${shown(value)}; give ${remedy}.`);
}

/** The code and the remedy of a wrong value; false: it is right. */
type Wrong = readonly [code: string, remedy: string] | false;

/** For each name of an object, what may be wrong with its value. */
export type Rules<Options> = { readonly [Name in keyof Required<Options>]: (value: never) => Wrong };

/** Nothing to be checked here. */
export const asGiven = () => false as const;

/** The object as given. Throws for what is no object, for a name that is not known, and for a value against the rules. */
export function checkNames<Options extends object>(
  given: Options,
  rules: Rules<Options>,
  code: string,
  what: string,
): Options {
  if (!isRecord(given)) throw invalid(code, what, given, "an object");
  const known = new Map(Object.entries<(value: never) => Wrong>(rules));
  for (const [name, value] of Object.entries(given)) {
    const rule = known.get(name);
    if (!rule) throw unknown(what, name, `known: ${[...known.keys()].join(", ")}`);
    const wrong = value !== undefined && rule(value as never);
    if (wrong) throw invalid(wrong[0], name, value, wrong[1]);
  }
  return given;
}

/** Throws for options that a change cannot have over HTTP, such as `principal`: the audit trail names the token. */
export function refuse(options: object): void {
  for (const [name, value] of Object.entries(options)) {
    if (value !== undefined) throw unknown("The change", name, "leave it out");
  }
}

function unknown(what: string, name: string, remedy: string): ValidationError {
  return new ValidationError("option_unknown", `${what} has the unknown name ${shown(name)}; ${remedy}.`);
}

/** Amounts by name: `{ tpm: undefined }` must not become `{}`. */
export function checkAmounts<Amounts>(amounts: Amounts, what: string): Amounts {
  if (!isRecord(amounts)) throw invalid("amounts", what, amounts, "whole tokens by name");
  for (const [name, value] of Object.entries(amounts)) {
    if (!Number.isFinite(value)) throw invalid("amount", `${what} of ${name}`, value, "whole tokens");
  }
  return amounts;
}

/** Amounts of further parts. */
export function alsoRule(also: object): Wrong {
  if (!isRecord(also) && !Array.isArray(also)) return ["also", "amounts by resource, or a list of parts"];
  const parts = Object.values(also);
  for (const amounts of Array.isArray(also) ? parts.map(({ consume = {} }) => consume) : parts)
    checkAmounts(amounts, "also");
  return false;
}

/** 0, or as long as a lease is held at least; how long it may be at most is for the service to say. */
export function holdRule(holdMs: number): Wrong {
  return holdMs !== 0 && !(Number.isSafeInteger(holdMs) && holdMs >= 1_000) && ["hold", "0, or whole ms from 1000 on"];
}

/** One of several words. */
export function oneOf(code: string, ...words: readonly string[]) {
  return (value: string): Wrong => !words.includes(value) && [code, words.join(" or ")];
}

const ID = /^[a-z\d][\w.:@-]{0,255}$/i;

/** The names that the library takes. Reserved names of resources are left to the service. */
const NAMES = {
  entityId: ID,
  planId: ID,
  resource: /^(\*|[a-z][\w./:-]{0,63})$/i,
  namespace: /^[a-z\d][\w.:@-]{0,63}$/i,
  // These are drawn: unlike a name, they may begin with an underscore.
  namespaceId: /^[\w-]{1,64}$/,
  leaseId: /^[\w-]{1,64}$/,
} as const;

export function nameRule(field: keyof typeof NAMES) {
  return (name: string): Wrong => !(typeof name === "string" && NAMES[field].test(name)) && wrongName(field);
}

/** The name, if the library would take it. */
export function checkName(field: keyof typeof NAMES, name: string): string {
  const wrong = nameRule(field)(name);
  if (wrong) throw invalid(wrong[0], field, name, wrong[1]);
  return name;
}

/** A value of a query, which is a text in an address: what is no text, number or flag would become the name of something else. */
export function checkQuery(field: string, value: unknown): string {
  if (/^(st|nu|bo)/.test(typeof value)) return String(value);
  const [code, remedy] = wrongName(field);
  throw invalid(code, field, value, remedy);
}

function wrongName(field: string): [code: string, remedy: string] {
  const which = field === "resource" ? "letters, digits and _ . - / :" : "letters, digits and _ . - : @";
  return [field.replace("I", "_i"), which];
}

/** The text of a body. JSON would make `null` of a number that is none, and leave a function out. */
export function jsonOf(body: unknown): string {
  return JSON.stringify(body, (name, value) => {
    const type = typeof value;
    if (type === "number" ? Number.isFinite(value) : !/^(big|fun|sym)/.test(type)) return value;
    throw invalid("request", name, value, "what JSON can hold");
  });
}

export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
