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

/** What a request is answered that does not get through. */
export interface Answer {
  readonly status: number;
  /** By lower-case name, the type of the body among them. */
  readonly headers: Readonly<Record<string, string>>;
  /** The problem (RFC 9457). */
  readonly problem: Readonly<Record<string, unknown>>;
  readonly error: LimiterError;
}

/** The answer that an error of a take becomes. Undefined: the program is wrong, which its framework has to hear of. */
export function answerOf(
  error: unknown,
  { form, levels }: Pick<CheckedOptions<never>, "form" | "levels">,
): Answer | undefined {
  if (!isAnswered(error)) return undefined;
  const status = error.httpStatus;
  const body = error.toProblem({ levels });
  const type = error instanceof RateLimitExceeded ? body.type : `urn:zae-limiter:problem:${error.code}`;
  return {
    status,
    headers: { "content-type": "application/problem+json", ...(status === 503 ? RETRY_SOON : fieldsOf(error, form)) },
    problem: { ...body, type },
    error,
  };
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

/** Nobody can be told whose request it is. */
export function keyMissing(): ValidationError {
  return new ValidationError(
    "key_missing",
    "It is not known whose request this is: there is no key, or no address of the client. Send what identifies you.",
  );
}

const RETRY_SOON = { "retry-after": "1" };
const RETRY_ONLY = { headers: "legacy", levels: "own", units: new Map() } as const;

/** What the caller of the program may have caused, or a state that passes. Everything else is for its developer. */
function isAnswered(error: unknown): error is LimiterError {
  if (!(error instanceof LimiterError)) return false;
  return (
    error instanceof RateLimitExceeded ||
    error instanceof ResourceDisabled ||
    error instanceof RateLimiterUnavailable ||
    error instanceof NotFoundError ||
    CAUSED_BY_CALLERS.has(error.code)
  );
}

const CAUSED_BY_CALLERS: ReadonlySet<string> = new Set([
  ...["key_missing", "entity_id_invalid", "amount_above_capacity", "closed"],
]);
