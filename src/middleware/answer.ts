import {
  LimiterError,
  NotFoundError,
  RateLimitExceeded,
  RateLimiterUnavailable,
  ResourceDisabled,
  ValidationError,
} from "../domain/names/errors.ts";
import { headersOf } from "../engine/refusal/rate-limit-headers.ts";
import type { CheckedOptions } from "./options.ts";

/** The answer to a request that does not get through. */
export interface Answer {
  readonly status: number;
  /** The header fields by lower-case name, without the type of the body. */
  readonly fields: Readonly<Record<string, string>>;
  /** The header fields, with the type of the problem among them. */
  readonly headers: Readonly<Record<string, string>>;
  /** The problem (RFC 9457). */
  readonly problem: Readonly<Record<string, unknown>>;
  readonly error: LimiterError;
  /** The error, if it is a refusal by limits: one that a handler of the application may answer. */
  readonly refusal: RateLimitExceeded | undefined;
}

/** Makes the answer to an error of a take. Undefined: the program is wrong, and its framework has to know. */
export function answerOf(
  error: unknown,
  { form, levels }: Pick<CheckedOptions<never>, "form" | "levels">,
): Answer | undefined {
  if (!isAnswered(error)) return undefined;
  const status = error.httpStatus;
  const body = error.toProblem({ levels });
  const refusal = error instanceof RateLimitExceeded ? error : undefined;
  const type = refusal === undefined ? `urn:zae-limiter:problem:${error.code}` : body.type;
  const fields = status === 503 ? RETRY_SOON : fieldsOf(error, form);
  const headers = { "content-type": "application/problem+json", ...fields };
  return { status, fields, headers, problem: { ...body, type }, error, refusal };
}

/** The header fields of a lease or a refusal. */
export function fieldsOf(
  told: Parameters<typeof headersOf>[0],
  form: CheckedOptions<never>["form"],
): Readonly<Record<string, string>> {
  if (form !== undefined) return headersOf(told, form);
  const { "retry-after": retryAfter } = told instanceof RateLimitExceeded ? headersOf(told, RETRY_ONLY) : {};
  return retryAfter === undefined ? {} : { "retry-after": retryAfter };
}

/** The error of a request without a key. */
export function keyMissing(): ValidationError {
  return new ValidationError(
    "key_missing",
    "It is not known whose request this is: there is no key, or no address of the client. Send what identifies you.",
  );
}

const RETRY_SOON = { "retry-after": "1" };
const RETRY_ONLY = { headers: "legacy", levels: "own", units: new Map() } as const;

/** Errors that a caller may have caused, and states that pass, are answered. Everything else is for the developer. */
function isAnswered(error: unknown): error is LimiterError {
  if (!(error instanceof LimiterError)) return false;
  return (
    error instanceof RateLimitExceeded ||
    error instanceof ResourceDisabled ||
    error instanceof RateLimiterUnavailable ||
    error instanceof NotFoundError ||
    CAUSED_BY_CALLERS.includes(error.code)
  );
}

const CAUSED_BY_CALLERS: readonly string[] = ["key_missing", "entity_id_invalid", "amount_above_capacity", "closed"];
