import type { Amount } from "../domain/amounts.ts";
import { chargeOf } from "../domain/charges.ts";
import type { ChainLink } from "./config-cache.ts";
import { type AcquireRequest, hasOnlyKnownNames } from "./request.ts";
import type { Settings } from "./settings.ts";

/** Whether a request asks for nothing but tokens of one resource: the rest is for the steps. */
export function isPlain(request: AcquireRequest): boolean {
  if (typeof request !== "object" || request === null || !hasOnlyKnownNames(request)) return false;
  if (request.also !== undefined || request.signal !== undefined) return false;
  return request.atomic === undefined || typeof request.atomic === "boolean";
}

/** The amounts of a request; undefined where they do not fit the limits, which may be out of date: the steps find out. */
export function amountsIfValid(
  { consume }: AcquireRequest,
  link: ChainLink,
  { unnamedLimits }: Settings,
): readonly Amount[] | undefined {
  try {
    return chargeOf(consume, link, unnamedLimits);
  } catch {
    return undefined;
  }
}
