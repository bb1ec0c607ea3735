import { ValidationError } from "../domain/errors.ts";
import type { OnExpiry } from "../domain/lease-record.ts";
import { shown } from "../domain/shown.ts";

// What the library would refuse, and JSON or the service behind it would not notice. Everything else is for the service to refuse,
// which knows what is stored. The sentences are short: whoever loads a client loads them.

/** What is wrong, and what to give instead. */
export function invalid(code: string, what: string, value: unknown, remedy: string): ValidationError {
  return new ValidationError(code, `${what} is ${shown(value)}; give ${remedy}.`);
}

/** The object as given. Throws for what is no object, and for a name that is not known: it would be ignored otherwise. */
export function checkNames<Given extends object>(given: Given, names: readonly string[], code: string, what: string): Given {
  if (!isRecord(given)) throw invalid(code, what, given, "an object");
  for (const name in given) if (!names.includes(name)) throw unknown(what, name, `known: ${names.join(", ")}`);
  return given;
}

/** What a change cannot have over HTTP: the audit trail names the token, so that there is no `principal`. */
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
  if (!isRecord(amounts)) throw invalid("amounts_invalid", what, amounts, "whole tokens by name, such as { rpm: 1 }");
  for (const [name, value] of Object.entries(amounts)) {
    if (!Number.isFinite(value)) throw invalid("amount_invalid", `${what} of "${name}"`, value, "whole tokens");
  }
  return amounts;
}

/** Amounts of further resources. */
export function checkAlso<Also>(also: Also): Also {
  if (also !== undefined) {
    if (!isRecord(also)) throw invalid("also_invalid", "also", also, "amounts by resource");
    for (const amounts of Object.values(also)) checkAmounts(amounts, "also");
  }
  return also;
}

/** 0, or as long as a lease is held at least; how long it may be at most is for the service to say. */
export function checkHold(holdMs: number): number {
  if (holdMs === 0 || (Number.isSafeInteger(holdMs) && holdMs >= 1_000)) return holdMs;
  throw invalid("hold_invalid", "holdMs", holdMs, "0, or whole milliseconds from 1000 on");
}

export function checkOnExpiry(onExpiry: OnExpiry | undefined): OnExpiry | undefined {
  if ([undefined, "charge", "refund"].includes(onExpiry)) return onExpiry;
  throw invalid("on_expiry_invalid", "onExpiry", onExpiry, '"charge" or "refund"');
}

/**
 * A name as part of an address. Without one it would be another address, and so it would be with `..`; which names are allowed
 * otherwise is for the service to say. `field`: `entityId`, `planId` or `resource`.
 */
export function checkName(field: string, name: string): string {
  if (typeof name === "string" && /^[a-z\d*]/i.test(name)) return name;
  throw invalid(`${field.replace("I", "_i")}_invalid`, field, name, "a name that begins with a letter or digit");
}

/** The text of a body. JSON would make `null` of a number that is none, and leave a function out. */
export function jsonOf(body: unknown): string {
  return JSON.stringify(body, (name, value) => {
    const type = typeof value;
    if (type === "number" ? Number.isFinite(value) : !["bigint", "function", "symbol"].includes(type)) return value;
    throw invalid("request_invalid", name, value, "what JSON can hold");
  });
}

export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
