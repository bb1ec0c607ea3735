import { LimiterError, NotFoundError, RateLimiterUnavailable } from "../../domain/names/errors.ts";
import type { Item, ItemAnswer, TransactionAnswer, Undecided } from "../../ports/item-store.ts";
import type { DynamoAnswer } from "./client.ts";
import type { Attributes } from "./codec.ts";

/** The store refuses a request, and repeating it will not help. It is never a reason to let a request in. */
export class StoreRefused extends LimiterError {
  /** The service's own name for it, such as `AccessDeniedException`. */
  readonly serviceCode: string;

  constructor(code: string, message: string, refused: Refused) {
    super(code, message, { cause: errorOf(refused) });
    this.serviceCode = refused.code;
  }
}

export interface ItemReader {
  readonly tableName: string;
  decode(attributes: Attributes): Item;
  /** The item after an applied write, if the answer does not have it. */
  readonly after: Item;
}

/** The port's answer to a write of one item. Throws for faults that a repetition cannot help. */
export function itemAnswerOf(answer: DynamoAnswer, reader: ItemReader): ItemAnswer {
  switch (answer.kind) {
    case "answered": {
      if (answer.item !== undefined) return { kind: "applied", item: answer.item };
      const attributes = answer.body.Attributes as Attributes | undefined;
      return { kind: "applied", item: attributes === undefined ? reader.after : reader.decode(attributes) };
    }
    case "failed": {
      const seen = conditionSeen(answer);
      if (seen === undefined) return undecidedOf(answer, reader.tableName);
      return { kind: "failed", item: seen.item === undefined ? undefined : reader.decode(seen.item) };
    }
    case "unsent":
      return { kind: "refused", why: "unreachable", cause: answer.cause };
    case "lost":
      return { kind: "unknown", cause: answer.cause, ...laterOf(answer, (late) => itemAnswerOf(late, reader)) };
  }
}

/** The port's answer to a transaction. */
export function transactionAnswerOf(answer: DynamoAnswer, tableName: string): TransactionAnswer {
  switch (answer.kind) {
    case "answered":
      return { kind: "applied" };
    case "failed":
      return conditionSeen(answer) === undefined ? undecidedOf(answer, tableName) : { kind: "failed" };
    case "unsent":
      return { kind: "refused", why: "unreachable", cause: answer.cause };
    // A transaction returns no items, so a late answer only says whether it was applied.
    case "lost":
      return {
        kind: "unknown",
        cause: answer.cause,
        ...laterOf(answer, (late) => {
          const told = transactionAnswerOf(late, tableName);
          return told.kind === "applied" || told.kind === "failed" ? { kind: told.kind, item: NOTHING } : told;
        }),
      };
  }
}

/** The indexes of the writes of a transaction whose conditions did not hold. */
export function failedReasons(answer: DynamoAnswer): ReadonlySet<number> {
  if (answer.kind !== "failed") return new Set();
  const failed = reasonsOf(answer.body).map(({ Code }, i) => (Code === "ConditionalCheckFailed" ? i : -1));
  return new Set(failed.filter((i) => i >= 0));
}

/** The cause of a failed read that may be repeated. Any other is thrown. */
export function readFaultOf(answer: Exclude<DynamoAnswer, { kind: "answered" }>, tableName: string): unknown {
  return answer.kind === "failed" ? undecidedOf(answer, tableName).cause : answer.cause;
}

/** The error when no time is left. */
export function unavailable(what: string, tableName: string, cause: unknown): RateLimiterUnavailable {
  const why = cause instanceof Error ? cause.message : String(cause);
  return new RateLimiterUnavailable(`The table "${tableName}" did not respond in time (${what}): ${why}`, { cause });
}

type Refused = Extract<DynamoAnswer, { kind: "failed" }>;

interface CancellationReason {
  readonly Code?: string;
  readonly Message?: string;
  readonly Item?: Attributes;
}

const NOTHING: Item = Object.freeze({});

const THROTTLED: ReadonlySet<string> = new Set([
  "ProvisionedThroughputExceededException",
  "ThrottlingException",
  "Throttling",
  "RequestLimitExceeded",
  "TooManyRequestsException",
  // Reasons of a cancelled transaction.
  "ProvisionedThroughputExceeded",
  "ThrottlingError",
]);

const CONFLICTS: ReadonlySet<string> = new Set([
  "TransactionConflictException",
  "ReplicatedWriteConflictException",
  "TransactionConflict",
]);

const ACCESS: ReadonlySet<string> = new Set([
  "AccessDeniedException",
  "AccessDenied",
  "UnrecognizedClientException",
  "InvalidClientTokenId",
  "InvalidSignatureException",
  "IncompleteSignatureException",
  "MissingAuthenticationTokenException",
  "MissingAuthenticationToken",
  "ExpiredTokenException",
  "ExpiredToken",
  "SignatureDoesNotMatch",
  "OptInRequired",
]);

/** The item before a failed condition; undefined if no condition failed. */
function conditionSeen({ code, body }: Refused): { readonly item: Attributes | undefined } | undefined {
  if (code === "ConditionalCheckFailedException") return { item: body.Item as Attributes | undefined };
  if (code !== "TransactionCanceledException") return undefined;
  // A failed condition decides, whatever other reasons there are.
  const reason = reasonsOf(body).find(({ Code }) => Code === "ConditionalCheckFailed");
  return reason === undefined ? undefined : { item: reason.Item };
}

function undecidedOf(refused: Refused, tableName: string): Undecided {
  const cause = errorOf(refused);
  const { status, code } = refused;
  const codes = code === "TransactionCanceledException" ? reasonCodes(refused) : [code];
  // One reason that a repetition cannot help is enough.
  const hopeless = codes.find((each) => !isPassing(each, status));
  if (hopeless !== undefined) throw thrownFor(hopeless, refused, tableName);
  if (codes.some((each) => CONFLICTS.has(each))) return { kind: "refused", why: "conflict", cause };
  if (codes.some((each) => THROTTLED.has(each)) || status === 429) return { kind: "refused", why: "throttled", cause };
  // A failed server may have applied it, and a transaction with this token in progress still may.
  return { kind: "unknown", cause };
}

function isPassing(code: string, status: number): boolean {
  return CONFLICTS.has(code) || THROTTLED.has(code) || code === IN_PROGRESS || status >= 500 || status === 429;
}

const IN_PROGRESS = "TransactionInProgressException";

function thrownFor(code: string, refused: Refused, tableName: string): LimiterError {
  const said = `${refused.code}: ${refused.message}`;
  if (code === "ResourceNotFoundException" || code === "ResourceNotFound") {
    return new NotFoundError(
      "table_not_found",
      `There is no table "${tableName}" at this endpoint and in this region; ` +
        "create one with `createTable()`, or correct the name, the region or the endpoint.",
      { cause: errorOf(refused) },
    );
  }
  if (ACCESS.has(code)) {
    const remedy = "Check the credentials and their policy for the table and its indexes.";
    return new StoreRefused("access_denied", `DynamoDB refuses access to "${tableName}" (${said}). ${remedy}`, refused);
  }
  if (code === "IdempotentParameterMismatchException" || code === "IdempotentParameterMismatch") {
    const remedy = "Repeat the transaction unchanged, or use a new token.";
    return new StoreRefused(
      "token_reused",
      `The client token belongs to another transaction (${said}). ${remedy}`,
      refused,
    );
  }
  const reasons = reasonsOf(refused.body).flatMap(({ Message }) => (Message === undefined ? [] : [Message]));
  const why = [said, ...reasons].join("; ");
  return new StoreRefused("store_refused", `DynamoDB refuses this on "${tableName}": ${why}`, refused);
}

function reasonsOf(body: Record<string, unknown>): readonly CancellationReason[] {
  const reasons = body.CancellationReasons;
  return Array.isArray(reasons) ? (reasons as CancellationReason[]) : [];
}

/** The reasons of a cancelled transaction, or its own code without any. */
function reasonCodes({ body, code }: Refused): readonly string[] {
  const codes = reasonsOf(body).flatMap(({ Code }) => (Code === undefined || Code === "None" ? [] : [Code]));
  return codes.length === 0 ? [code] : codes;
}

function errorOf({ code, message, status }: Refused): Error {
  return Object.assign(new Error(`${code}: ${message}`), { code, status });
}

/** Never rejects, because the caller has been answered already. */
function laterOf(
  { later }: Extract<DynamoAnswer, { kind: "lost" }>,
  read: (late: DynamoAnswer) => ItemAnswer,
): { readonly later?: Promise<ItemAnswer> } {
  if (later === undefined) return {};
  return { later: later.then(read).catch((cause: unknown) => ({ kind: "unknown", cause })) };
}
