import type { Descriptor, Entry } from "../edge/plan-call.ts";
import type { EntryText } from "../edge/template.ts";
import { Reader, Writer } from "./wire.ts";

// The messages of envoy.service.ratelimit.v3, kuadrant.service.ratelimit.v1 and grpc.health.v1, each written and read in one place.

/** Envoy's question. */
interface RateLimitRequest {
  readonly domain: EntryText;
  readonly descriptors: readonly Descriptor[];
  /** 0: not said. */
  readonly hits: number;
  /** The number of descriptors that bring a limit of their own. */
  readonly limitsGiven: number;
}

export function readRateLimitRequest(bytes: Buffer): RateLimitRequest {
  const reader = new Reader(bytes);
  let domain: EntryText = "";
  let hits = 0;
  const reading = new DescriptorReading();
  for (let field = reader.next(); field !== 0; field = reader.next()) {
    if (field === 1) domain = reader.text() ?? domain;
    else if (field === 2) reading.add(reader.bytes());
    else if (field === 3) hits = reader.whole32() ?? hits;
    else reader.skip();
  }
  return { domain, descriptors: reading.descriptors, hits, limitsGiven: reading.limitsGiven };
}

/** Kuadrant's request for a reservation. */
interface ReserveRequest extends Omit<RateLimitRequest, "hits"> {
  readonly amount: number;
  /** Undefined: not said. */
  readonly ttlMs: number | undefined;
}

export function readReserveRequest(bytes: Buffer): ReserveRequest {
  const reader = new Reader(bytes);
  let domain: EntryText = "";
  let amount = 0;
  let ttlMs: number | undefined;
  const reading = new DescriptorReading();
  for (let field = reader.next(); field !== 0; field = reader.next()) {
    if (field === 1) domain = reader.text() ?? domain;
    else if (field === 2) reading.add(reader.bytes());
    else if (field === 3) amount = reader.whole() ?? amount;
    else if (field === 4) {
      const ttl = reader.bytes();
      if (ttl !== undefined) ttlMs = durationMs(ttl);
    } else reader.skip();
  }
  return { domain, descriptors: reading.descriptors, limitsGiven: reading.limitsGiven, amount, ttlMs };
}

/** Kuadrant's settlement of a reservation. */
interface CommitRequest extends Omit<RateLimitRequest, "hits"> {
  readonly reservationId: EntryText;
  readonly actualAmount: number;
}

export function readCommitRequest(bytes: Buffer): CommitRequest {
  const reader = new Reader(bytes);
  let domain: EntryText = "";
  let reservationId: EntryText = "";
  let actualAmount = 0;
  const reading = new DescriptorReading();
  for (let field = reader.next(); field !== 0; field = reader.next()) {
    if (field === 1) domain = reader.text() ?? domain;
    else if (field === 2) reading.add(reader.bytes());
    else if (field === 3) reservationId = reader.text() ?? reservationId;
    else if (field === 4) actualAmount = reader.whole() ?? actualAmount;
    else reader.skip();
  }
  return { domain, descriptors: reading.descriptors, limitsGiven: reading.limitsGiven, reservationId, actualAmount };
}

/** The name of the service whose health is asked for. */
export function readHealthRequest(bytes: Buffer): EntryText {
  const reader = new Reader(bytes);
  let service: EntryText = "";
  for (let field = reader.next(); field !== 0; field = reader.next()) {
    if (field === 1) service = reader.text() ?? service;
    else reader.skip();
  }
  return service;
}

class DescriptorReading {
  readonly descriptors: Descriptor[] = [];
  limitsGiven = 0;

  add(bytes: Buffer | undefined): void {
    if (bytes === undefined) return;
    const reader = new Reader(bytes);
    const entries: Entry[] = [];
    let hits: number | undefined;
    let isNegative = false;
    let hasLimit = false;
    for (let field = reader.next(); field !== 0; field = reader.next()) {
      if (field === 1) {
        const entry = reader.bytes();
        if (entry !== undefined) entries.push(readEntry(entry));
      } else if (field === 2) {
        hasLimit = reader.bytes() !== undefined || hasLimit;
      } else if (field === 3) {
        const wrapped = reader.bytes();
        if (wrapped !== undefined) hits = readWrapped(wrapped) ?? hits ?? 0;
      } else if (field === 4) {
        const flag = reader.whole();
        if (flag !== undefined) isNegative = flag !== 0;
      } else reader.skip();
    }
    if (hasLimit) this.limitsGiven += 1;
    this.descriptors.push({ entries, hits, isNegative });
  }
}

function readEntry(bytes: Buffer): Entry {
  const reader = new Reader(bytes);
  let key: EntryText = "";
  let value: EntryText = "";
  for (let field = reader.next(); field !== 0; field = reader.next()) {
    if (field === 1) key = reader.text() ?? key;
    else if (field === 2) value = reader.text() ?? value;
    else reader.skip();
  }
  return { key, value };
}

/** The number in a wrapper; undefined where the wrapper is empty, which stands for 0 or for what stood before. */
function readWrapped(bytes: Buffer): number | undefined {
  const reader = new Reader(bytes);
  let value: number | undefined;
  for (let field = reader.next(); field !== 0; field = reader.next()) {
    if (field === 1) value = reader.whole() ?? value;
    else reader.skip();
  }
  return value;
}

/** A duration, rounded up; one below 0 is 0. */
function durationMs(bytes: Buffer): number {
  const reader = new Reader(bytes);
  let [seconds, nanos] = [0, 0];
  for (let field = reader.next(); field !== 0; field = reader.next()) {
    if (field === 1) seconds = reader.whole() ?? seconds;
    else if (field === 2) nanos = reader.whole() ?? nanos;
    else reader.skip();
  }
  // Numbers below 0 are written as those above 2^63.
  if (seconds >= 2 ** 63 || nanos >= 2 ** 63) return 0;
  return seconds * 1000 + Math.ceil(nanos / 1_000_000);
}

export const OK = 1;
export const OVER_LIMIT = 2;
type RateLimitCode = typeof OK | typeof OVER_LIMIT;

/** The units of `RateLimit`, by their numbers. */
export const UNITS = { UNKNOWN: 0, SECOND: 1, MINUTE: 2, HOUR: 3, DAY: 4, MONTH: 5, YEAR: 6 } as const;

export interface CurrentLimit {
  readonly name: string;
  readonly requestsPerUnit: number;
  readonly unit: keyof typeof UNITS;
}

export interface DescriptorStatus {
  readonly code: RateLimitCode;
  readonly limit: CurrentLimit | undefined;
  readonly remaining: number;
  readonly resetMs: number | undefined;
}

type Fields = Readonly<Record<string, string>>;

/** Values of a `google.protobuf.Struct`. */
export type Metadata = Readonly<Record<string, string | number | null>>;

export interface RateLimitResponse {
  readonly overallCode: RateLimitCode;
  readonly statuses: readonly DescriptorStatus[];
  readonly responseHeaders: Fields;
  readonly requestHeaders: Fields;
  readonly rawBody: string | undefined;
  readonly metadata: Metadata;
}

const UINT32_MAX = 4_294_967_295;

/** `before`: so many bytes are left free in front of the message. */
export function writeRateLimitResponse(response: RateLimitResponse, before: number): Buffer {
  const writer = new Writer(before).whole(1, response.overallCode);
  for (const status of response.statuses) writer.message(2, (to) => writeStatus(to, status));
  writeFields(writer, 3, response.responseHeaders);
  writeFields(writer, 4, response.requestHeaders);
  if (response.rawBody !== undefined) writer.text(5, response.rawBody);
  const { metadata } = response;
  let hasSome = false;
  for (const _ in metadata) hasSome = true;
  if (hasSome) writer.message(6, (to) => writeStruct(to, metadata));
  return writer.bytes;
}

function writeStatus(to: Writer, { code, limit, remaining, resetMs }: DescriptorStatus): void {
  to.whole(1, code);
  if (limit !== undefined) {
    to.message(2, (within) => {
      const perUnit = Math.min(limit.requestsPerUnit, UINT32_MAX);
      if (perUnit > 0) within.whole(1, perUnit);
      if (limit.unit !== "UNKNOWN") within.whole(2, UNITS[limit.unit]);
      if (limit.name !== "") within.text(3, limit.name);
    });
  }
  if (remaining > 0) to.whole(3, Math.min(remaining, UINT32_MAX));
  if (resetMs !== undefined) {
    to.message(4, (within) => {
      const [seconds, ms] = [Math.floor(resetMs / 1000), resetMs % 1000];
      if (seconds > 0) within.whole(1, seconds);
      if (ms > 0) within.whole(2, ms * 1_000_000);
    });
  }
}

function writeFields(writer: Writer, field: number, fields: Fields): void {
  for (const name in fields) {
    writer.message(field, (to) => {
      to.text(1, name);
      const value = fields[name] as string;
      if (value !== "") to.text(2, value);
    });
  }
}

function writeStruct(writer: Writer, values: Metadata): void {
  for (const name in values) {
    const value = values[name] as string | number | null;
    writer.message(1, (to) => {
      to.text(1, name).message(2, (within) => {
        if (value === null) within.whole(1, 0);
        else if (typeof value === "number") within.double(2, value);
        else within.text(3, value);
      });
    });
  }
}

export function writeReserveResponse(code: RateLimitCode, reservationId: string, before: number): Buffer {
  const writer = new Writer(before).whole(1, code);
  if (reservationId !== "") writer.text(2, reservationId);
  return writer.bytes;
}

export function writeCommitResponse(isReleased: boolean, before: number): Buffer {
  const writer = new Writer(before);
  if (isReleased) writer.whole(1, 1);
  return writer.bytes;
}

/** The answers of `grpc.health.v1`, by their numbers. */
export const HEALTH = { SERVING: 1, NOT_SERVING: 2, SERVICE_UNKNOWN: 3 } as const;

export type Health = keyof typeof HEALTH;

export function writeHealthResponse(health: Health, before: number): Buffer {
  return new Writer(before).whole(1, HEALTH[health]).bytes;
}
