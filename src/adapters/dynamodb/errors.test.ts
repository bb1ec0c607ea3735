import assert from "node:assert/strict";
import { test } from "node:test";
import { LimiterError, NotFoundError, RateLimiterUnavailable } from "../../domain/names/errors.ts";
import type { DynamoAnswer } from "./client.ts";
import { decodeItem } from "./codec.ts";
import { itemAnswerOf, StoreRefused, transactionAnswerOf } from "./errors.ts";

const reader = { tableName: "limits", decode: decodeItem, after: { put: 1 } };

function failed(code: string, status = 400, body: Record<string, unknown> = {}): DynamoAnswer {
  return { kind: "failed", status, code, message: "as it is", body };
}

function cancelled(...codes: (string | object)[]): DynamoAnswer {
  const CancellationReasons = codes.map((code) => (typeof code === "string" ? { Code: code } : code));
  return failed("TransactionCanceledException", 400, { CancellationReasons });
}

/** The kind of an answer, and why it was refused. */
function said(answer: DynamoAnswer): string {
  const { kind, why } = transactionAnswerOf(answer, "limits") as { kind: string; why?: string };
  return why === undefined ? kind : `${kind} ${why}`;
}

test("an applied write shows the item, and a put what was put", () => {
  const body = { Attributes: { PK: { S: "x" }, rf: { N: "5" } } };
  assert.deepEqual(itemAnswerOf({ kind: "answered", body }, reader), { kind: "applied", item: { rf: 5 } });
  assert.deepEqual(itemAnswerOf({ kind: "answered", body: {} }, reader), { kind: "applied", item: { put: 1 } });
});

test("a condition that failed shows the item as it stood, or that there was none", () => {
  const seen = failed("ConditionalCheckFailedException", 400, { Item: { rf: { N: "5" } } });
  assert.deepEqual(itemAnswerOf(seen, reader), { kind: "failed", item: { rf: 5 } });
  const none = failed("ConditionalCheckFailedException");
  assert.deepEqual(itemAnswerOf(none, reader), { kind: "failed", item: undefined });
  const check = cancelled({ Code: "ConditionalCheckFailed", Item: { rf: { N: "5" } } });
  assert.deepEqual(itemAnswerOf(check, reader), { kind: "failed", item: { rf: 5 } });
});

test("what proves that nothing was written is a refusal", () => {
  for (const code of [
    "ProvisionedThroughputExceededException",
    "ThrottlingException",
    "RequestLimitExceeded",
    "Throttling",
  ]) {
    assert.equal(said(failed(code)), "refused throttled", code);
  }
  assert.equal(said(failed("SomethingNew", 429)), "refused throttled");
  assert.equal(said(failed("TransactionConflictException")), "refused conflict");
  assert.equal(said({ kind: "unsent", cause: 1 }), "refused unreachable");
});

test("what may have been written is unknown: a server that failed, a transaction that is still under way", () => {
  assert.equal(said(failed("InternalServerError", 500)), "unknown");
  assert.equal(said(failed("ServiceUnavailable", 503)), "unknown");
  assert.equal(said(failed("TransactionInProgressException")), "unknown");
  assert.equal(said({ kind: "lost", cause: 1 }), "unknown");
});

test("a cancelled transaction says why: a condition before all else, then what was in the way", () => {
  assert.equal(said(cancelled("None", "ConditionalCheckFailed")), "failed");
  assert.equal(said(cancelled("TransactionConflict", "ConditionalCheckFailed")), "failed");
  assert.equal(said(cancelled("TransactionConflict", "None")), "refused conflict");
  assert.equal(said(cancelled("ThrottlingError")), "refused throttled");
  assert.equal(said(cancelled("ProvisionedThroughputExceeded", "TransactionConflict")), "refused conflict");
});

test("what asking again cannot help is thrown, with a sentence, and never as unavailable", () => {
  const codes: readonly (readonly [DynamoAnswer, string, RegExp])[] = [
    [failed("ResourceNotFoundException"), "table_not_found", /no table "limits".*`createTable\(\)`/],
    [failed("AccessDeniedException"), "access_denied", /refuses access to "limits".*credentials/],
    [failed("UnrecognizedClientException"), "access_denied", /credentials/],
    [failed("ExpiredTokenException"), "access_denied", /credentials/],
    [failed("ValidationException"), "store_refused", /refuses this on "limits".*as it is/],
    [failed("SerializationException"), "store_refused", /as it is/],
    [failed("IdempotentParameterMismatchException"), "token_reused", /use a new token/],
    [failed("ItemCollectionSizeLimitExceededException"), "store_refused", /refuses this on "limits"/],
    [cancelled("None", { Code: "ValidationError", Message: "wrong type" }), "store_refused", /wrong type/],
    [cancelled("TransactionConflict", "ValidationError"), "store_refused", /refuses this/],
    [cancelled(), "store_refused", /TransactionCanceledException/],
  ];
  for (const [answer, code, sentence] of codes) {
    for (const ask of [() => itemAnswerOf(answer, reader), () => transactionAnswerOf(answer, "limits")]) {
      assert.throws(ask, (error) => {
        assert.ok(error instanceof LimiterError && !(error instanceof RateLimiterUnavailable));
        assert.ok(error instanceof (code === "table_not_found" ? NotFoundError : StoreRefused));
        assert.equal(error.code, code);
        assert.match(error.message, sentence);
        assert.ok(error.cause instanceof Error);
        return true;
      });
    }
  }
});

test("what comes late is told as an answer, and never rejects", async () => {
  const late = async (later: Promise<DynamoAnswer>) => {
    const answer = itemAnswerOf({ kind: "lost", cause: 1, later }, reader);
    assert.ok(answer.kind === "unknown" && answer.later !== undefined);
    return answer.later;
  };
  const body = { Attributes: { rf: { N: "5" } } };
  assert.deepEqual(await late(Promise.resolve({ kind: "answered", body })), { kind: "applied", item: { rf: 5 } });
  assert.equal((await late(Promise.resolve(failed("AccessDeniedException")))).kind, "unknown");
  assert.equal((await late(Promise.reject(new Error("gone")))).kind, "unknown");
  const transaction = transactionAnswerOf(
    { kind: "lost", cause: 1, later: Promise.resolve({ kind: "answered", body: {} }) },
    "limits",
  );
  assert.ok(transaction.kind === "unknown");
  assert.deepEqual(await transaction.later, { kind: "applied", item: {} });
});
