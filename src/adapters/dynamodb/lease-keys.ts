import { divCeil } from "../../bucket/integers.ts";
import { LEASE_REMEMBERED_MS } from "../../domain/lease/lease-record.ts";
import { RateLimiterUnavailable } from "../../domain/names/errors.ts";
import type { BeginReply, KeyBegin, LeaseReply } from "../../ports/lease-store.ts";
import type { KeyFinish, KeyMark } from "../../ports/lease-write.ts";
import { type Attributes, decodeNumber } from "./codec.ts";
import type { Records, WriteOnceReply } from "./records.ts";
import {
  all,
  any,
  type Condition,
  deleteRecord,
  isStill,
  missing,
  putRecord,
  type RecordWrite,
  updateRecord,
} from "./records-write.ts";
import { KEY_ANSWER, KEY_FINGERPRINT, KEY_FORGOTTEN, KEY_MARK, KEY_UNTIL, TTL } from "./schema.ts";
import { idempotencyKey } from "./schema-leases.ts";

/** Idempotency keys of one namespace: an item each, which TTL removes. */
export class LeaseKeys {
  readonly #records: Records;
  readonly #namespaceId: string;

  constructor(records: Records, namespaceId: string) {
    this.#records = records;
    this.#namespaceId = namespaceId;
  }

  async begin({ key, mark, fingerprint, nowMs, untilMs }: KeyBegin): Promise<BeginReply> {
    const free = any(
      missing,
      all(isStill(KEY_ANSWER, undefined), notAfter(KEY_UNTIL, nowMs)),
      notAfter(KEY_FORGOTTEN, nowMs),
    );
    const item = {
      [KEY_MARK]: { S: mark },
      [KEY_FINGERPRINT]: { S: fingerprint },
      [KEY_UNTIL]: { N: String(untilMs) },
      ...rememberedFrom(nowMs),
    };
    const reply = required(await this.#records.writeOne(putRecord(this.#key(key), item, free)));
    // With our mark: an earlier attempt was applied, and its answer was lost.
    if (reply.kind === "applied" || reply.item?.[KEY_MARK]?.S === mark) return { kind: "begun" };
    const known = reply.item ?? {};
    return {
      kind: "known",
      record: {
        key,
        mark: known[KEY_MARK]?.S ?? "",
        fingerprint: known[KEY_FINGERPRINT]?.S ?? "",
        answer: known[KEY_ANSWER]?.S,
        untilMs: decodeNumber(known[KEY_UNTIL]?.N ?? "0", KEY_UNTIL),
      },
    };
  }

  async renew({ key, mark }: KeyMark, untilMs: number): Promise<boolean> {
    const change = { set: { [KEY_UNTIL]: { N: String(untilMs) } } };
    const reply = required(await this.#records.writeOne(updateRecord(this.#key(key), change, underWay(mark))));
    return reply.kind === "applied";
  }

  async release({ key, mark }: KeyMark): Promise<void> {
    required(await this.#records.writeOne(deleteRecord(this.#key(key), underWay(mark))));
  }

  async finish(finish: KeyFinish): Promise<LeaseReply> {
    const reply = await this.#records.writeOne(this.finishWrite(finish));
    if (reply.kind === "unavailable") return reply;
    return reply.kind === "applied" ? { kind: "stored" } : { kind: "keyLost" };
  }

  /** Writes the answer, also where the same one is there already: then this is a repeat. */
  finishWrite({ key, mark, answer, nowMs }: KeyFinish): RecordWrite {
    const set: Attributes = { [KEY_ANSWER]: { S: answer }, ...rememberedFrom(nowMs) };
    const unanswered = any(isStill(KEY_ANSWER, undefined), isStill(KEY_ANSWER, { S: answer }));
    return updateRecord(this.#key(key), { set }, all(isStill(KEY_MARK, { S: mark }), unanswered));
  }

  #key(key: string) {
    return idempotencyKey(this.#namespaceId, key);
  }
}

function rememberedFrom(nowMs: number): Attributes {
  const forgottenMs = nowMs + LEASE_REMEMBERED_MS;
  return { [KEY_FORGOTTEN]: { N: String(forgottenMs) }, [TTL]: { N: String(divCeil(forgottenMs, 1000)) } };
}

function underWay(mark: string): Condition {
  return all(isStill(KEY_MARK, { S: mark }), isStill(KEY_ANSWER, undefined));
}

function notAfter(name: string, nowMs: number): Condition {
  return (e) => `${e.name(name)} <= ${e.value({ N: String(nowMs) })}`;
}

/** The reply of a write that has no answer for an outage: it throws. */
function required(reply: WriteOnceReply): Exclude<WriteOnceReply, { kind: "unavailable" }> {
  if (reply.kind !== "unavailable") return reply;
  if (reply.cause instanceof RateLimiterUnavailable) throw reply.cause;
  throw new RateLimiterUnavailable("The table did not respond in time.", { cause: reply.cause });
}
